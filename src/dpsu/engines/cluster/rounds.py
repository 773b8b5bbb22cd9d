"""Mechanisms in rounds on a cluster: buckets of users and buckets of items take turns.

    rows -> Deal -> [users] -> Ask 0 -> [items] -> Listen 0 -> [users] -> Ask 1 -> ... -> items

A bucket of users is coded once: its items are numbers from then on. It sends weights to buckets of
items, which send back one number for each item of theirs that it holds, in an order that both know:
the order of items in the bucket of users. So an item that half of all users hold is told to every
bucket once, and what travels in a turn does not grow with the number of its holders.

Buckets and their contents are functions of the ids, the plan and the key. What a bucket keeps from
turn to turn travels with the messages, so that every turn is made from the turn before it alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions.grouped import Contributions
from dpsu.contributions.ids import Ids, numbers
from dpsu.contributions.pairs import Pairs
from dpsu.engines import local
from dpsu.engines.cluster.conversations import Course, State
from dpsu.engines.cluster.messages import (
    CENSUS,
    GIVEN,
    HEARD,
    ITEMS,
    KEPT,
    NAMED,
    USERS,
    Parcel,
    arrived,
    ids_of,
    pack,
    sent,
    unpack,
    writable,
)
from dpsu.engines.cluster.steps import Batches, Job, gathered, items_only
from dpsu.engines.local_rounds import LocalLooks
from dpsu.kernels.rounds import mark
from dpsu.plans.mechanisms import OneShot


@dataclass(repr=False)
class _Inbox:
    """What came to one bucket: its own past, and messages by sender."""

    own: Any = None
    messages: dict[int, Parcel] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Ask:
    """The turn of the users: each bucket gives weights, knowing what its items told it."""

    job: Job
    course: Course
    turn: int

    def __call__(self, batches: Batches) -> Batches:
        """Parcels of weights to buckets of items, and what users keep."""
        return sent(self._parcels(batches))

    def _parcels(self, batches: Batches) -> Iterator[Parcel]:
        if self.turn == 0:
            for bucket, pairs in gathered(arrived(batches)).items():
                yield from self._begin(bucket, pairs)
            return
        inboxes: dict[int, _Inbox] = {}
        for parcel in arrived(batches):
            if parcel.kind == ITEMS:
                yield parcel
            else:
                _put(inboxes, parcel, USERS)
        for bucket, inbox in inboxes.items():
            yield from self._go_on(bucket, inbox)

    def _begin(self, bucket: int, pairs: Pairs) -> Iterator[Parcel]:
        job, plan = self.job, self.job.plan
        yield Parcel(0, CENSUS, bucket, np.array([len(pairs.users)]).tobytes())
        users, items, held = local.group(plan, pairs, job.key, public=job.public, prior=job.prior)
        if isinstance(plan.selection, OneShot):
            held = local.bound(plan, held, users, items, job.key)
        looks = LocalLooks(held, users, items, job.key)
        weights, present = self.course.ask(0, looks, None)
        if present is None:
            present = np.zeros(held.n_items, bool)
            mark(held.start, held.stop, held.items, present)
        kept = np.flatnonzero(present)
        names, home = items.take(kept), job.bucket_of(items.take(kept), "item").astype(np.int32)
        for to, places in _by_home(home):
            data = pack({"items": names.take(places).values, "weights": weights[kept][places]})
            yield Parcel(to, NAMED, bucket, data)
        yield from self._keep(bucket, looks.held, present, users, names, home)

    def _go_on(self, bucket: int, inbox: _Inbox) -> Iterator[Parcel]:
        own = unpack(inbox.own)
        home = writable(own["home"], np.int32)
        held = _contributions(own, len(home))
        heard = np.empty(len(home), self.course.told)
        homes = dict(_by_home(home))
        _refuse_gaps(homes, inbox.messages)
        for sender, places in homes.items():
            heard[places] = np.frombuffer(inbox.messages[sender].data, self.course.told)
        users, items = ids_of(own["users"]), ids_of(own["items"])
        looks = LocalLooks(held, users, items, self.job.key)
        weights, present = self.course.ask(self.turn, looks, heard)
        for to, places in homes.items():
            if present is None:
                yield Parcel(to, GIVEN, bucket, weights[places].tobytes())
            else:
                stay = present[places]
                data = {"kept": stay.view(np.uint8), "weights": weights[places[stay]]}
                yield Parcel(to, KEPT, bucket, pack(data))
        if present is None:
            present = np.ones(len(home), bool)
        kept = np.flatnonzero(present)
        names = items.take(kept) if len(items) else items
        yield from self._keep(bucket, looks.held, present, users, names, home[kept])

    def _keep(
        self,
        bucket: int,
        held: Contributions,
        present: NDArray[np.bool_],
        users: Ids,
        names: Ids,
        home: NDArray[np.int32],
    ) -> Iterator[Parcel]:
        """What users need in the next turn: their sets, and ids only as long as they are hashed."""
        if self.turn + 1 == self.course.turns or not len(home):
            return
        code = (np.cumsum(present) - 1).astype(np.int32)
        sizes = held.sizes
        # Users may have left gaps between them.
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = held.items[np.repeat(held.start, sizes) + within]
        hashed = self.course.hashes_after(self.turn)
        own = {
            "users": users.values if hashed else users.values[:0],
            "items": names.values if hashed else names.values[:0],
            "home": home,
            "sizes": sizes.astype(np.int32),
            "codes": code[rows],
        }
        yield Parcel(bucket, USERS, bucket, pack(own))


@dataclass(frozen=True, repr=False)
class Listen:
    """The turn of the items: each bucket adds up what all users gave, and tells them what follows.

    After the last turn it gives the released items instead.
    """

    job: Job
    course: Course
    turn: int

    def __call__(self, batches: Batches) -> Batches:
        """Parcels to buckets of users, or released items."""
        passed: list[Parcel] = []
        inboxes: dict[int, _Inbox] = {}
        users = 0
        for parcel in arrived(batches):
            if parcel.kind == CENSUS:
                users += int(np.frombuffer(parcel.data, np.int64)[0])
            elif parcel.kind == USERS:
                passed.append(parcel)
            else:
                _put(inboxes, parcel, ITEMS)
        local.refuse_too_many(self.job.plan, users)
        if self.turn + 1 < self.course.turns:
            yield from sent(passed)
            yield from sent(
                parcel for bucket, inbox in inboxes.items() for parcel in self._tell(bucket, inbox)
            )
            return
        for inbox in inboxes.values():
            items, state, _, _ = self._hear(inbox)
            found = items.take(np.flatnonzero(state["released"]))
            yield from items_only(found, self.job.item_type)

    def _tell(self, bucket: int, inbox: _Inbox) -> Iterator[Parcel]:
        items, state, routes, told = self._hear(inbox)
        for sender, route in routes.items():
            if len(route):
                yield Parcel(sender, HEARD, bucket, told[route].astype(self.course.told).tobytes())
        # Items that nobody holds any more are of no use, except those that are released.
        useful = state["released"].copy()
        for route in routes.values():
            useful[route] = True
        kept = np.flatnonzero(useful)
        code = (np.cumsum(useful) - 1).astype(np.int32)
        own: dict[str, Any] = {"items": items.take(kept).values}
        own |= {name: _plain(values[kept]) for name, values in state.items()}
        own["senders"] = np.array(list(routes), np.int32)
        own["sizes"] = np.array([len(route) for route in routes.values()], np.int32)
        own["routes"] = code[np.concatenate([np.empty(0, np.int32), *routes.values()])]
        yield Parcel(bucket, ITEMS, bucket, pack(own))

    def _hear(self, inbox: _Inbox) -> tuple[Ids, State, dict[int, NDArray[np.int32]], NDArray[Any]]:
        """Items, their state after this turn, where each is known, and what to tell."""
        given: dict[int, NDArray[np.int64]] = {}
        present: NDArray[np.bool_] | None = None
        if self.turn == 0:
            items, state, routes, given = _named(inbox.messages)
            present = np.ones(len(items), bool)
        else:
            items, state, routes = _past(unpack(inbox.own))
            _refuse_gaps({sender: r for sender, r in routes.items() if len(r)}, inbox.messages)
            for sender, parcel in inbox.messages.items():
                if parcel.kind == GIVEN:
                    given[sender] = np.frombuffer(parcel.data, np.int64)
                    continue
                data = unpack(parcel.data)
                stay = numbers(data["kept"], np.uint8).view(bool)
                routes[sender] = routes[sender][stay]
                given[sender] = numbers(data["weights"], np.int64)
                present = np.zeros(len(items), bool) if present is None else present
                present[routes[sender]] = True
        weights = np.zeros(len(items), np.int64)
        for sender, values in given.items():
            # An item stands in a route once, so that this adds as it should.
            weights[routes[sender]] += values
        state, told = self.course.listen(self.turn, items, state, weights, present, self.job.key)
        return items, state, routes, told


def _put(inboxes: dict[int, _Inbox], parcel: Parcel, own: str) -> None:
    inbox = inboxes.setdefault(parcel.to, _Inbox())
    if parcel.kind == own:
        inbox.own = parcel.data
    else:
        inbox.messages[parcel.sender] = parcel


def _by_home(home: NDArray[np.int32]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Buckets of items, each with the places of its items in a bucket of users, in order."""
    order = np.argsort(home, kind="stable")
    buckets, first = np.unique(home[order], return_index=True)
    yield from zip(buckets.tolist(), np.split(order, first)[1:], strict=True)


def _contributions(own: dict[str, pa.Array], n_items: int) -> Contributions:
    sizes = numbers(own["sizes"], np.int32).astype(np.int64)
    stop = np.cumsum(sizes)
    return Contributions(stop - sizes, stop, writable(own["codes"], np.int32), None, n_items)


def _named(
    messages: dict[int, Parcel],
) -> tuple[Ids, State, dict[int, NDArray[np.int32]], dict[int, NDArray[np.int64]]]:
    """Items by the names that all buckets of users sent, and the codes of each bucket."""
    senders = sorted(messages)
    parts = [unpack(messages[sender].data) for sender in senders]
    encoded = pa.concat_arrays([part["items"] for part in parts]).dictionary_encode()
    ends = np.cumsum([len(part["items"]) for part in parts])[:-1]
    routes = dict(zip(senders, np.split(numbers(encoded.indices, np.int32), ends), strict=True))
    given = [numbers(part["weights"], np.int64) for part in parts]
    return ids_of(encoded.dictionary), {}, routes, dict(zip(senders, given, strict=True))


def _past(own: dict[str, pa.Array]) -> tuple[Ids, State, dict[int, NDArray[np.int32]]]:
    items = ids_of(own.pop("items"))
    senders, sizes = numbers(own.pop("senders"), np.int32), numbers(own.pop("sizes"), np.int32)
    cut = np.split(numbers(own.pop("routes"), np.int32), np.cumsum(sizes)[:-1])
    routes = dict(zip(senders.tolist(), cut, strict=True)) if len(senders) else {}
    flags = ("present", "released")
    state = {
        name: writable(array, np.uint8).view(bool) if name in flags
        else writable(array, array.type.to_pandas_dtype())
        for name, array in own.items()
    }  # fmt: skip
    return items, state, routes


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Flags as bytes: in Arrow they would be bits."""
    return values.view(np.uint8) if values.dtype == bool else values


def _refuse_gaps(expected: dict[int, Any], messages: dict[int, Parcel]) -> None:
    """A message that is missing would silently change the result."""
    if expected.keys() != messages.keys():
        raise AssertionError("a cluster lost or misled messages between buckets")
