"""What one partition received: its own state, and one message from each sender.

A partition of users hears the replies of its items, in the order of its items; a partition of items
hears the weights of all partitions of users, with a route that says which of its items they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions.grouped import Contributions
from dpsu.contributions.ids import Ids, numbers
from dpsu.engines.cluster.conversations import Conversation, State
from dpsu.engines.cluster.messages import Message, ids_of, unpack, writable
from dpsu.engines.cluster.steps import Job, placed
from dpsu.engines.local_rounds import LocalRounds


@dataclass(repr=False)
class Inbox:
    """The messages to one partition: its own state, and the others by sender."""

    own: Any = None
    messages: dict[int, Message] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Told:
    """A partition of users after the first round, and what its items replied."""

    users: Ids
    items: Ids
    home: NDArray[np.int32]
    held: Contributions
    classes: NDArray[np.uint16] | None
    replies: NDArray[Any]

    def engine(self, job: Job) -> LocalRounds:
        """The users, ready to be asked."""
        return LocalRounds(self.held, self.users, self.items, job.key, classes=self.classes)


def put(inboxes: dict[int, Inbox], message: Message, own: str) -> None:
    """Put a message where it belongs; that of the kind `own` is the state of the partition."""
    inbox = inboxes.setdefault(message.to, Inbox())
    if message.kind == own:
        inbox.own = message.data
    else:
        inbox.messages[message.sender] = message


def told_users(inbox: Inbox, conversation: Conversation) -> Told:
    """Users as they were after the last round, and what their items replied."""
    own = unpack(inbox.own)
    home = writable(own["home"], np.int32)
    replies, homes = np.empty(len(home), conversation.reply_type), dict(placed(home))
    refuse_gaps(homes, inbox.messages)
    for sender, places in homes.items():
        replies[places] = np.frombuffer(inbox.messages[sender].data, conversation.reply_type)
    held = _contributions(own, len(home))
    classes = writable(own["classes"], np.uint16) if "classes" in own else None
    return Told(ids_of(own["users"]), ids_of(own["items"]), home, held, classes, replies)


def _contributions(own: dict[str, pa.Array], n_items: int) -> Contributions:
    sizes = numbers(own["sizes"], np.int32).astype(np.int64)
    stop = np.cumsum(sizes)
    return Contributions(stop - sizes, stop, writable(own["codes"], np.int32), None, n_items)


def named_items(
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


def past_items(own: dict[str, pa.Array]) -> tuple[Ids, State, dict[int, NDArray[np.int32]]]:
    """Items as they were after the last round, their state, and the route of every sender."""
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


def as_bytes(values: NDArray[Any]) -> NDArray[Any]:
    """Flags as bytes, since Arrow would store them as bits."""
    return values.view(np.uint8) if values.dtype == bool else values


def as_narrow(values: NDArray[np.int64]) -> NDArray[Any]:
    """Weights in four bytes each where all of them fit."""
    narrow = values.astype(np.int32)
    return narrow if (narrow == values).all() else values


def from_narrow(data: Any, length: int) -> NDArray[Any]:
    """So many weights, whose width their bytes tell."""
    return np.frombuffer(data, np.int32 if len(data) == 4 * length else np.int64)


def refuse_gaps(expected: dict[int, Any], messages: dict[int, Message]) -> None:
    """Refuse to go on without a message: it would silently change the result."""
    if expected.keys() != messages.keys():
        raise AssertionError("a cluster lost or misled messages between buckets")
