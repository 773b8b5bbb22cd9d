"""The steps of a release on a cluster, for any engine that can do two things.

It must be able to map batches of Arrow rows by a function, and to bring together the rows that go
to one bucket. A step is such a function, frozen and ready to be sent: what it makes depends on its
rows, the plan and the key alone, in whatever order and however often they come, so that a task that
is run again makes the same again.

    rows -> Deal -> [to the bucket of the user] -> Weigh -> [sum by item] -> Toss -> items

Every bucket of users is a small database, weighed by the code of the local engine; integer sums
over buckets are those over all users. Mechanisms in rounds are in `dpsu.engines.cluster.rounds`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions.ids import Ids, canonical, integers, numbers
from dpsu.contributions.pairs import Block, Pairs
from dpsu.engines import local
from dpsu.engines.cluster.messages import ROWS, Parcel, arrived, ids_of, pack, sent, unpack
from dpsu.errors import DataError, DpsuError
from dpsu.inputs.public import Prior, PublicItems
from dpsu.plans.plan import Plan
from dpsu.randomness.coins import toss
from dpsu.randomness.keys import Key
from dpsu.runtime import threads

Batches = Iterator[pa.RecordBatch]

# So many rows are dealt at a time, sorted in little memory; with many buckets more, so that what
# surrounds a parcel is small beside it.
ROWS_AT_ONCE, ROWS_IN_PARCEL = 1 << 20, 1 << 9
ROWS_IN_BATCH = 1 << 16
FAILED = "dpsu step failed: "


@dataclass(frozen=True, repr=False)
class Job:
    """What every step knows. It is sent to every worker, secret key included, and never printed."""

    plan: Plan
    key: Key
    buckets: int
    item_type: pa.DataType
    prior: Prior | None = None
    public: PublicItems | None = None
    strict: bool = False

    def bucket_of(self, ids: Ids, what: str) -> NDArray[np.int64]:
        """The bucket of each id: a salted hash, so that nobody can aim at one."""
        hashes = ids.hashes(self.key.salt(f"bucket of {what}"))
        return (hashes % np.uint64(self.buckets)).astype(np.int64)


@dataclass(frozen=True, repr=False)
class Guarded:
    """A step whose failures tell nothing of the data: workers print them to logs."""

    step: Callable[[Batches], Batches]

    @property
    def __name__(self) -> str:
        """What plans and web pages of a cluster show of it."""
        turn = getattr(self.step, "turn", None)
        name = type(self.step).__name__
        return f"dpsu_{name}" if turn is None else f"dpsu_{name}_{turn}"

    def __call__(self, batches: Batches) -> Batches:
        """Do the step on one thread: a worker has one core, and there are as many workers."""
        threads.WORKERS = 1
        failure = ""
        try:
            yield from self.step(batches)
        except DpsuError as error:
            failure = f"{type(error).__name__}: {error}"
        except MemoryError:
            failure = "ResourceError: a worker ran out of memory; use more partitions"
        except Exception as error:
            # Its message may quote a cell: tell where it happened, not what it says.
            last = traceback.extract_tb(error.__traceback__)[-1]
            failure = (
                f"unexpected {type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
            )
        # Raised out here, the first error is not told as the context of this one.
        if failure:
            raise RuntimeError(FAILED + failure)


@dataclass(frozen=True, repr=False)
class Deal:
    """Rows of (user, item) to the buckets of their users, each pair once; rows without either go.

    Ids are made canonical first: two spellings of one user must meet in one bucket.
    """

    job: Job

    def __call__(self, batches: Batches) -> Batches:
        """Parcels of rows."""
        return sent(parcel for rows in self._gathered(batches) for parcel in self._deal(*rows))

    def _gathered(self, batches: Batches) -> Iterator[tuple[pa.Array, pa.Array]]:
        plan = self.job.plan
        users: list[pa.Array] = []
        items: list[pa.Array] = []
        rows, enough = 0, max(ROWS_AT_ONCE, ROWS_IN_PARCEL * self.job.buckets)
        for batch in batches:
            user, item = (
                canonical(plan.user, batch.column(0)),
                canonical(plan.item, batch.column(1)),
            )
            if user.null_count or item.null_count:
                if self.job.strict:
                    raise DataError(
                        f"some rows have no {plan.user!r} or no {plan.item!r}; drop or repair "
                        "them, or do without strict"
                    )
                complete = pa.compute.and_(user.is_valid(), item.is_valid())
                user, item = user.filter(complete), item.filter(complete)
            users.append(user)
            items.append(item)
            rows += len(user)
            if rows >= enough:
                yield pa.concat_arrays(users), pa.concat_arrays(items)
                users, items, rows = [], [], 0
        if rows:
            yield pa.concat_arrays(users), pa.concat_arrays(items)

    def _deal(self, user: pa.Array, item: pa.Array) -> Iterator[Parcel]:
        users, items = user.dictionary_encode(), item.dictionary_encode()
        bucket = self.job.bucket_of(Ids(users.dictionary), "user")
        by_bucket = np.argsort(bucket, kind="stable")
        place = np.empty_like(by_bucket)
        place[by_bucket] = np.arange(len(by_bucket))
        n_items = len(items.dictionary)
        keys = place[numbers(users.indices, np.int32)] * n_items + numbers(items.indices, np.int32)
        # Sorted by bucket and user, every pair once.
        places, codes = np.divmod(np.unique(keys), n_items)
        ends = np.searchsorted(bucket[by_bucket[places]], np.arange(self.job.buckets), side="right")
        first = 0
        for to, last in enumerate(ends.tolist()):
            if last > first:
                held_by, sizes = np.unique(places[first:last], return_counts=True)
                held, at = np.unique(codes[first:last], return_inverse=True)
                yield Parcel(
                    to, ROWS, -1,
                    pack(
                        {
                            "users": users.dictionary.take(integers(by_bucket[held_by])),
                            "sizes": sizes.astype(np.int32),
                            "items": items.dictionary.take(integers(held)),
                            "codes": at.astype(np.int32),
                        }
                    ),
                )  # fmt: skip
            first = last


def gathered(parcels: Iterable[Parcel]) -> dict[int, Pairs]:
    """The rows that were dealt to each bucket, interned; a pair may still come more than once."""
    dealt: dict[int, list[dict[str, pa.Array]]] = {}
    for parcel in parcels:
        dealt.setdefault(parcel.to, []).append(unpack(parcel.data))
    return {bucket: _interned(rows) for bucket, rows in dealt.items()}


def _interned(rows: list[dict[str, pa.Array]]) -> Pairs:
    users, user_codes = _distinct([part["users"] for part in rows])
    items, item_codes = _distinct([part["items"] for part in rows])
    blocks = []
    for part, user, item in zip(rows, user_codes, item_codes, strict=True):
        sizes, codes = numbers(part["sizes"], np.int32), numbers(part["codes"], np.int32)
        blocks.append(Block(np.repeat(user, sizes), item[codes], None))
    return Pairs(users, items, blocks)


def _distinct(parts: list[pa.Array]) -> tuple[Ids, list[NDArray[np.int32]]]:
    """The distinct ids of several lists, and the codes of each list."""
    encoded = pa.concat_arrays(parts).dictionary_encode()
    codes = numbers(encoded.indices, np.int32)
    ends = np.cumsum([len(part) for part in parts])[:-1]
    return ids_of(encoded.dictionary), np.split(codes, ends)


@dataclass(frozen=True, repr=False)
class Weigh:
    """What the users of a bucket give to each of their items, by the policy of the plan.

    The number of users comes along as the weight of no item, so that it can be checked.
    """

    job: Job

    def __call__(self, batches: Batches) -> Batches:
        """Rows of (item, weight)."""
        job = self.job
        for pairs in gathered(arrived(batches)).values():
            items, weights = local.shares(
                job.plan, pairs, job.key, prior=job.prior, public=job.public
            )
            given = np.flatnonzero(weights)
            yield from _numbered(items.take(given), weights[given], job.item_type)
            census = Ids(pa.nulls(1, job.item_type))
            yield from _numbered(census, np.array([len(pairs.users)]), job.item_type)


@dataclass(frozen=True, repr=False)
class Toss:
    """One coin for each item, by its weight over all users."""

    job: Job

    def __call__(self, batches: Batches) -> Batches:
        """The released items."""
        plan, key = self.job.plan, self.job.key
        for item, sums in _summed(batches):
            named = item.is_valid().to_numpy(zero_copy_only=False)
            # The sum of no item is the number of users.
            local.refuse_too_many(plan, int(sums[~named].sum()))
            items, weights = Ids(item.drop_null()), local.above(plan, sums[named])
            released = toss(plan.curve, weights, plan.policy.fraction_bits, items, key)
            yield from items_only(items.take(np.flatnonzero(released)), self.job.item_type)


@dataclass(frozen=True, repr=False)
class Count:
    """How many users of a bucket count for each released item."""

    job: Job
    released: pa.Array

    def __call__(self, batches: Batches) -> Batches:
        """Rows of (item, number of users)."""
        job = self.job
        for pairs in gathered(arrived(batches)).values():
            counted = local.holders(job.plan, pairs, self.released, job.key)
            held = np.flatnonzero(counted)
            yield from _numbered(Ids(self.released).take(held), counted[held], job.item_type)


@dataclass(frozen=True, repr=False)
class Blur:
    """Noise to the number of users of each released item, held or not."""

    job: Job

    def __call__(self, batches: Batches) -> Batches:
        """Rows of (item, noisy number)."""
        counts = self.job.plan.counts
        assert counts is not None
        for item, sums in _summed(batches):
            noisy = sums + counts.noise(Ids(item), self.job.key)
            yield from _numbered(Ids(item), noisy, self.job.item_type)


def items_only(items: Ids, type_: pa.DataType) -> Batches:
    """Batches of one column of items."""
    for first in range(0, len(items), ROWS_IN_BATCH):
        column = items.values[first : first + ROWS_IN_BATCH].cast(type_)
        yield pa.RecordBatch.from_arrays([column], names=["item"])


def _numbered(items: Ids, values: NDArray[np.int64], type_: pa.DataType) -> Batches:
    for first in range(0, len(items), ROWS_IN_BATCH):
        last = first + ROWS_IN_BATCH
        columns = [items.values[first:last].cast(type_), integers(values[first:last].copy())]
        yield pa.RecordBatch.from_arrays(columns, names=["item", "number"])


def _summed(batches: Batches) -> Iterator[tuple[pa.Array, NDArray[np.int64]]]:
    """Items as ids are, and their sums."""
    for batch in batches:
        item = batch.column(0)
        type_ = pa.int64() if pa.types.is_integer(item.type) else pa.large_string()
        yield item.cast(type_), numbers(batch.column(1).cast(pa.int64()), np.int64)
