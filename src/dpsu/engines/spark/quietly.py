"""Run actions of Spark without passing on what their errors quote."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from logging import LogRecord
from typing import Any, TypeVar

from dpsu.engines.cluster.steps import failure
from dpsu.errors import DataError, DpsuError, JobLostError, ResourceError, is_memory_error

T = TypeVar("T")

QUOTING_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
# Whether this thread runs an action of ours; those of others are logged meanwhile.
_unlogged: ContextVar[bool] = ContextVar("dpsu unlogged", default=False)
# Names of Spark errors that data cannot cause: the error condition, or, without one, the Java class
# of the root cause. SparkException is the root cause of a lost task; EOFException means that the
# Python worker of a task is gone.
LOST = {
    "SPARK_JOB_CANCELLED", "OPERATION_CANCELED", "OPERATION_ABANDONED", "INVALID_HANDLE",
    "org.apache.spark.SparkException", "java.io.EOFException",
}  # fmt: skip
SHORT = {"UNABLE_TO_ACQUIRE_MEMORY", "java.lang.OutOfMemoryError"}


def failing_quietly(act: Callable[[], T]) -> T:
    """Run a Spark action; its error message may quote cells, so it is not passed on."""
    name = message = ""
    kind: type[DpsuError] = DataError
    try:
        # These warnings are about versions of pandas, which is not used. They stay ignored: what is
        # shown is for the whole process, where other jobs may go on when this one ends.
        warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
        with unlogged():
            return act()
    except DpsuError:
        raise
    except Exception as error:
        message, name = str(error), condition_of(error)
        kind = kind_of(error, name)
    raise failure("Spark", message, name, kind)


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


def condition_of(error: BaseException) -> str:
    """What Spark calls the kind of an error, which quotes nothing.

    It is the first error condition in the chain of causes, or else the class of the root cause.
    """
    name, condition = type(error).__name__, getattr(error, "getCondition", lambda: None)()
    cause: Any = None if condition else getattr(error, "java_exception", None)
    # A Java that is gone cannot be asked.
    with suppress(Exception):
        while cause is not None and not condition:
            name = cause.getClass().getName()
            with suppress(Exception):
                condition = cause.getCondition()
            cause = cause.getCause()
    return str(condition or name)


def kind_of(error: BaseException, name: str) -> type[DpsuError]:
    """The error that an error of Spark means, by what Spark calls it and by its class alone."""
    if is_memory_error(error) or name in SHORT:
        return ResourceError
    if name.partition(".")[0] in LOST or name in LOST or _is_stopped():
        return JobLostError
    status = getattr(error, "getGrpcStatusCode", lambda: None)()
    return JobLostError if getattr(status, "name", "") == "UNAVAILABLE" else DataError


def _is_stopped() -> bool:
    """Whether the session of this process is gone; one over Spark Connect says so itself."""
    from pyspark import SparkContext
    from pyspark.sql.utils import is_remote

    if is_remote():
        return False
    context: Any = SparkContext._active_spark_context
    try:
        return context is None or bool(context._jsc.sc().isStopped())
    except Exception:
        # Java does not answer any more.
        return True
