"""What a round does to each pair and each item, counted and not timed."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from dpsu.kernels import rounds as kernels
from tests.support import sieve_probes


def test_a_cap_is_looked_up_once_for_all_users_of_a_class_and_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_up: list[float] = []

    largest_cap = kernels.largest_cap

    def watched(caps: Any, crossing: Any, limit: float) -> Any:
        looked_up.append(limit)
        return largest_cap(caps, crossing, limit)

    plain = cast(Any, kernels.attend).py_func
    monkeypatch.setitem(plain.__globals__, "largest_cap", watched)
    asked: list[int] = []
    monkeypatch.setitem(plain.__globals__, "prefetch", lambda table, at: asked.append(at))
    rng = np.random.default_rng(4)
    users, n_items = 300, 50
    sizes = rng.choice([2, 5, 9], users)
    stop = np.cumsum(sizes)
    items = np.concatenate([rng.choice(n_items, size, replace=False) for size in sizes])
    of_item = np.zeros(n_items, kernels.OF_ITEM).view(np.recarray)
    of_item["attention"] = 1.0
    plain(
        stop - sizes, stop, items.astype(np.int32), (sizes > 3).astype(np.uint16), np.ones(2),
        np.ones(2), np.linspace(0.1, 1.0, 9), np.geomspace(1e-3, 1.0, 9), 1.0, 2.0**20, 0, users,
        of_item,
    )  # fmt: skip
    assert len(looked_up) == 3
    # Every pair but the first few was asked for ahead of time, once.
    assert len(asked) == len(items) - kernels.AHEAD


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
