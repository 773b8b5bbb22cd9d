"""Corpora on a cluster: texts as sequences of tokens, sent to the partitions of their users.

    rows of texts -> SendCorpus -> [by partition of users] -> received_corpora

A text is tokenized alone, where it is read. A partition of users puts its texts together; in which
order they come does not matter to any weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions.codecs import ids_of_cells
from dpsu.contributions.id_columns import Column, lose_nothing
from dpsu.contributions.ids import Ids, canonical, integers, numbers, text_buffers
from dpsu.contributions.pairs import Tally, report_lost
from dpsu.engines.cluster.losses import Telling, without_user
from dpsu.engines.cluster.messages import LOST, ROWS, Message, pack, sent, unpack
from dpsu.engines.cluster.steps import ROWS_AT_ONCE, ROWS_IN_MESSAGE, Batches, Job, distinct, placed
from dpsu.kernels.grams import BARRIER
from dpsu.kernels.hashing import hash_strings
from dpsu.plans.plan import Plan
from dpsu.text.corpus import Corpus, sequences
from dpsu.text.pieces import Piece, Tokens, cut
from dpsu.text.spec import PAPER, Tokenizer


def pieces_of(job: Job, batches: Batches) -> Iterator[Piece]:
    """Ids of users, of all or of a sample, and their texts, some megabytes at a time."""
    column = Column(job.plan.user.name, "user")
    for batch in batches:
        ids = canonical(column.name, ids_of_cells(column, batch.column(0), lose_nothing))
        texts = batch.column(1).cast(pa.large_string())
        if job.sample is not None:
            # Texts of other users are neither tokenized nor told of.
            sampled = job.sample.rows_of(ids, column)
            ids, texts = ids.filter(sampled), texts.filter(sampled)
        yield from cut(ids, texts)


@dataclass(frozen=True, repr=False)
class Texts:
    """Some texts: for each its user, how many codes it has and a hash of it; tokens, and codes."""

    users: pa.Array
    owners: NDArray[np.int32]
    sizes: NDArray[np.int64]
    posts: NDArray[np.uint64]
    tokens: pa.Array
    codes: NDArray[np.int32]

    def of(self, places: NDArray[np.int64]) -> Texts:
        """Only the texts at these places."""
        ends = np.cumsum(self.sizes)
        sizes = self.sizes[places]
        # The positions of codes: those of each text, one after the other.
        first = np.repeat(ends[places] - sizes - (np.cumsum(sizes) - sizes), sizes)
        held, codes = np.unique(self.codes[first + np.arange(len(first))], return_inverse=True)
        # The first is the barrier, which every text has.
        users, owners = np.unique(self.owners[places], return_inverse=True)
        return Texts(
            self.users.take(integers(users.astype(np.int64))),
            owners.astype(np.int32),
            sizes,
            self.posts[places],
            self.tokens.take(integers(held[1:].astype(np.int64))),
            (codes - 1).astype(np.int32),
        )

    def message(self, to: int) -> Message:
        """These texts for a partition of users."""
        return Message(to, ROWS, -1, pack(vars(self)))

    @classmethod
    def arrived(cls, message: Message) -> Texts:
        """The texts of a message."""
        part = unpack(message.data)
        return cls(
            part["users"],
            numbers(part["owners"], np.int32),
            numbers(part["sizes"], np.int64),
            numbers(part["posts"], np.uint64),
            part["tokens"],
            numbers(part["codes"], np.int32),
        )


def together(parts: list[Texts]) -> tuple[Ids, Ids, Texts]:
    """Distinct users and tokens of several parts, and all of their texts."""
    users, user_codes = distinct([part.users for part in parts])
    tokens, token_codes = distinct([part.tokens for part in parts])
    owners = [codes[part.owners] for part, codes in zip(parts, user_codes, strict=True)]
    # Behind the last code stands the barrier, which is -1.
    codes = [
        np.append(codes, np.int32(BARRIER))[part.codes]
        for part, codes in zip(parts, token_codes, strict=True)
    ]
    texts = Texts(
        users.values,
        np.concatenate(owners).astype(np.int32),
        np.concatenate([part.sizes for part in parts]),
        np.concatenate([part.posts for part in parts]),
        tokens.values,
        np.concatenate(codes).astype(np.int32),
    )
    return users, tokens, texts


@dataclass(frozen=True, repr=False)
class SendCorpus(Telling):
    """Tokenize rows of (user, text) and send the tokens, in order, to the partitions of the users.

    `tokenizer` is what the plan names, in a form that works on any machine.
    """

    tokenizer: Tokenizer

    def messages(self, batches: Batches, tally: Tally) -> Batches:
        """Messages of texts."""
        return sent(self._messages(batches, tally))

    def _messages(self, batches: Batches, tally: Tally) -> Iterator[Message]:
        waiting: list[Texts] = []
        enough = max(ROWS_AT_ONCE, ROWS_IN_MESSAGE * self.job.partitions)
        for texts in self._tokenized(batches, tally):
            waiting.append(texts)
            if sum(len(part.codes) for part in waiting) >= enough:
                yield from self._by_partition(waiting)
                waiting = []
        if waiting:
            yield from self._by_partition(waiting)

    def _tokenized(self, batches: Batches, tally: Tally) -> Iterator[Texts]:
        plan, source = self.job.plan, self.job.plan.text
        assert source is not None
        tokens = Tokens(plan.user.name, source, self.tokenizer, tally, with_repeats=False)
        salt = np.uint64(self.job.key.salt("post"))
        for piece in pieces_of(self.job, batches):
            users, texts = tokens.kept(piece)
            if users.null_count:
                tally.lose(without_user(plan))
                users, texts = users.drop_null(), texts.filter(users.is_valid())
            found, codes, sizes = sequences(tokens.segments(texts), tally)
            if self.job.strict:
                report_lost(tally, strict=True)
            posts = np.zeros(len(texts), np.uint64)
            if source.tokenizer == PAPER:
                posts = hash_strings(*text_buffers(texts), salt)
            everyone = np.arange(len(texts), dtype=np.int32)
            made = Texts(users, everyone, sizes, posts, canonical(source.column, found), codes)
            held = np.add.reduceat(codes >= 0, np.cumsum(sizes) - sizes) if len(texts) else sizes
            if (held > 0).any():
                yield made.of(np.flatnonzero(held > 0))

    def _by_partition(self, parts: list[Texts]) -> Iterator[Message]:
        users, _, texts = together(parts)
        partition = self.job.partition_of(users, "user")[texts.owners]
        for to, places in placed(partition):
            yield texts.of(places).message(to)


def received_corpora(plan: Plan, messages: Iterable[Message]) -> Iterator[Corpus]:
    """The texts of each partition that messages came to."""
    received: dict[int, list[Texts]] = {}
    for message in messages:
        if message.kind != LOST:
            received.setdefault(message.to, []).append(Texts.arrived(message))
    for parts in received.values():
        users, tokens, texts = together(parts)
        kept = np.ones(len(texts.sizes), bool)
        if plan.text is not None and plan.text.tokenizer == PAPER:
            kept = _once(texts)
        there = np.repeat(kept, texts.sizes)
        owners = np.repeat(texts.owners, texts.sizes)
        yield Corpus(users, tokens, texts.codes[there], owners[there])


def _once(texts: Texts) -> NDArray[np.bool_]:
    """Whether a text is the first of its user with its hash; which of them is first is the same."""
    order = np.lexsort((texts.posts, texts.owners))
    owners, posts = texts.owners[order], texts.posts[order]
    first = np.ones(len(order), bool)
    first[1:] = (owners[1:] != owners[:-1]) | (posts[1:] != posts[:-1])
    kept = np.empty(len(order), bool)
    kept[order] = first
    return kept
