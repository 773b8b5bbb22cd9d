"""A release on any cluster: what an engine has to do, and the query that is made of it.

An engine maps batches of rows by a step, brings the messages to one partition together, and sums
integers by item. Which steps there are, and in which order, is decided here, once for all engines;
what the steps compute does not depend on the engine (`docs/proofs/cluster.md`).

    rows -> SendRows -> together -> Weigh -> sum_by_item -> FlipCoins -> items
    rows -> SendRows -> together -> Ask 0 -> together -> Answer 0 -> together -> Ask 1 ... -> items
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpsu.contributions.codecs import Codec
from dpsu.contributions.ids import Ids, integers
from dpsu.engines.cluster.conversations import conversation_of
from dpsu.engines.cluster.messages import SCHEMA
from dpsu.engines.cluster.ngrams import ClusterTexts, FlipGrams, WeighGrams
from dpsu.engines.cluster.rounds import steps_of
from dpsu.engines.cluster.steps import (
    AddNoise,
    Batches,
    Count,
    CountSizes,
    FlipCoins,
    Guarded,
    Job,
    Weigh,
)
from dpsu.engines.cluster.texts import sender
from dpsu.engines.cluster.values import Read
from dpsu.engines.estimates import CLASSES, estimate
from dpsu.engines.local_texts import all_lengths
from dpsu.plans.mechanisms import Choice
from dpsu.rounds.ngrams import NGramRounds
from dpsu.text.spec import Tokenizer

Table = TypeVar("Table")
Step = Callable[[Batches], Batches]

# Columns of the tables between steps, besides those of messages.
SIZES = pa.schema([("class", pa.int64()), ("number", pa.int64())])


class Engine(Protocol[Table]):
    """What runs a release: three primitives over tables of its own, and a way to fetch one.

    Tables may be lazy, spread over machines, and computed more than once. Columns have the types
    int32, int64, string and binary. No primitive looks at the data of a message, and none keeps an
    order of rows.
    """

    def map_batches(self, rows: Table, step: Step, columns: pa.Schema) -> Table:
        """All rows that `step` makes of batches of rows; `columns` are those of its output.

        A step is called once for each task, with an iterator over all batches of the task and of no
        other. It can be pickled, and its `__name__` may be shown.
        """

    def together(self, messages: Table, partitions: int) -> Table:
        """The same messages, each once; all of those with the same `to` are in one task.

        `to` is below `partitions`. A task may have messages to several partitions, or none.
        """

    def sum_by_item(self, numbers: Table) -> Table:
        """One row for each different `item`, with the sum of its `number`s; null is an item.

        Sums are exact, in 64 bits.
        """

    def collect(self, rows: Table) -> pa.Table:
        """All rows, on the machine that asks; errors quote no values of the data."""


@dataclass(frozen=True, repr=False)
class Query(Generic[Table]):
    """A release that has not run: rows in, released items out.

    The first column of `rows` is the user and the second the item, as ids or as what becomes ids;
    or a text, of which a tokenizer makes items. Rows of a wide table have other columns, of which
    `read` makes users and items.
    """

    engine: Engine[Table]
    rows: Table
    job: Job
    codec: Codec
    tokenizer: Tokenizer | None = None
    read: Read | None = None

    def items(self) -> Table:
        """The released items, in no order."""
        conversation = conversation_of(self.job.plan)
        if conversation is None:
            given = self._mapped(self._rows_by_user(), Weigh(self.job), self._numbers)
            return self._mapped(self.engine.sum_by_item(given), FlipCoins(self._lean), self._items)
        *before, last = steps_of(self.job, self._lean, conversation)
        now = self._rows_by_user()
        for step in before:
            now = self._together(self._mapped(now, step, SCHEMA))
        return self._mapped(now, last, self._items)

    def grams(self, weigh: WeighGrams, flip: FlipGrams) -> Table:
        """Grams of one length: what is released, and what the driver asks of others. PRIVATE."""
        columns = pa.schema([("item", weigh.job.item_type), ("number", pa.int64())])
        given = self._mapped(self._rows_by_user(), weigh, columns)
        return self._mapped(self.engine.sum_by_item(given), flip, columns)

    def set_sizes(self) -> Table:
        """How many users have sets of each class of sizes, partition by partition. PRIVATE."""
        return self._mapped(self._rows_by_user(), CountSizes(self.job), SIZES)

    def counts(self, released: pa.Array) -> Table:
        """Noisy numbers of users of those released items that somebody holds, in no order."""
        held = self._mapped(self._rows_by_user(), Count(self._lean, released), self._numbers)
        return self._mapped(self.engine.sum_by_item(held), AddNoise(self._lean), self._numbers)

    @property
    def _items(self) -> pa.Schema:
        return pa.schema([("item", self.job.item_type)])

    @property
    def _numbers(self) -> pa.Schema:
        return pa.schema([("item", self.job.item_type), ("number", pa.int64())])

    @property
    def _lean(self) -> Job:
        return replace(self.job, prior=None, public=None)

    def _rows_by_user(self) -> Table:
        send = sender(self._lean, self.tokenizer, self.read)
        return self._together(self._mapped(self.rows, send, SCHEMA))

    def _mapped(self, rows: Table, step: Step, columns: pa.Schema) -> Table:
        return self.engine.map_batches(rows, Guarded(step), columns)

    def _together(self, messages: Table) -> Table:
        return self.engine.together(messages, self.job.partitions)


AnyQuery = TypeVar("AnyQuery", bound=Query[Any])


def chosen(query: AnyQuery) -> AnyQuery:
    """The same query by the plan that an estimate of set sizes chooses, in a job of its own."""
    job = query.job
    assert isinstance(job.plan.selection, Choice)
    table = query.engine.collect(query.set_sizes())
    counted = np.zeros(CLASSES, np.int64)
    np.add.at(counted, table["class"].to_numpy(), table["number"].to_numpy())
    ids = job.plan.privacy.ids_per_person
    hints = estimate(counted, job.key, job.plan.selection.epsilon, ids)
    return replace(query, job=replace(job, plan=job.plan.chosen(hints)))


def run(query: Query[Any]) -> pa.Array:
    """Released items, sorted, in the type of the private items."""
    if isinstance(query.job.plan.selection, NGramRounds):
        # Each length is a query of its own.
        texts = ClusterTexts(
            query._lean, lambda weigh, flip: query.engine.collect(query.grams(weigh, flip))
        )
        return all_lengths(query.job.plan.selection.run(texts, query.job.key))
    job, table = query.job, query.engine.collect(query.items())
    type_ = pa.int64() if pa.types.is_integer(job.item_type) else pa.large_string()
    found = pa.concat_arrays([pa.nulls(0, type_), *table["item"].cast(type_).chunks])
    if job.public is not None:
        found = pa.concat_arrays([found, job.public.added(found.type)])
    return found.take(pc.sort_indices(found))


def count(query: Query[Any], released: pa.Array) -> pa.Array:
    """Noisy numbers of users of the released items, held or not, in their order."""
    job, table = query.job, query.engine.collect(query.counts(released))
    assert job.plan.noisy_counts is not None
    at = pc.index_in(released, value_set=table["item"].cast(released.type).combine_chunks())
    held = table["number"].combine_chunks().take(at)
    # Of items that nobody holds there is no row: their sum is 0, and their noise is their own.
    nobody = job.plan.noisy_counts.noisy(np.zeros(len(released), np.int64), Ids(released), job.key)
    return pc.coalesce(held, integers(nobody))
