"""Estimates of which the next round depends, on a cluster: one step more in every round.

    [users] -> Survey k -> [users] -> Ask k -> [items] -> Answer k -> [users] -> ...

Every partition of users sends its sums to all of them, and each adds up all sums and makes the same
estimate: its noise is a function of the key. Users tell the estimate to the items they give to,
with a digest of the table of chances that it leads to. Tables are made where they are needed, and
machines whose mathematical functions differ could make different ones; the items of one user must
have the same (docs/proofs/bits.md), so items refuse users whose table is not theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from dpsu.engines.cluster.conversations import BitsConversation, Conversation
from dpsu.engines.cluster.messages import FOUND, SURVEY, Message
from dpsu.errors import DpsuError
from dpsu.randomness.keys import Key


def surveying(conversation: Conversation) -> BitsConversation | None:
    """The conversation, if users are surveyed in it before they give."""
    if isinstance(conversation, BitsConversation) and not conversation.curves:
        return conversation
    return None


def survey_messages(partition: int, partitions: int, sums: NDArray[np.int64]) -> Iterator[Message]:
    """The sums of one partition of users, to all of them."""
    for to in range(partitions):
        yield Message(to, SURVEY, partition, sums.tobytes())


class Surveys:
    """The surveys among messages to partitions of users, and the conversation that knows them."""

    def __init__(self, conversation: Conversation, round_number: int, key: Key) -> None:
        self.conversation, self.round_number, self.key = conversation, round_number, key
        self._sums: dict[int, NDArray[np.int64]] = {}
        self._caps: dict[int, float] = {}

    def taken_out(self, messages: Iterable[Message]) -> Iterator[Message]:
        """All messages but surveys, which are added up by the partition they go to."""
        for message in messages:
            if message.kind == SURVEY:
                sums = np.frombuffer(message.data, np.int64)
                self._sums[message.to] = self._sums.get(message.to, 0) + sums
            else:
                yield message

    def conversation_of(self, partition: int) -> Conversation:
        """The conversation of a partition of users in this round."""
        asking = surveying(self.conversation)
        if asking is None:
            return self.conversation
        if partition not in self._caps:
            self._caps[partition] = asking.estimate(
                self.round_number, self._sums[partition], self.key
            )
        return asking.knowing(self.round_number, self._caps[partition])

    def tell(self, partition: int, homes: Iterable[int]) -> Iterator[Message]:
        """What was estimated, to the partitions of items that get units."""
        asking = surveying(self.conversation)
        if asking is not None:
            found = asking.finding(self.round_number, self._caps[partition])
            for to in homes:
                yield Message(to, FOUND, partition, found)


class Findings:
    """What partitions of users found, told to a partition of items, and the conversation then."""

    def __init__(self, conversation: Conversation, round_number: int) -> None:
        self._conversation, self._round_number = conversation, round_number
        self._found: dict[int, set[bytes]] = {}

    def hear(self, message: Message) -> None:
        """Note what a partition of users found."""
        self._found.setdefault(message.to, set()).add(bytes(message.data))

    def conversation_of(self, partition: int) -> Conversation:
        """The conversation of a partition of items; refused unless all users found the same.

        Users who missed a survey would pay other prices than the coins are made for. Users whose
        machine makes another table may give to items elsewhere that have that table.
        """
        asking = surveying(self._conversation)
        if asking is None:
            return self._conversation
        found = self._found.get(partition, set())
        caps = {asking.cap_found(each) for each in found}
        if len(caps) != 1:
            raise AssertionError("a cluster lost or misled messages between buckets")
        cap = next(iter(caps))
        if found != {asking.finding(self._round_number, cap)}:
            raise DpsuError(
                "machines of this cluster compute different chances of release; run it on machines "
                "of one kind, or give bits a public items_per_user"
            )
        return asking.knowing(self._round_number, cap)
