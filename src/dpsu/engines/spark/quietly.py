"""Run actions of Spark without passing on what their errors quote."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from logging import LogRecord
from typing import TypeVar

from dpsu.engines.cluster.steps import failure
from dpsu.errors import DpsuError

T = TypeVar("T")

QUOTING_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# Whether this thread runs an action of ours; those of others are logged meanwhile.
_unlogged: ContextVar[bool] = ContextVar("dpsu unlogged", default=False)


def failing_quietly(act: Callable[[], T]) -> T:
    """Run a Spark action; its error message may quote cells, so it is not passed on."""
    condition = message = ""
    try:
        # These warnings are about versions of pandas, which is not used. They stay ignored: what is
        # shown is for the whole process, where other jobs may go on when this one ends.
        warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
        with unlogged():
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
    for name in QUOTING_LOGGERS:
        # Once for good, as a filter that is there is not added again.
        PySparkLogger.getLogger(name).addFilter(_is_logged)
    before = _unlogged.set(True)
    try:
        yield
    finally:
        _unlogged.reset(before)


def _is_logged(record: LogRecord) -> bool:
    return not _unlogged.get()


def condition_of(error: Exception) -> str:
    """What Spark calls the kind of an error, which quotes nothing."""
    return str(getattr(error, "getCondition", lambda: None)() or type(error).__name__)
