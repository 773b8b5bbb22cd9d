"""Users and items of the partitions of a frame, for engines that do not make ids themselves.

Cells become ids by the code of one machine, partition by partition. The types of all partitions
are those that were declared: a user who is text in one partition and an integer in another would be
two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dpsu.contributions.codecs import Codec
from dpsu.contributions.id_columns import Column, Lose, lose_nothing
from dpsu.contributions.id_types import INTEGER_TYPE
from dpsu.contributions.ids import decoded
from dpsu.contributions.pairs import Tally
from dpsu.contributions.samples import Sample
from dpsu.engines.cluster.engine import Engine, Query, Table
from dpsu.engines.cluster.losses import COMPLETE, incomplete
from dpsu.engines.cluster.steps import Batches, Job
from dpsu.engines.cluster.texts import portable, without_function
from dpsu.engines.cluster.values import Read
from dpsu.errors import DataError
from dpsu.inputs import frames
from dpsu.inputs.keyed import Keyed, label, no_rows
from dpsu.inputs.melted import Melted
from dpsu.inputs.reading import to_read, wanted
from dpsu.inputs.values import Chains, Values, naming_columns
from dpsu.plans.plan import Plan
from dpsu.plans.public_data import PublicData
from dpsu.randomness.keys import Key


@dataclass(frozen=True, repr=False)
class Reader:
    """Makes ids of the users and items of a partition; `declared` has their types and no row.

    Of values of many columns, `kinds` has the columns of each kind of item. Texts stay as they are.
    """

    columns: tuple[Column, ...]
    declared: pa.Table
    kinds: Chains = ()

    @classmethod
    def of(cls, empty: Any, plan: Plan) -> Reader:
        """What reads the columns that the plan names, in frames like this one, of no rows.

        Refuses what names and types show to be wrong.
        """
        kinds = plan.item.kinds if isinstance(plan.item, Values) else ()
        with naming_columns(plan.item):
            columns = wanted(plan.user, plan.item)
            declared = frames.columns_of(empty, to_read(columns), lose_nothing)
            reader = cls(tuple(columns), declared, kinds)
            schema, codec = reader.schema()
        public = plan.knowledge.public_items
        if public is not None:
            public.refuse_other_than(codec)
            public.as_type(schema.field("item").type)
        return reader

    @property
    def names(self) -> tuple[str, str]:
        """The columns of users and of items, as messages name them."""
        return label(self._users), label(self._items)

    @property
    def _users(self) -> list[Column]:
        return [column for column in self.columns if column.option == "user"]

    @property
    def _items(self) -> list[Column]:
        return [column for column in self.columns if column.option != "user"]

    @property
    def _in_texts(self) -> bool:
        return self._items[0].option == "text"

    def schema(self) -> tuple[pa.Schema, Codec]:
        """The types of ids, and the values that those of items stand for."""
        keyed = self._keyed(Tally(None))
        batch = next(self._ids(keyed, self.declared))
        return batch.schema, keyed.item_keys.codec

    def __call__(self, tally: Tally, parts: Iterator[Any]) -> Batches:
        """Batches of users and items; what is left out, and that something is not, is tallied.

        Of texts, those who tokenize them tell what is left out.
        """
        schema = self.schema()[0]
        for part in parts:
            table = self._read(part, tally.lose)
            keyed = self._keyed(tally)
            # Kinds of cells that differ from those that are declared are refused.
            keyed.columns_of(self.declared)
            for batch in self._ids(keyed, table):
                if not self._in_texts:
                    self._note(batch, tally)
                yield _typed(batch, schema)

    def _read(self, part: Any, lose: Lose) -> pa.Table:
        """The columns of a partition, with numbers read as the types that the frame declares."""
        types, columns = self.declared.schema.types, to_read(self.columns)
        wanted = [
            replace(column, declared=INTEGER_TYPE)
            if pa.types.is_integer(type_) and column.declared is None
            else column
            for column, type_ in zip(columns, types, strict=True)
        ]
        table = frames.columns_of(part, wanted, lose)
        cells = [
            column.as_declared(each.combine_chunks(), type_, lose)
            for column, each, type_ in zip(columns, table.columns, types, strict=True)
        ]
        return pa.table(cells, names=table.column_names)

    def by_place(self, tally: Tally, tables: Iterator[pa.Table]) -> Batches:
        """The same of Arrow tables that have the declared columns in their order, by any names."""
        names = self.declared.column_names
        return self(tally, (table.rename_columns(names) for table in tables))

    def _note(self, batch: pa.RecordBatch, tally: Tally) -> None:
        complete = pc.and_(batch.column(0).is_valid(), batch.column(1).is_valid())
        if not pc.all(complete, min_count=0).as_py():
            tally.lose(incomplete(*self.names))
        if pc.any(complete).as_py():
            tally.lose(COMPLETE)

    def _keyed(self, tally: Tally) -> Keyed | Melted:
        """What makes one column of users and one of items of those that are read."""
        if self.kinds:
            return Melted(self.columns, self.kinds, tally)
        return Keyed(self.columns, tally)

    def _ids(self, keyed: Keyed | Melted, table: pa.Table) -> Iterator[pa.RecordBatch]:
        users, items, _ = keyed.columns_of(table)
        both = pa.table({"user": users, "item": items})
        # Ids of values are texts that are made of typed cells.
        of_items = None if self.kinds else self._items[0].declared
        user = Column(self.names[0], "user", self._users[0].declared)
        item = Column(self.names[1], "item", of_items)
        for batch in both.to_batches() or [no_rows(both.schema)]:
            whose, what = map(decoded, batch.columns)
            ids = [
                user.canonical_ids(whose, keyed.tally.lose),
                _texts(what) if self._in_texts else item.canonical_ids(what, keyed.tally.lose),
            ]
            yield pa.RecordBatch.from_arrays(ids, names=both.column_names)


def query_of(
    engine: Engine[Table],
    rows: Table,
    plan: Plan,
    key: Key,
    partitions: int,
    ids: tuple[pa.DataType, Codec],
    *,
    strict: bool = False,
    sample: Sample | None = None,
    read: Read | None = None,
) -> Query[Table]:
    """A release of rows; `ids` are the type of those of items, and which values they stand for."""
    integral = pa.types.is_integer(ids[0])
    type_ = pa.int64() if integral else pa.string()
    # Public data travel once, beside the plan.
    known, lean = plan.knowledge, without_function(plan.with_knowledge(PublicData()))
    job = Job(lean, key, partitions, type_, known.prior, known.public_items, strict, sample)
    return Query(engine, rows, job, ids[1], portable(plan), read)


def _texts(cells: pa.Array) -> pa.Array:
    """Texts as they are; whoever tokenizes them tells those that are no text."""
    if pa.types.is_null(cells.type):
        return pa.nulls(len(cells), pa.large_string())
    return cells.cast(pa.large_string())


def _typed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same ids, with the declared types; a partition without any cell has none of its own.

    Integers become their digits if unsigned ones are declared.
    """
    if any(
        not here.equals(there) and cells.null_count < len(cells) and not pa.types.is_integer(here)
        for here, there, cells in zip(batch.schema.types, schema.types, batch.columns, strict=True)
    ):
        raise DataError("a partition of the data has other types than the first declares; cast it")
    return batch.cast(schema)
