"""Values of many columns on a cluster: a row is melted alone, and sent to its user."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsu
from dpsu.contributions.kinds import KindsCodec
from dpsu.contributions.pairs import Tally
from dpsu.engines.cluster import values
from dpsu.engines.cluster.losses import COMPLETE, notes_of, reasons
from dpsu.engines.cluster.messages import LOST, ROWS, arrived, unpack
from dpsu.engines.cluster.reading import Reader
from dpsu.engines.cluster.steps import Guarded, Job
from dpsu.engines.cluster.values import SendValues
from dpsu.randomness.keys import Key
from tests.support import clusters
from tests.support.cases import every

BUDGET: dict[str, Any] = {
    "epsilon": 4.0, "delta": 0.05, "mechanism": "weighted-gaussian", "insecure_seed": 1
}  # fmt: skip
SCHEMA = pa.schema(
    [
        ("kind", pa.string()), ("id", pa.int32()), ("size", pa.float64()),
        ("born", pa.timestamp("ms")), ("job", pa.binary()), ("tags", pa.list_(pa.string())),
    ]
)  # fmt: skip
ITEM = dpsu.Values(
    ["kind", "tags"],
    levels=["kind", "size", "born"],
    types={"size": "integer"},
)
FAR = pa.scalar(10**17, pa.timestamp("ms"))


def table_of(*rows: tuple[Any, ...]) -> pa.Table:
    columns = [
        pa.array([row[at] for row in rows], type_) for at, type_ in enumerate(SCHEMA.types[:5])
    ]
    return pa.table([*columns, pa.array([["t"]] * len(rows), SCHEMA.types[5])], schema=SCHEMA)


def plan_of(**options: Any) -> dpsu.Plan:
    given: dict[str, Any] = BUDGET | {"user": ["id", "job"], "item": ITEM} | options
    return dpsu.plan(**given)


def step_of(plan: dpsu.Plan, *, partitions: int = 2, strict: bool = False) -> SendValues:
    job = Job(plan, Key.from_insecure_seed(1), partitions, pa.string(), strict=strict)
    return SendValues(job, Reader.of(SCHEMA.empty_table(), plan))


def held(step: SendValues, table: pa.Table) -> set[tuple[str, str]]:
    """Who holds what, by the messages of a step."""
    found = set()
    for message in arrived(step(iter(table.to_batches(max_chunksize=3)))):
        if message.kind == ROWS:
            part = {name: each.to_pylist() for name, each in unpack(message.data).items()}
            owners = np.repeat(part["users"], part["sizes"])
            found |= {
                (str(user), part["items"][code])
                for user, code in zip(owners, part["codes"], strict=True)
            }
    return found


@every("at_once", [1, 4, 1 << 16])
def test_a_row_leads_to_items_of_its_own_user_by_its_own_cells(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So whoever leaves takes their own items along, and nobody else's change."""
    monkeypatch.setattr(values, "ROWS_OF_TABLE", at_once)
    rows = [
        ("a", 1, 3.0, 5, b"x"),
        ("a", 1, None, 5, b"y"),
        (None, 2, 3.0, 5, b"x"),
        ("b", 2, 4.0, None, b"x"),
        ("c", None, 3.0, 5, b"x"),
    ]
    step = pickle.loads(pickle.dumps(step_of(plan_of())))
    alone = [held(step, table_of(row)) for row in rows]
    users = [{user for user, _ in each} for each in alone]
    assert [len(each) for each in users] == [1, 1, 1, 1, 0]
    assert len(set.union(*users)) == 3
    assert sorted(item.split("\t")[0] for _, item in alone[0]) == ["0", "1", "2", "3"]
    assert {item for _, item in alone[1]} == {"0\ta", "1\tt"}
    assert {item for _, item in alone[2]} == {"1\tt"}
    assert held(step, table_of(*rows)) == set.union(*alone)
    assert held(step, table_of(*reversed(rows), *rows)) == set.union(*alone)


def test_what_is_left_out_is_told_by_reasons_and_nothing_else() -> None:
    """Every reason that one machine has is in the list of places that messages name."""
    secret = b"\xff secret"
    table = table_of(
        ("a", 1, 3.5, FAR, b"x"), ("a", None, 3.0, 5, secret), ("b", 2, 2.0, 5, b"y")
    )  # fmt: skip
    plan, tally = plan_of(), Tally(None)
    step = step_of(plan)
    list(Reader.of(SCHEMA.empty_table(), plan)(tally, iter([table])))
    seen = set(tally.lost) - {COMPLETE}
    assert len(seen) == 3
    assert seen <= set(reasons(plan))
    messages = list(Guarded(step)(iter(table.to_batches())))
    assert notes_of(Guarded(step), messages) == seen | {COMPLETE}
    assert all(message.data == b"" for message in arrived(iter(messages)) if message.kind == LOST)
    assert notes_of(step, step(iter(SCHEMA.empty_table().to_batches()))) == frozenset()
    with pytest.raises(RuntimeError, match="do without strict") as refused:
        list(Guarded(step_of(plan, strict=True))(iter(table.to_batches())))
    assert "secret" not in str(refused.value)


def test_reasons_are_those_of_one_machine() -> None:
    """Texts that are no integers or no UTF-8, fractions, lists that are missing, far days."""
    broken = pa.array([b"\xff", b"x"]).view(pa.string())
    table = pa.table(
        {
            "id": pa.array([1, None]), "text": broken, "number": ["7", "x"], "part": [0.5, 1.0],
            "tags": [None, ["t"]], "born": pa.array([10**17, 5], pa.timestamp("ms")),
            "large": pa.array([2**64 - 1, 5], pa.uint64()),
        }
    )  # fmt: skip
    types = {"number": "integer", "part": "integer"}
    plan = plan_of(user="id", item=dpsu.Values(table.column_names[1:], types=types))
    told = []
    for release in (dpsu.release, clusters.twin_release):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", dpsu.DataWarning)
            release(table, plan)
        told.append({str(each.message).partition("; they")[0] for each in caught})
    assert told[0] == told[1]
    assert len(told[0] & set(reasons(plan))) == 6


def test_users_take_columns_of_values_and_names_that_collide() -> None:
    """A column called as the mark of kinds, and one that users and values share."""
    rows = [("kind", 1 + at % 40, float(at % 3), at % 2, b"x") for at in range(400)]
    table = table_of(*rows)
    plan = plan_of(user=["id", "kind"], counts=True)
    here, there = dpsu.release(table, plan), clusters.twin_release(table, plan)
    assert here.items
    assert there.to_arrow().equals(here.to_arrow())
    with pytest.raises(dpsu.ParameterError, match="the person to protect"):
        clusters.twin_release(table, plan_of(user="kind"))
    with pytest.raises(dpsu.ParameterError, match=r"no column 'jop'.*the right columns"):
        clusters.twin_release(table, plan_of(item=dpsu.Values(["jop"])))


def test_children_come_with_their_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those whose parents are not selected themselves, of which there are some here."""
    rows = [(at // 2, f"r{at % 150}", f"c{at % 150}") for at in range(600)]
    names = ["id", "region", "city"]
    table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    plan = plan_of(user="id", item=dpsu.Values(levels=["region", "city"]), counts=True)
    here, there = dpsu.release(table, plan), clusters.twin_release(table, plan)
    assert there.to_arrow().equals(here.to_arrow())
    found = dpsu.Domains(there)
    assert found["city"]
    for region, cities in found.levels["region", "city"].items():
        assert set(cities) <= {f"c{region[1:]}"}
    monkeypatch.setattr(KindsCodec, "with_implied", lambda codec, ids: ids)
    assert len(clusters.twin_release(table, plan)) < len(there)


def test_columns_go_by_their_places() -> None:
    """Spark's functions take no names with dots, so that columns come under other names."""
    plan = plan_of()
    reader = Reader.of(SCHEMA.empty_table(), plan)
    table = table_of(("a", 1, 3.0, 5, b"x"), ("b", 2, 4.0, None, b"y"))
    chosen = table.select(reader.declared.column_names)
    renamed = chosen.rename_columns([f"c{at}" for at in range(chosen.num_columns)])
    by_name = list(reader(Tally(None), iter([table])))
    assert list(reader.by_place(Tally(None), iter([renamed]))) == by_name
