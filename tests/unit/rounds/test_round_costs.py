"""What a round does to each pair and each item, counted and not timed."""

from __future__ import annotations

import numpy as np

from tests.support import sieve_probes


def test_a_phase_begins_with_sets_that_lie_side_by_side() -> None:
    rng = np.random.default_rng(5)
    held = [rng.choice(60, size, replace=False).tolist() for size in rng.integers(1, 40, 200)]
    engine = sieve_probes.engine_of(held, 60)
    engine.choose(30, None)
    attention = np.where(rng.random(60) < 0.5, 0.0, rng.random(60))
    engine.choose(10, attention)
    sets = engine.held
    assert sets.start[0] == 0
    assert (sets.start[1:] == sets.stop[:-1]).all()
