"""Texts on a cluster: the rows of users and texts become rows of users and items as they are sent.

    rows of texts -> SendTexts -> [by partition of users] -> as for rows of items

A text is tokenized where it is read, alone, by the code of one machine, some megabytes at a time.
Only the items of a text are sent. What is left out is told in messages of their own, which name a
reason and nothing else.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import pyarrow as pa

from dpsu.contributions.pairs import Tally, report_lost
from dpsu.engines.cluster.corpora import SendCorpus, pieces_of
from dpsu.engines.cluster.losses import Telling, without_user
from dpsu.engines.cluster.steps import Batches, Job, SendRows
from dpsu.engines.cluster.values import Read, SendValues
from dpsu.errors import ParameterError
from dpsu.inputs.tokens import Tokens as TextItems
from dpsu.plans.plan import Plan
from dpsu.plans.public_data import PublicDigest
from dpsu.text.grams import items_of_rows
from dpsu.text.pieces import Tokens
from dpsu.text.spec import FunctionName, Tokenizer, is_file, tokenizer_name
from dpsu.text.tokenizing import content_of, try_tokenizer


@dataclass(frozen=True, repr=False)
class SendTexts(Telling):
    """Tokenize rows of (user, text) and send their items to the partitions of the users.

    `tokenizer` is what the plan names, in a form that works on any machine.
    """

    tokenizer: Tokenizer

    def messages(self, batches: Batches, tally: Tally) -> Batches:
        """Messages of rows."""
        return SendRows(self.job)(self._rows(batches, tally))

    def _rows(self, batches: Batches, tally: Tally) -> Batches:
        """Rows of (user, item), the items of every text once."""
        plan, source = self.job.plan, self.job.plan.text
        assert source is not None
        # Whether a user holds an item is all that matters here, so that no text is remembered.
        tokens = Tokens(plan.user.name, source, self.tokenizer, tally, with_repeats=False)
        for piece in pieces_of(self.job, batches):
            users, segments = tokens.of(piece)
            held = items_of_rows(segments, source, with_repeats=False)
            user, item = users.take(_places(held.rows)), held.texts.take(_places(held.items))
            if user.null_count:
                tally.lose(without_user(plan))
                item, user = item.filter(user.is_valid()), user.drop_null()
            if self.job.strict:
                report_lost(tally, strict=True)
            yield pa.RecordBatch.from_arrays([user, item], names=["user", "item"])


def _places(values: object) -> pa.Array:
    return pa.array(values, pa.int32())


def sender(
    job: Job, tokenizer: Tokenizer | None, read: Read | None = None
) -> SendRows | SendValues | SendTexts | SendCorpus:
    """The step that sends rows to partitions of users: items, values, items of texts, or texts.

    `read` makes items of rows that have values of many columns.
    """
    if read is not None:
        return SendValues(job, read)
    if tokenizer is None:
        return SendRows(job)
    return (SendCorpus if job.plan.by_length else SendTexts)(job, tokenizer)


def portable(plan: Plan) -> Tokenizer | None:
    """The tokenizer of a plan for any machine: a file by its content, which the plan approved."""
    if isinstance(plan.item, TextItems):
        plan.item.refuse_function_name()
    named = plan.item.tokenizer
    made: Tokenizer | None = named
    if isinstance(named, str) and is_file(named):
        made = content_of(named)
        digest = hashlib.sha256(made.content).hexdigest()
        if PublicDigest(len(made.content), digest) != plan.tokenizer_file:
            raise ParameterError(
                "{tokenizer} is another file than the plan was made with", tokenizer=named
            )
    if made is not None:
        try_tokenizer(made)
    return made


def without_function(plan: Plan) -> Plan:
    """The plan for steps that tokenize nothing: they know a function by its name alone."""
    if not isinstance(plan.item, TextItems) or isinstance(plan.item.tokenizer, str):
        return plan
    name = FunctionName(tokenizer_name(plan.item.tokenizer))
    return replace(plan, item=replace(plan.item, tokenizer=name))
