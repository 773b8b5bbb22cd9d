"""Mechanisms in rounds on a cluster: partitions of users and partitions of items take turns.

    rows -> SendRows -> [users] -> Ask 0 -> [items] -> Answer 0 -> [users] -> Ask 1 -> ... -> items

Where users make an estimate before they give, `Survey` goes before `Ask`, and one more shuffle to
users between them.

A partition of users numbers its items once, in the first round. It sends weights to partitions of
items. Each of them sends back one number for each of its items that the partition of users holds,
in an order that both know: the order of items in the partition of users. So even an item that half
of all users hold takes one number for each partition, and messages do not grow with its holders.

Partitions and their contents are functions of the ids, the plan and the key. A partition sends its
state to itself, so that every round is computed from the messages of the round before alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsu.contributions.ids import Ids, numbers
from dpsu.contributions.pairs import Pairs
from dpsu.engines import local
from dpsu.engines.cluster.conversations import Conversation, State
from dpsu.engines.cluster.inboxes import (
    Inbox,
    Told,
    as_bytes,
    as_narrow,
    from_narrow,
    named_items,
    past_items,
    put,
    refuse_gaps,
    told_users,
)
from dpsu.engines.cluster.messages import (
    CENSUS,
    FOUND,
    GIVEN,
    ITEMS,
    KEPT,
    NAMED,
    REPLY,
    USERS,
    Message,
    arrived,
    pack,
    sent,
    unpack,
)
from dpsu.engines.cluster.steps import Batches, Job, items_only, placed, received_pairs
from dpsu.engines.cluster.surveys import Findings, Surveys, survey_messages, surveying
from dpsu.engines.local_rounds import LocalRounds
from dpsu.kernels.rounds import mark_present
from dpsu.plans.mechanisms import OneShot

# Sets of users are sent on as they came as long as so many of their items are still open.
WORTH_KEEPING = 0.8


@dataclass(frozen=True, repr=False)
class InRound:
    """What a step of a round knows."""

    job: Job
    conversation: Conversation
    round_number: int


class Ask(InRound):
    """The users' half of a round: each partition gives weights, knowing what its items replied."""

    def __call__(self, batches: Batches) -> Batches:
        """Messages of weights to partitions of items, and the state that users keep."""
        return sent(self._messages(batches))

    def _messages(self, batches: Batches) -> Iterator[Message]:
        surveys = Surveys(self.conversation, self.round_number, self.job.key)
        messages = surveys.taken_out(arrived(batches))
        if self.round_number == 0:
            for partition, pairs in received_pairs(messages).items():
                yield from self._begin(partition, pairs, surveys)
            return
        inboxes: dict[int, Inbox] = {}
        for message in messages:
            if message.kind == ITEMS:
                yield message
            else:
                put(inboxes, message, USERS)
        for partition, inbox in inboxes.items():
            yield from self._go_on(partition, inbox, surveys)

    def _begin(self, partition: int, pairs: Pairs, surveys: Surveys) -> Iterator[Message]:
        job, plan = self.job, self.job.plan
        yield Message(0, CENSUS, partition, np.array([len(pairs.users)]).tobytes())
        users, items, held = job.grouped(pairs)
        if isinstance(plan.selection, OneShot):
            held = local.bound_as_planned(plan, held, users, items, job.key)
        engine = LocalRounds(held, users, items, job.key)
        weights, present = surveys.conversation_of(partition).ask(0, engine, None)
        if present is None:
            present = np.zeros(held.n_items, bool)
            mark_present(held.start, held.stop, held.items, present)
        kept = np.flatnonzero(present)
        names, home = items.take(kept), job.partition_of(items.take(kept), "item").astype(np.int32)
        homes = dict(placed(home))
        yield from surveys.tell(partition, homes)
        for to, places in homes.items():
            data = pack({"items": names.take(places).values, "weights": weights[kept][places]})
            yield Message(to, NAMED, partition, data)
        yield from self._keep(partition, engine, present, users, names, home)

    def _go_on(self, partition: int, inbox: Inbox, surveys: Surveys) -> Iterator[Message]:
        told = told_users(inbox, self.conversation)
        users, items, home = told.users, told.items, told.home
        engine, homes = told.engine(self.job), dict(placed(home))
        conversation = surveys.conversation_of(partition)
        weights, present = conversation.ask(self.round_number, engine, told.replies)
        yield from surveys.tell(partition, homes)
        for to, places in homes.items():
            if present is None:
                yield Message(to, GIVEN, partition, as_narrow(weights[places]).tobytes())
            else:
                stay = present[places]
                data = {"kept": stay.view(np.uint8), "weights": weights[places[stay]]}
                yield Message(to, KEPT, partition, pack(data))
        hashed = self.conversation.hashes_after(self.round_number)
        if present is None and (hashed or not len(users)):
            yield from self._keep_on(partition, inbox, told)
            return
        if present is None:
            present = np.ones(len(home), bool)
        kept = np.flatnonzero(present)
        names = items.take(kept) if len(items) else items
        yield from self._keep(partition, engine, present, users, names, home[kept])

    def _keep_on(self, partition: int, inbox: Inbox, told: Told) -> Iterator[Message]:
        """What users kept before, without the items that are done once these are worth leaving out.

        Places of items stay what they are, so that replies find them.
        """
        if self.round_number + 1 == self.conversation.rounds or not len(told.home):
            return
        left = ~self.conversation.done(told.replies)
        codes = told.held.items
        open_rows = left[codes]
        data = inbox.own
        if np.count_nonzero(open_rows) < WORTH_KEEPING * len(codes):
            ends = np.append(0, np.cumsum(open_rows))
            sizes = ends[told.held.stop] - ends[told.held.start]
            own = unpack(inbox.own)
            data = pack(own | {"sizes": sizes.astype(np.int32), "codes": codes[open_rows]})
        yield Message(partition, USERS, partition, data)

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


class Survey(InRound):
    """What each partition of users adds to an estimate, before it gives; all else is sent on."""

    def __call__(self, batches: Batches) -> Batches:
        """The same messages, and surveys for all partitions of users."""
        return sent(self._messages(batches))

    def _messages(self, batches: Batches) -> Iterator[Message]:
        kept = list(arrived(batches))
        yield from kept
        for partition, sums in self._sums(kept):
            yield from survey_messages(partition, self.job.partitions, sums)

    def _sums(self, messages: list[Message]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        job, asking = self.job, surveying(self.conversation)
        assert asking is not None
        if self.round_number == 0:
            for partition, pairs in received_pairs(messages).items():
                users, items, held = job.grouped(pairs)
                yield partition, asking.survey(LocalRounds(held, users, items, job.key), None)
            return
        inboxes: dict[int, Inbox] = {}
        for message in messages:
            if message.kind != ITEMS:
                put(inboxes, message, USERS)
        for partition, inbox in inboxes.items():
            told = told_users(inbox, self.conversation)
            yield partition, asking.survey(told.engine(job), told.replies)


class Answer(InRound):
    """The items' half of a round: each partition adds up what all users gave, and replies.

    After the last round it yields the released items instead.
    """

    def __call__(self, batches: Batches) -> Batches:
        """Messages to partitions of users, or released items."""
        passed: list[Message] = []
        inboxes: dict[int, Inbox] = {}
        findings = Findings(self.conversation, self.round_number)
        users = 0
        for message in arrived(batches):
            if message.kind == CENSUS:
                users += int(np.frombuffer(message.data, np.int64)[0])
            elif message.kind == USERS:
                passed.append(message)
            elif message.kind == FOUND:
                findings.hear(message)
            else:
                put(inboxes, message, ITEMS)
        local.refuse_too_many(self.job.plan, users)
        if self.round_number + 1 < self.conversation.rounds:
            yield from sent(passed)
            yield from sent(
                message
                for partition, inbox in inboxes.items()
                for message in self._reply(partition, inbox, findings)
            )
            return
        for partition, inbox in inboxes.items():
            items, state, _, _ = self._answer(inbox, findings.conversation_of(partition))
            found = items.take(np.flatnonzero(state["released"]))
            yield from items_only(found, self.job.item_type)

    def _reply(self, partition: int, inbox: Inbox, findings: Findings) -> Iterator[Message]:
        conversation = findings.conversation_of(partition)
        items, state, routes, replies = self._answer(inbox, conversation)
        for sender, route in routes.items():
            if len(route):
                told = replies[route].astype(self.conversation.reply_type).tobytes()
                yield Message(sender, REPLY, partition, told)
        # Items that nobody holds any more are of no use, except those that are released.
        useful = state["released"].copy()
        for route in routes.values():
            useful[route] = True
        kept = np.flatnonzero(useful)
        code = (np.cumsum(useful) - 1).astype(np.int32)
        own: dict[str, Any] = {"items": items.take(kept).values}
        own |= {name: as_bytes(values[kept]) for name, values in state.items()}
        own["senders"] = np.array(list(routes), np.int32)
        own["sizes"] = np.array([len(route) for route in routes.values()], np.int32)
        own["routes"] = code[np.concatenate([np.empty(0, np.int32), *routes.values()])]
        yield Message(partition, ITEMS, partition, pack(own))

    def _answer(
        self, inbox: Inbox, conversation: Conversation
    ) -> tuple[Ids, State, dict[int, NDArray[np.int32]], NDArray[Any]]:
        """Items, their state after this round, which of them each sender holds, and the replies."""
        given: dict[int, NDArray[np.int64]] = {}
        if self.round_number == 0:
            items, state, routes, given = named_items(inbox.messages)
            state["present"] = np.ones(len(items), bool)
        else:
            present = None
            items, state, routes = past_items(unpack(inbox.own))
            refuse_gaps({sender: r for sender, r in routes.items() if len(r)}, inbox.messages)
            for sender, message in inbox.messages.items():
                if message.kind == GIVEN:
                    given[sender] = from_narrow(message.data, len(routes[sender]))
                    continue
                data = unpack(message.data)
                stay = numbers(data["kept"], np.uint8).view(bool)
                routes[sender] = routes[sender][stay]
                given[sender] = numbers(data["weights"], np.int64)
                present = np.zeros(len(items), bool) if present is None else present
                present[routes[sender]] = True
            if present is not None:
                state["present"] = present
        weights = np.zeros(len(items), np.int64)
        for sender, values in given.items():
            # A route names an item once, so that this adds every weight.
            weights[routes[sender]] += values
        state, replies = conversation.answer(self.round_number, items, state, weights, self.job.key)
        return items, state, routes, replies


def steps_of(job: Job, lean: Job, conversation: Conversation) -> list[Survey | Ask | Answer]:
    """All steps in order, with a shuffle between any two; the last yields the released items.

    Public knowledge is needed in the first round only, where users order their items: `lean` is the
    job without it.
    """
    steps: list[Survey | Ask | Answer] = []
    for round_number in range(conversation.rounds):
        users = job if round_number == 0 else lean
        if surveying(conversation) is not None:
            steps.append(Survey(users, conversation, round_number))
        steps.append(Ask(users, conversation, round_number))
        steps.append(Answer(lean, conversation, round_number))
    return steps
