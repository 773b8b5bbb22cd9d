"""`--engine spark`: a release from files, folders and tables that a cluster reads."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from dpsu.cli.options import added
from dpsu.errors import ParameterError, option_error, spelled_in_the_shell

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dpsu.plans.plan import Plan
    from dpsu.results import Release

ENGINES = ("local", "spark")
DEFAULT_MASTER = "local[*]"


# Where a release runs.
engine_options = added(
    click.option(
        "--engine",
        type=click.Choice(ENGINES),
        default="local",
        show_default=True,
        help="Run on this machine, or on Spark (parquet, csv, tsv, tables).",
    ),
    click.option(
        "--master",
        help="Master of Spark, such as local[2], yarn or k8s://..., or a Connect server "
        f"sc://HOST. Default {DEFAULT_MASTER}.",
    ),
    click.option(
        "--spark-conf",
        multiple=True,
        metavar="KEY=VALUE",
        help="Setting of Spark, such as spark.driver.memory=4g; may be repeated.",
    ),
    click.option(
        "--partitions", type=int, help="Partitions on Spark. Default one per million rows."
    ),
)


def refuse_for_local(options: dict[str, Any]) -> None:
    """Options of Spark mean nothing to one machine; drops them."""
    for name in ("master", "spark_conf", "partitions"):
        if options.pop(name):
            raise click.UsageError(f"{spelled_in_the_shell(name)} is for --engine spark")
    if options.get("format") == "table":
        raise click.UsageError("--format table is for --engine spark")


def release_on_spark(
    files: Sequence[str], made: dict[str, Any], options: dict[str, Any]
) -> Release:
    """Open a session, release, and close it whatever happens."""
    import dpsu.spark
    from dpsu.cli.sources import files_read
    from dpsu.clusters import in_parallel
    from dpsu.inputs.also_public import refuse_same_files
    from dpsu.series.once import keeper_of

    if "plan" in made:
        chosen = made["plan"]
    else:
        made = made | {"mechanism": in_parallel(made["mechanism"])}
        chosen = dpsu.plan(**made)
    refuse_same_files(files_read(files, None, None), chosen.knowledge.paths)
    # What was released under this name needs no session.
    stored = keeper_of(options["ledger"], chosen).stored()
    if stored is not None:
        return stored
    with opened_on_spark(files, chosen, options) as frame:
        return dpsu.spark.release(frame, **made, **options).released


@contextmanager
def opened_on_spark(
    files: Sequence[str], plan: Plan, options: dict[str, Any]
) -> Iterator[DataFrame]:
    """A frame of all files, in a session that is closed at the end.

    Takes the options of `engine_options`, and what one machine alone has, out of `options`.
    """
    if not files:
        raise ParameterError("--engine spark reads FILE..., not --source and --query")
    from dpsu.engines.spark.query import refuse_what_spark_cannot
    from dpsu.engines.spark.quietly import failing_quietly
    from dpsu.engines.spark.reading import open_frame
    from dpsu.engines.spark.session import open_session

    if options.pop("memory_limit"):
        raise option_error("memory_limit", "is for one machine, not for Spark")
    # Before Java starts: what a plan alone can get wrong.
    refuse_what_spark_cannot(plan)
    master, format_ = options.pop("master") or DEFAULT_MASTER, options.pop("format")
    settings = dict(_setting(text) for text in options.pop("spark_conf"))
    # About versions of pandas, which is not used; the caller restores what is shown.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    handler = signal.getsignal(signal.SIGINT)
    session = open_session(master, settings)
    # PySpark has put a handler of its own there.
    signal.signal(signal.SIGINT, handler)
    try:
        yield failing_quietly(lambda: open_frame(session, files, format_))
    finally:
        # One that is gone cannot be stopped.
        with suppress(Exception):
            session.stop()


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError("--spark-conf must be KEY=VALUE")
    return name.strip(), value.strip()
