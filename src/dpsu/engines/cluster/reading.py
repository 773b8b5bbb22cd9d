"""Users and items of the partitions of a frame, for engines that do not make ids themselves.

Cells become ids by the code of one machine, partition by partition. The types of all partitions
are those that were declared: a user who is text in one partition and an integer in another would be
two.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpsu.contributions.codecs import Codec
from dpsu.contributions.id_columns import Column, lose_nothing
from dpsu.contributions.pairs import Tally, report_lost, report_nothing
from dpsu.engines.cluster.engine import Engine, Query, Table
from dpsu.engines.cluster.steps import Batches, Job
from dpsu.errors import DataError
from dpsu.inputs import frames
from dpsu.inputs.keyed import Keyed, label
from dpsu.inputs.reading import to_read, wanted
from dpsu.plans.plan import Plan
from dpsu.plans.public_data import PublicData
from dpsu.randomness.keys import Key

# What is noted of a partition with a row that has a user and an item.
COMPLETE = ""


@dataclass(frozen=True, repr=False)
class Reader:
    """Makes ids of the users and items of a partition; `declared` has their types and no row."""

    columns: tuple[Column, ...]
    declared: pa.Table

    @classmethod
    def of(cls, empty: Any, plan: Plan) -> Reader:
        """What reads the columns that the plan names, in frames like this one, of no rows.

        Refuses what names and types show to be wrong.
        """
        user, item = plan.user, plan.item
        columns = wanted(user.columns, item.columns, None, types=(user.type, item.type))
        declared = frames.columns_of(empty, to_read(columns), lose_nothing)
        reader = cls(tuple(columns), declared)
        schema, codec = reader.schema()
        public = plan.knowledge.public_items
        if public is not None:
            public.refuse_other_than(codec)
            public.as_type(schema.field("item").type)
        return reader

    def query(
        self, engine: Engine[Table], rows: Table, plan: Plan, key: Key, partitions: int
    ) -> Query[Table]:
        """A release of rows that this has read."""
        schema, codec = self.schema()
        integral = pa.types.is_integer(schema.field("item").type)
        # Public data travel once, beside the plan.
        known, lean = plan.knowledge, plan.with_knowledge(PublicData())
        type_ = pa.int64() if integral else pa.string()
        job = Job(lean, key, partitions, type_, known.prior, known.public_items)
        return Query(engine, rows, job, codec)

    @property
    def names(self) -> tuple[str, str]:
        """The columns of users and of items, as messages name them."""
        keyed = Keyed(self.columns)
        return label(keyed.users), label(keyed.items)

    def schema(self) -> tuple[pa.Schema, Codec]:
        """The types of ids, and the values that those of items stand for."""
        keyed = Keyed(self.columns)
        (batch,) = self._ids(keyed, self.declared)
        return batch.schema, keyed.item_keys.codec

    def __call__(self, tally: Tally, parts: Iterator[Any]) -> Batches:
        """Batches of users and items; what is left out, and that something is not, is tallied."""
        (user, item), (schema, _) = self.names, self.schema()
        for part in parts:
            table = frames.columns_of(part, to_read(self.columns), tally.lose)
            keyed = Keyed(self.columns, tally)
            # Kinds of cells that differ from those that are declared are refused.
            keyed.columns_of(self.declared)
            for batch in self._ids(keyed, table):
                complete = pc.and_(batch.column(0).is_valid(), batch.column(1).is_valid())
                if not pc.all(complete, min_count=0).as_py():
                    tally.lose(f"some rows have no {user!r} or no {item!r}")
                if pc.any(complete).as_py():
                    tally.lose(COMPLETE)
                yield _typed(batch, schema)

    def _ids(self, keyed: Keyed, table: pa.Table) -> Iterator[pa.RecordBatch]:
        users, items, _ = keyed.columns_of(table)
        both = pa.table({"user": users, "item": items})
        types = (keyed.users[0].declared, keyed.items[0].declared)
        columns = [
            Column(name, option, type_)
            for name, option, type_ in zip(self.names, both.column_names, types, strict=True)
        ]
        for batch in both.to_batches() or [_without_rows(both.schema)]:
            ids = [
                column.canonical_ids(_decoded(cells), keyed.tally.lose)
                for column, cells in zip(columns, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(ids, names=both.column_names)


def report_notes(plan: Plan, notes: Collection[str], strict: bool) -> None:
    """Warn of what was left out while partitions were read, as the local engine does."""
    tally = Tally(None)
    for note in notes:
        if note != COMPLETE:
            tally.lose(note)
    report_lost(tally, strict)
    if COMPLETE not in notes:
        without = f"no row has both {plan.user.name!r} and {plan.item.name!r}"
        report_nothing(tally, strict, without)


def _decoded(cells: pa.Array) -> pa.Array:
    return cells.dictionary_decode() if pa.types.is_dictionary(cells.type) else cells


def _without_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, type_) for type_ in schema.types], schema=schema)


def _typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same ids; a partition without any cell has no type of its own."""
    if any(
        not here.equals(there) and cells.null_count < len(cells)
        for here, there, cells in zip(batch.schema.types, schema.types, batch.columns, strict=True)
    ):
        raise DataError("a partition of the data has other types than the first declares; cast it")
    return batch.cast(schema)
