"""Partitions beyond all measure: more of them than there are users, and most without any."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dpsu.engines.cluster.steps import Job
from dpsu.randomness.keys import Key
from tests.support import clusters, flat
from tests.support.cases import every

BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 0.05, "insecure_seed": 6}


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:insecure_seed")
@every(
    ("mechanism", "options"),
    [
        ("weighted-gaussian", {"max_items": 4}),
        ("reroute", {"max_items": 4}),
        ("sieve", {"rounds": 3}),
    ],
)
def test_two_thousand_partitions(mechanism: str, options: dict[str, Any]) -> None:
    table = clusters.random_table(np.random.default_rng(6), "int-text")
    plan = flat.plan(mechanism=mechanism, **options, **BUDGET)
    job = Job(plan, Key.from_insecure_seed(6), 2000, pa.string())
    expected = flat.release(table, mechanism=mechanism, **options, **BUDGET).items
    assert len(expected) > 3
    assert clusters.released(table, job, random.Random(6)) == list(expected)
