"""Run actions of Spark without passing on what their errors quote."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from dpsu.engines.cluster.steps import failure
from dpsu.errors import DpsuError

T = TypeVar("T")

QUOTING_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def failing_quietly(act: Callable[[], T]) -> T:
    """Run a Spark action; its error message may quote cells, so it is not passed on."""
    condition = message = ""
    try:
        with warnings.catch_warnings(), unlogged():
            # These warnings are about versions of pandas, which is not used.
            warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
            return act()
    except DpsuError:
        raise
    except Exception as error:
        message = str(error)
        condition = condition_of(error)
    raise failure("Spark", message, condition)


@contextmanager
def unlogged() -> Iterator[None]:
    """Keep PySpark from printing errors that quote cells before anybody can catch them."""
    from pyspark.logger import PySparkLogger

    # Made by PySpark's own class: PySpark cannot use loggers that another class made.
    loggers = [PySparkLogger.getLogger(name) for name in QUOTING_LOGGERS]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


def condition_of(error: Exception) -> str:
    """What Spark calls the kind of an error, which quotes nothing."""
    return str(getattr(error, "getCondition", lambda: None)() or type(error).__name__)
