"""Ids of the partitions of a frame: those of one machine, in the types that were declared."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import dpsu
from dpsu.contributions.pairs import Tally
from dpsu.engines.cluster.losses import COMPLETE, report_notes
from dpsu.engines.cluster.reading import Reader
from tests.support import clusters
from tests.support.cases import every

TEXT = pa.table({"user": ["1", "2"], "item": ["x", "y"]})
WHOLE = pa.table({"user": [1, 2], "item": ["x", "y"]})


def plan_of(**options: Any) -> dpsu.Plan:
    return dpsu.plan(
        epsilon=4.0, delta=0.05, mechanism="weighted-gaussian", insecure_seed=1, **options
    )


def read(declared: pa.Table, part: Any, **options: Any) -> tuple[pa.Table, set[str]]:
    """What is read of a part of a frame that declares the types of another, and what is noted."""
    tally, reader = Tally(None), Reader.of(declared.slice(0, 0), plan_of(**options))
    return pa.Table.from_batches(reader(tally, iter([part])), reader.schema()[0]), set(tally.lost)


@every(("declared", "part"), [(TEXT, WHOLE), (WHOLE, TEXT)])
def test_types_that_were_not_declared_are_refused(declared: pa.Table, part: pa.Table) -> None:
    """A user who is text in one partition and an integer in another would be two users."""
    with pytest.raises(dpsu.DataError, match="make them the same") as caught:
        read(declared, part)
    assert "1" not in str(caught.value)
    both = {"user": dpsu.Users(type="text")}
    assert read(declared, part, **both)[0]["user"].to_pylist() == ["1", "2"]


def test_a_part_without_any_cell_has_the_declared_types() -> None:
    nobody = pa.table({"user": pa.nulls(2), "item": ["x", "y"]})
    found, notes = read(WHOLE, nobody)
    assert found["user"].type == pa.int64()
    assert notes == {"some rows have no 'user' or no 'item'"}
    assert read(WHOLE, WHOLE.slice(0, 0))[1] == set()
    assert read(WHOLE, WHOLE)[1] == {COMPLETE}


def test_notes_become_the_warnings_of_one_machine() -> None:
    """Some cells have no id, some rows are not complete, or none is."""
    plan, table = plan_of(item=dpsu.Items(type="integer")), pa.table({"user": ["a"], "item": ["x"]})
    with pytest.warns(dpsu.DataWarning) as here:
        dpsu.release(table, plan)
    with pytest.warns(dpsu.DataWarning) as there:
        assert clusters.twin_release(table, plan).items == ()
    told = [[str(warning.message) for warning in each] for each in (here, there)]
    assert told[0] == told[1]
    assert len(told[0]) == 4
    with pytest.raises(dpsu.DataError, match="are not integers"):
        clusters.twin_release(table, plan, strict=True)
    with pytest.raises(dpsu.DataError, match="no row has both 'user' and 'item'; check"):
        report_notes(plan, set(), strict=True)
