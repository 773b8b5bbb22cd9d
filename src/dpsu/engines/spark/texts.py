"""Texts on Spark: what can be told of them before and after a release, and functions to send."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpsu.contributions.pairs import Tally, report_lost, report_nothing
from dpsu.engines.cluster.corpora import reasons
from dpsu.engines.cluster.messages import LOST, ROWS
from dpsu.engines.cluster.ngrams import ClusterTexts, FlipGrams, WeighGrams
from dpsu.engines.cluster.steps import Job
from dpsu.engines.cluster.texts import nothing, portable
from dpsu.engines.local_texts import all_lengths
from dpsu.errors import ParameterError
from dpsu.plans.plan import Plan
from dpsu.rounds.ngrams import NGramRounds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

# About so many bytes of a text make an item of each length.
BYTES_OF_ITEM = 6


def refuse_tokenizer(plan: Plan) -> None:
    """Refuse a tokenizer that is not what the plan says, or that cannot be sent to workers."""
    tokenizer = portable(plan)
    if not callable(tokenizer):
        return
    from pyspark import cloudpickle

    failed = ""
    try:
        dumps: Any = cloudpickle.dumps
        dumps(tokenizer)
    except Exception as error:
        failed = type(error).__name__
    if failed:
        raise ParameterError(
            f"{{tokenizer}} is a function that Spark cannot send to its workers ({failed}): it "
            "holds what cannot be copied, such as a lock or an open file; make those inside of the "
            "function, or put it in a module that workers have",
            tokenizer=...,
        )


def rows_in(frame: DataFrame, plan: Plan) -> int:
    """About how many rows of items there are, by the bytes of all texts. PRIVATE."""
    from pyspark.sql import functions as f

    assert plan.text is not None
    (total,) = frame.agg(f.sum(f.octet_length("item")).alias("bytes")).collect()[0]
    return (total or 0) * (plan.text.longest - plan.text.shortest + 1) // BYTES_OF_ITEM


def observed(messages: DataFrame, plan: Plan, seen: Observation) -> DataFrame:
    """The same messages; `seen` observes of which kinds they are."""
    from pyspark.sql import functions as f

    kind, place = f.col("kind"), f.col("sender")
    each = [
        f.count_if((kind == LOST) & (place == at)).alias(f"lost {at}")
        for at, _ in enumerate(reasons(plan))
    ]
    return messages.observe(seen, f.count_if(kind == ROWS).alias("rows"), *each)


def run_by_length(job: Job, ask: Callable[..., pa.Table]) -> pa.Array:
    """Released n-grams of all lengths, sorted; `ask` runs one query for two steps."""
    from pyspark.sql import Observation

    rounds, seen = job.plan.selection, Observation()
    assert isinstance(rounds, NGramRounds)

    def ask_cluster(weigh: WeighGrams, flip: FlipGrams) -> pa.Table:
        # Every query reads all texts; what is left out is the same, and told once.
        return ask(weigh, flip, seen if weigh.round_number == 1 else None)

    found = all_lengths(rounds.run(ClusterTexts(job, ask_cluster), job.key))
    warn_of(job, seen.get)
    return found


def warn_of(job: Job, seen: dict[str, Any]) -> None:
    """Warn the curator of what was left out, as the local engine does."""
    tally = Tally(nothing(job.plan))
    for at, reason in enumerate(reasons(job.plan)):
        tally.lose(reason, seen[f"lost {at}"])
    report_lost(tally, strict=False)
    if not seen["rows"]:
        report_nothing(tally, job.strict)
