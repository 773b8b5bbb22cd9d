"""The steps of a release on a cluster, for any engine that can do two things.

It must be able to map batches of Arrow rows by a function, and to bring together the rows that go
to one partition. A step is such a function, frozen, so that it can be sent to a worker. Its output
depends on its rows, the plan and the key alone, whatever order the rows come in, so that a task
that is run again makes the same output again.

    rows -> SendRows -> [by partition of users] -> Weigh -> [sum by item] -> FlipCoins -> items

Every partition of users is a small database, which the code of the local engine weighs. Weights are
integers: their sums over partitions are the sums over all users. Mechanisms in rounds are in
`dpsu.engines.cluster.rounds`.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions.codecs import ids_of_cells
from dpsu.contributions.grouped import Contributions
from dpsu.contributions.id_columns import Column, lose_nothing
from dpsu.contributions.ids import Ids, canonical, integers, numbers
from dpsu.contributions.pairs import Block, Pairs
from dpsu.contributions.samples import Sample
from dpsu.engines import local
from dpsu.engines.cluster.messages import LOST, ROWS, Message, arrived, ids_of, pack, sent, unpack
from dpsu.engines.estimates import histogram
from dpsu.errors import FAILED as EXIT_FAILED
from dpsu.errors import DataError, DpsuError, JobLostError, ResourceError
from dpsu.inputs.public import Prior, PublicItems
from dpsu.plans.plan import Plan
from dpsu.randomness.coins import flip_coins
from dpsu.randomness.keys import Key
from dpsu.runtime import threads

Batches = Iterator[pa.RecordBatch]

# Rows are sorted and sent in groups of this many, which takes little memory. With many partitions
# groups are larger, so that the overhead of a message is small beside its rows.
ROWS_AT_ONCE, ROWS_IN_MESSAGE = 1 << 20, 1 << 9
ROWS_IN_BATCH = 1 << 16
FAILED = "dpsu step failed: "
# What to do about a job that failed.
FIXES: dict[type[DpsuError], str] = {
    DataError: "Logs of the cluster say more, and may quote private values",
    ResourceError: "Give its machines more memory, or use more partitions",
    JobLostError: "It was canceled, or its session or its machines are gone; try again",
}


@dataclass(frozen=True, repr=False)
class Job:
    """What every step knows. It is sent to every worker, secret key included, and never printed."""

    plan: Plan
    key: Key
    partitions: int
    item_type: pa.DataType
    prior: Prior | None = None
    public: PublicItems | None = None
    strict: bool = False
    sample: Sample | None = None

    def partition_of(self, ids: Ids, what: str) -> NDArray[np.int64]:
        """The partition of each id, by a salted hash, so that nobody can fill one on purpose."""
        hashes = ids.hashes(self.key.salt(f"bucket of {what}"))
        return (hashes % np.uint64(self.partitions)).astype(np.int64)

    def grouped(self, pairs: Pairs) -> tuple[Ids, Ids, Contributions]:
        """Users and items of a partition in their orders, and who holds what."""
        return local.group_as_planned(
            self.plan, pairs, self.key, prior=self.prior, public=self.public
        )


@dataclass(frozen=True, repr=False)
class Guarded:
    """A step whose errors say nothing about the data, because workers print them to logs."""

    step: Callable[[Batches], Batches]

    @property
    def __name__(self) -> str:
        """The name that plans and web pages of a cluster show."""
        round_number = getattr(self.step, "round_number", None)
        name = type(self.step).__name__
        return f"dpsu_{name}" if round_number is None else f"dpsu_{name}_{round_number}"

    def __call__(self, batches: Batches) -> Batches:
        """Run the step on one thread: there is a worker for every core."""
        failure = ""
        try:
            yield from _on_one_thread(self.step, batches)
        except DpsuError as error:
            failure = f"{type(error).__name__}: {error}"
        except MemoryError:
            failure = "ResourceError: a worker ran out of memory; use more partitions"
        except Exception as error:
            # Its message may quote a cell, so only its place is reported.
            last = traceback.extract_tb(error.__traceback__)[-1]
            failure = (
                f"unexpected {type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
            )
        # Raised outside of the handler, this error does not carry the first one as its context.
        if failure:
            raise RuntimeError(FAILED + failure)


def _on_one_thread(step: Callable[[Batches], Batches], batches: Batches) -> Batches:
    """What a step makes on one thread; the caller keeps the number that it had."""
    with threads.use_workers(1):
        made = step(batches)
    while True:
        with threads.use_workers(1):
            try:
                batch = next(made)
            except StopIteration:
                return
        yield batch


def failure(
    engine: str, message: str, otherwise: str, kind: type[DpsuError] = DataError
) -> DpsuError:
    """What to raise for a job that failed, by the text of its error, which may quote cells.

    Only what :class:`Guarded` wrote into it is passed on; `otherwise` names any other failure, and
    `kind` is the error that this is.
    """
    ours = re.search(re.escape(FAILED) + r"(?:(\w+): )?([^\n]*)", message)
    unfinished = f"{engine} could not finish the job ({{}}); nothing was released. {{}}"
    if ours is None:
        return kind(unfinished.format(otherwise, FIXES[kind]))
    if ours.group(1) is None:
        # An unexpected error of a step is a defect, and not one of the data.
        where = unfinished.format(ours.group(2), FIXES[DataError])
        return DataError(where, exit_code=EXIT_FAILED)
    named = ResourceError if ours.group(1) == "ResourceError" else DataError
    return named(ours.group(2).strip())


@dataclass(frozen=True, repr=False)
class SendRows:
    """Send rows of (user, item) to the partitions of their users, each pair once.

    Rows without a user or an item are dropped, and those of users who are not in the sample, if
    there is one. Ids are made canonical first: two spellings of one user must come to one
    partition. A struct of several columns is one id, as on one machine.
    """

    job: Job

    @property
    def columns(self) -> tuple[Column, Column]:
        """The columns of users and items."""
        plan = self.job.plan
        return Column(plan.user.name, "user"), Column(plan.item.name, "item")

    def __call__(self, batches: Batches) -> Batches:
        """Messages of rows."""
        return sent(
            message for rows in self._gathered(batches) for message in self._messages_of(*rows)
        )

    def _gathered(self, batches: Batches) -> Iterator[tuple[pa.Array, pa.Array]]:
        plan = self.job.plan
        users: list[pa.Array] = []
        items: list[pa.Array] = []
        rows, enough = 0, max(ROWS_AT_ONCE, ROWS_IN_MESSAGE * self.job.partitions)
        for batch in batches:
            user, item = (
                canonical(column.name, ids_of_cells(column, cells, lose_nothing))
                for column, cells in zip(self.columns, batch.columns, strict=True)
            )
            if user.null_count or item.null_count:
                if self.job.strict:
                    raise DataError(
                        f"some rows have no {plan.user.name!r} or no {plan.item.name!r}; "
                        "drop or repair them, or do without strict"
                    )
                complete = pa.compute.and_(user.is_valid(), item.is_valid())
                user, item = user.filter(complete), item.filter(complete)
            if self.job.sample is not None:
                sampled = self.job.sample.rows_of(user, self.columns[0])
                user, item = user.filter(sampled), item.filter(sampled)
            users.append(user)
            items.append(item)
            rows += len(user)
            if rows >= enough:
                yield pa.concat_arrays(users), pa.concat_arrays(items)
                users, items, rows = [], [], 0
        if rows:
            yield pa.concat_arrays(users), pa.concat_arrays(items)

    def _messages_of(self, user: pa.Array, item: pa.Array) -> Iterator[Message]:
        users, items = user.dictionary_encode(), item.dictionary_encode()
        partition = self.job.partition_of(Ids(users.dictionary), "user")
        by_partition = np.argsort(partition, kind="stable")
        place = np.empty_like(by_partition)
        place[by_partition] = np.arange(len(by_partition))
        n_items = len(items.dictionary)
        keys = place[numbers(users.indices, np.int32)] * n_items + numbers(items.indices, np.int32)
        # Sorted by partition and user, every pair once.
        places, codes = np.divmod(_sorted_once(keys), n_items)
        ends = np.searchsorted(
            partition[by_partition[places]], np.arange(self.job.partitions), side="right"
        )
        first = 0
        for to, last in enumerate(ends.tolist()):
            if last > first:
                held_by, sizes = _runs(places[first:last])
                held, at = np.unique(codes[first:last], return_inverse=True)
                yield Message(
                    to, ROWS, -1,
                    pack(
                        {
                            "users": users.dictionary.take(integers(by_partition[held_by])),
                            "sizes": sizes.astype(np.int32),
                            "items": items.dictionary.take(integers(held)),
                            "codes": at.astype(np.int32),
                        }
                    ),
                )  # fmt: skip
            first = last


def _sorted_once(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Distinct numbers, sorted in place: several times as fast as `np.unique`, which hashes."""
    keys.sort()
    once: NDArray[np.int64] = keys[np.append(True, keys[1:] != keys[:-1])[: len(keys)]]
    return once


def _runs(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct ones of sorted numbers, and how often each occurs."""
    first = np.flatnonzero(np.append(True, values[1:] != values[:-1])[: len(values)])
    return values[first], np.diff(first, append=len(values))


def placed(to: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Partitions, each with the places of what goes to it, in order."""
    order = np.argsort(to, kind="stable")
    partitions, first = np.unique(to[order], return_index=True)
    yield from zip(partitions.tolist(), np.split(order, first)[1:], strict=True)


def received_pairs(messages: Iterable[Message]) -> dict[int, Pairs]:
    """The rows that each partition received, interned; a pair may still occur more than once."""
    received: dict[int, list[dict[str, pa.Array]]] = {}
    for message in messages:
        if message.kind != LOST:
            received.setdefault(message.to, []).append(unpack(message.data))
    return {partition: _interned(rows) for partition, rows in received.items()}


def _interned(rows: list[dict[str, pa.Array]]) -> Pairs:
    users, user_codes = distinct([part["users"] for part in rows])
    items, item_codes = distinct([part["items"] for part in rows])
    blocks = []
    for part, user, item in zip(rows, user_codes, item_codes, strict=True):
        sizes, codes = numbers(part["sizes"], np.int32), numbers(part["codes"], np.int32)
        blocks.append(Block(np.repeat(user, sizes), item[codes], None))
    return Pairs(users, items, blocks)


def distinct(parts: list[pa.Array]) -> tuple[Ids, list[NDArray[np.int32]]]:
    """The distinct ids of several lists, and the codes of each list."""
    encoded = pa.concat_arrays(parts).dictionary_encode()
    codes = numbers(encoded.indices, np.int32)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    return ids_of(encoded.dictionary), np.split(codes, ends)


@dataclass(frozen=True, repr=False)
class Weigh:
    """What the users of a partition give to each of their items, by the policy of the plan.

    One more row has no item, and the number of users for its weight, so that it can be checked.
    """

    job: Job

    def __call__(self, batches: Batches) -> Batches:
        """Rows of (item, weight)."""
        job = self.job
        for pairs in received_pairs(arrived(batches)).values():
            items, weights = local.shares(
                job.plan, pairs, job.key, prior=job.prior, public=job.public
            )
            given = np.flatnonzero(weights)
            yield from numbered(items.take(given), weights[given], job.item_type)
            yield from without_item(len(pairs.users), job.item_type)


@dataclass(frozen=True, repr=False)
class FlipCoins:
    """One coin for each item, by its weight over all users."""

    job: Job

    def __call__(self, batches: Batches) -> Batches:
        """The released items."""
        plan, key = self.job.plan, self.job.key
        for item, sums in summed(batches):
            named = item.is_valid().to_numpy(zero_copy_only=False)
            # The sum of the rows without an item is the number of users.
            local.refuse_too_many(plan, int(sums[~named].sum()))
            items, weights = Ids(item.drop_null()), local.above_min_users(plan, sums[named])
            released = flip_coins(plan.curve, weights, plan.policy.fraction_bits, items, key)
            yield from items_only(items.take(np.flatnonzero(released)), self.job.item_type)


@dataclass(frozen=True, repr=False)
class CountSizes:
    """How many users of a partition have sets of each class of sizes. PRIVATE."""

    job: Job

    def __call__(self, batches: Batches) -> Batches:
        """Rows of (class, number of users)."""
        for pairs in received_pairs(arrived(batches)).values():
            counted = histogram(self.job.grouped(pairs)[2].sizes)
            classes = pa.array(np.arange(len(counted)), pa.int64())
            yield pa.RecordBatch.from_arrays([classes, integers(counted)], ["class", "number"])


@dataclass(frozen=True, repr=False)
class Count:
    """What the users of a partition count for each released item."""

    job: Job
    released: pa.Array

    def __call__(self, batches: Batches) -> Batches:
        """Rows of (item, sum in units)."""
        job = self.job
        for pairs in received_pairs(arrived(batches)).values():
            counted = local.counted(job.plan, pairs, self.released)
            held = np.flatnonzero(counted)
            yield from numbered(Ids(self.released).take(held), counted[held], job.item_type)


@dataclass(frozen=True, repr=False)
class AddNoise:
    """Add noise to what users count for a released item, whether anybody holds it or not."""

    job: Job

    def __call__(self, batches: Batches) -> Batches:
        """Rows of (item, noisy number)."""
        counts = self.job.plan.noisy_counts
        assert counts is not None
        for item, sums in summed(batches):
            noisy = counts.noisy(sums, Ids(item), self.job.key)
            yield from numbered(Ids(item), noisy, self.job.item_type)


def items_only(items: Ids, type_: pa.DataType) -> Batches:
    """Batches of one column of items."""
    for first in range(0, len(items), ROWS_IN_BATCH):
        column = items.values[first : first + ROWS_IN_BATCH].cast(type_)
        yield pa.RecordBatch.from_arrays([column], names=["item"])


def numbered(items: Ids, values: NDArray[np.int64], type_: pa.DataType) -> Batches:
    """Batches of items and a number for each."""
    for first in range(0, len(items), ROWS_IN_BATCH):
        last = first + ROWS_IN_BATCH
        columns = [items.values[first:last].cast(type_), integers(values[first:last].copy())]
        yield pa.RecordBatch.from_arrays(columns, names=["item", "number"])


def without_item(number: int, type_: pa.DataType) -> Batches:
    """A number of no item: of users, or of items."""
    return numbered(Ids(pa.nulls(1, type_)), np.array([number]), type_)


def summed(batches: Batches) -> Iterator[tuple[pa.Array, NDArray[np.int64]]]:
    """Items in the types of ids, and their sums."""
    for batch in batches:
        item = batch.column(0)
        type_ = pa.int64() if pa.types.is_integer(item.type) else pa.large_string()
        yield item.cast(type_), numbers(batch.column(1).cast(pa.int64()), np.int64)
