"""`dpsu release --engine spark`: the same from files, folders and tables that a cluster reads."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from dpsu.cli.options import Command
from dpsu.errors import ParameterError

if TYPE_CHECKING:
    from dpsu.releases import Release

ENGINES = ("local", "spark")
DEFAULT_MASTER = "local[*]"
# What only mechanisms whose users act in turn make use of, and what only one machine does.
IN_TURN = ("count", "order", "passes", "allow_unproven")
LOCAL_ONLY = ("memory_limit", "auto_budget", "text", "tokenizer", "ngrams")


def engine_options(command: Command) -> Command:
    """Where a release runs."""
    for option in reversed(
        (
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
                "--partitions", type=int, help="Buckets on Spark. Default one per million rows."
            ),
        )
    ):
        command = option(command)
    return command


def refuse_for_local(options: dict[str, Any]) -> None:
    """Options of Spark mean nothing to one machine; drops them."""
    for name in ("master", "spark_conf", "partitions"):
        if options.pop(name):
            raise click.UsageError(f"--{name.replace('_', '-')} is for --engine spark")
    if options.get("format") == "table":
        raise click.UsageError("--format table is for --engine spark")


def release_on_spark(files: Sequence[str], options: dict[str, Any]) -> Release:
    """Open a session, release, and close it whatever happens."""
    if not files:
        raise ParameterError("--engine spark reads FILE..., not --source and --query")
    import dpsu.spark
    from dpsu.engines.spark.query import failing_quietly
    from dpsu.engines.spark.reading import open_frame
    from dpsu.engines.spark.session import open_session

    for name in IN_TURN:
        if options.pop(name):
            raise ParameterError(
                f"{name} is for mechanisms whose users act one after the other, which cannot run "
                "on Spark"
            )
    for name in LOCAL_ONLY:
        if options.pop(name):
            raise ParameterError(f"{name} is for one machine, not for Spark")
    master, format_ = options.pop("master") or DEFAULT_MASTER, options.pop("format")
    settings = dict(_setting(text) for text in options.pop("spark_conf"))
    # About versions of pandas, which is not used; the caller restores what is shown.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    session = open_session(master, settings)
    try:
        frame = failing_quietly(lambda: open_frame(session, files, format_))
        return dpsu.spark.release(frame, **options).released
    finally:
        session.stop()


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError("--spark-conf must be KEY=VALUE")
    return name.strip(), value.strip()
