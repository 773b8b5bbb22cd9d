"""Mechanisms in rounds on a cluster: partitions of users and partitions of items take turns.

    rows -> SendRows -> [users] -> Ask 0 -> [items] -> Answer 0 -> [users] -> Ask 1 -> ... -> items

A partition of users numbers its items once, in the first round. It sends weights to partitions of
items. Each of them sends back one number for each of its items that the partition of users holds,
in an order that both know: the order of items in the partition of users. So even an item that half
of all users hold takes one number for each partition, and messages do not grow with its holders.

Partitions and their contents are functions of the ids, the plan and the key. A partition sends its
state to itself, so that every round is computed from the messages of the round before alone.
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
from dpsu.engines.cluster.conversations import Conversation, State
from dpsu.engines.cluster.messages import (
    CENSUS,
    GIVEN,
    ITEMS,
    KEPT,
    NAMED,
    REPLY,
    USERS,
    Message,
    arrived,
    ids_of,
    pack,
    sent,
    unpack,
    writable,
)
from dpsu.engines.cluster.steps import Batches, Job, items_only, received_pairs
from dpsu.engines.local_rounds import LocalRounds
from dpsu.kernels.rounds import mark_present
from dpsu.plans.mechanisms import OneShot


@dataclass(repr=False)
class _Inbox:
    """The messages to one partition: its own state, and the others by sender."""

    own: Any = None
    messages: dict[int, Message] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Ask:
    """The users' half of a round: each partition gives weights, knowing what its items replied."""

    job: Job
    conversation: Conversation
    round_number: int

    def __call__(self, batches: Batches) -> Batches:
        """Messages of weights to partitions of items, and the state that users keep."""
        return sent(self._messages(batches))

    def _messages(self, batches: Batches) -> Iterator[Message]:
        if self.round_number == 0:
            for partition, pairs in received_pairs(arrived(batches)).items():
                yield from self._begin(partition, pairs)
            return
        inboxes: dict[int, _Inbox] = {}
        for message in arrived(batches):
            if message.kind == ITEMS:
                yield message
            else:
                _put(inboxes, message, USERS)
        for partition, inbox in inboxes.items():
            yield from self._go_on(partition, inbox)

    def _begin(self, partition: int, pairs: Pairs) -> Iterator[Message]:
        job, plan = self.job, self.job.plan
        yield Message(0, CENSUS, partition, np.array([len(pairs.users)]).tobytes())
        users, items, held = local.group(plan, pairs, job.key, public=job.public, prior=job.prior)
        if isinstance(plan.selection, OneShot):
            held = local.bound(plan, held, users, items, job.key)
        engine = LocalRounds(held, users, items, job.key)
        weights, present = self.conversation.ask(0, engine, None)
        if present is None:
            present = np.zeros(held.n_items, bool)
            mark_present(held.start, held.stop, held.items, present)
        kept = np.flatnonzero(present)
        names, home = items.take(kept), job.partition_of(items.take(kept), "item").astype(np.int32)
        for to, places in _by_home(home):
            data = pack({"items": names.take(places).values, "weights": weights[kept][places]})
            yield Message(to, NAMED, partition, data)
        yield from self._keep(partition, engine, present, users, names, home)

    def _go_on(self, partition: int, inbox: _Inbox) -> Iterator[Message]:
        own = unpack(inbox.own)
        home = writable(own["home"], np.int32)
        held = _contributions(own, len(home))
        replies = np.empty(len(home), self.conversation.reply_type)
        homes = dict(_by_home(home))
        _refuse_gaps(homes, inbox.messages)
        for sender, places in homes.items():
            replies[places] = np.frombuffer(
                inbox.messages[sender].data, self.conversation.reply_type
            )
        users, items = ids_of(own["users"]), ids_of(own["items"])
        classes = writable(own["classes"], np.uint16) if "classes" in own else None
        engine = LocalRounds(held, users, items, self.job.key, classes=classes)
        weights, present = self.conversation.ask(self.round_number, engine, replies)
        for to, places in homes.items():
            if present is None:
                yield Message(to, GIVEN, partition, weights[places].tobytes())
            else:
                stay = present[places]
                data = {"kept": stay.view(np.uint8), "weights": weights[places[stay]]}
                yield Message(to, KEPT, partition, pack(data))
        if present is None:
            present = np.ones(len(home), bool)
        kept = np.flatnonzero(present)
        names = items.take(kept) if len(items) else items
        yield from self._keep(partition, engine, present, users, names, home[kept])

    def _keep(
        self,
        partition: int,
        engine: LocalRounds,
        present: NDArray[np.bool_],
        users: Ids,
        names: Ids,
        home: NDArray[np.int32],
    ) -> Iterator[Message]:
        """What users need in the next round: their sets, and ids only if they are hashed again.

        Classes were fixed in the first round and go with the users from then on.
        """
        held = engine.held
        if self.round_number + 1 == self.conversation.rounds or not len(home):
            return
        code = (np.cumsum(present) - 1).astype(np.int32)
        sizes = held.sizes
        # There may be gaps between the rows of two users.
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        rows = held.items[np.repeat(held.start, sizes) + within]
        hashed = self.conversation.hashes_after(self.round_number)
        own = {
            "users": users.values if hashed else users.values[:0],
            "items": names.values if hashed else names.values[:0],
            "home": home,
            "sizes": sizes.astype(np.int32),
            "codes": code[rows],
        }
        if engine.classes is not None:
            own["classes"] = engine.classes
        yield Message(partition, USERS, partition, pack(own))


@dataclass(frozen=True, repr=False)
class Answer:
    """The items' half of a round: each partition adds up what all users gave, and replies.

    After the last round it yields the released items instead.
    """

    job: Job
    conversation: Conversation
    round_number: int

    def __call__(self, batches: Batches) -> Batches:
        """Messages to partitions of users, or released items."""
        passed: list[Message] = []
        inboxes: dict[int, _Inbox] = {}
        users = 0
        for message in arrived(batches):
            if message.kind == CENSUS:
                users += int(np.frombuffer(message.data, np.int64)[0])
            elif message.kind == USERS:
                passed.append(message)
            else:
                _put(inboxes, message, ITEMS)
        local.refuse_too_many(self.job.plan, users)
        if self.round_number + 1 < self.conversation.rounds:
            yield from sent(passed)
            yield from sent(
                message
                for partition, inbox in inboxes.items()
                for message in self._reply(partition, inbox)
            )
            return
        for inbox in inboxes.values():
            items, state, _, _ = self._answer(inbox)
            found = items.take(np.flatnonzero(state["released"]))
            yield from items_only(found, self.job.item_type)

    def _reply(self, partition: int, inbox: _Inbox) -> Iterator[Message]:
        items, state, routes, replies = self._answer(inbox)
        for sender, route in routes.items():
            if len(route):
                yield Message(
                    sender,
                    REPLY,
                    partition,
                    replies[route].astype(self.conversation.reply_type).tobytes(),
                )
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
        yield Message(partition, ITEMS, partition, pack(own))

    def _answer(
        self, inbox: _Inbox
    ) -> tuple[Ids, State, dict[int, NDArray[np.int32]], NDArray[Any]]:
        """Items, their state after this round, which of them each sender holds, and the replies."""
        given: dict[int, NDArray[np.int64]] = {}
        present: NDArray[np.bool_] | None = None
        if self.round_number == 0:
            items, state, routes, given = _named(inbox.messages)
            present = np.ones(len(items), bool)
        else:
            items, state, routes = _past(unpack(inbox.own))
            _refuse_gaps({sender: r for sender, r in routes.items() if len(r)}, inbox.messages)
            for sender, message in inbox.messages.items():
                if message.kind == GIVEN:
                    given[sender] = np.frombuffer(message.data, np.int64)
                    continue
                data = unpack(message.data)
                stay = numbers(data["kept"], np.uint8).view(bool)
                routes[sender] = routes[sender][stay]
                given[sender] = numbers(data["weights"], np.int64)
                present = np.zeros(len(items), bool) if present is None else present
                present[routes[sender]] = True
        weights = np.zeros(len(items), np.int64)
        for sender, values in given.items():
            # A route names an item once, so that this adds every weight.
            weights[routes[sender]] += values
        state, replies = self.conversation.answer(
            self.round_number, items, state, weights, present, self.job.key
        )
        return items, state, routes, replies


def _put(inboxes: dict[int, _Inbox], message: Message, own: str) -> None:
    inbox = inboxes.setdefault(message.to, _Inbox())
    if message.kind == own:
        inbox.own = message.data
    else:
        inbox.messages[message.sender] = message


def _by_home(home: NDArray[np.int32]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Partitions of items, each with the places of its items in a partition of users, in order."""
    order = np.argsort(home, kind="stable")
    partitions, first = np.unique(home[order], return_index=True)
    yield from zip(partitions.tolist(), np.split(order, first)[1:], strict=True)


def _contributions(own: dict[str, pa.Array], n_items: int) -> Contributions:
    sizes = numbers(own["sizes"], np.int32).astype(np.int64)
    stop = np.cumsum(sizes)
    return Contributions(stop - sizes, stop, writable(own["codes"], np.int32), None, n_items)


def _named(
    messages: dict[int, Message],
) -> tuple[Ids, State, dict[int, NDArray[np.int32]], dict[int, NDArray[np.int64]]]:
    """The items that all partitions of users sent, and the codes that each sender gets."""
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
    """Flags as bytes, since Arrow would store them as bits."""
    return values.view(np.uint8) if values.dtype == bool else values


def _refuse_gaps(expected: dict[int, Any], messages: dict[int, Message]) -> None:
    """Refuse to go on without a message: it would silently change the result."""
    if expected.keys() != messages.keys():
        raise AssertionError("a cluster lost or misled messages between buckets")
