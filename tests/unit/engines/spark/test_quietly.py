"""Errors of Spark, told apart by what Spark and Java call them; tests/spark has real ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import dpsu
from dpsu.engines.spark.quietly import failing_quietly

pyspark: Any = pytest.importorskip("pyspark")

SECRET = "alice bought a gun"
SPARK, PYTHON = "org.apache.spark.SparkException", "org.apache.spark.api.python.PythonException"
# Java classes and conditions of an error and its causes; the error that this is, and its name.
CHAINS: list[tuple[list[tuple[str, str | None]], type[dpsu.DpsuError], str]] = [
    ([(SPARK, None), (SPARK, "SPARK_JOB_CANCELLED")], dpsu.JobLostError, "SPARK_JOB_CANCELLED"),
    # Executors that were lost, or a context that was stopped: no task raised anything.
    ([(SPARK, None), (SPARK, None)], dpsu.JobLostError, SPARK),
    ([(SPARK, None), ("java.io.EOFException", None)], dpsu.JobLostError, "java.io.EOFException"),
    ([(SPARK, None), (SPARK, "UNABLE_TO_ACQUIRE_MEMORY")], dpsu.ResourceError, "UNABLE_TO"),
    ([(SPARK, None), ("java.lang.OutOfMemoryError", None)], dpsu.ResourceError, "OutOfMemory"),
    ([(SPARK, None), (SPARK, "FAILED_READ_FILE.NO_HINT"), ("java.io.EOFException", None)],
     dpsu.DataError, "FAILED_READ_FILE.NO_HINT"),
    ([(PYTHON, "PYTHON_EXCEPTION")], dpsu.DataError, "PYTHON_EXCEPTION"),
    ([(SPARK, None), ("java.lang.ArithmeticException", None)], dpsu.DataError, "Arithmetic"),
]  # fmt: skip


def throwable(chain: list[tuple[str, str | None]]) -> Any:
    """An exception of Java as Py4J shows it, whose messages quote a cell."""
    if not chain:
        return None
    (name, condition), *causes = chain
    return SimpleNamespace(
        getClass=lambda: SimpleNamespace(getName=lambda: name),
        getCondition=lambda: condition,
        getCause=lambda: throwable(causes),
        getMessage=lambda: SECRET,
    )


def test_errors_are_told_apart_and_none_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    alive = SimpleNamespace(_jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: 0)))
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", alive)

    def fail(error: Exception) -> None:
        raise error

    for chain, kind, name in CHAINS:
        error = RuntimeError(SECRET)
        error.java_exception = throwable(chain)  # type: ignore[attr-defined]
        with pytest.raises(kind) as caught:
            failing_quietly(lambda: fail(error))  # noqa: B023
        assert name in str(caught.value), chain
        assert SECRET not in str(caught.value), chain
        assert caught.value.__context__ is None, chain
    # Whatever fails after its session is gone, fails for that.
    monkeypatch.setattr(pyspark.SparkContext, "_active_spark_context", None)
    with pytest.raises(dpsu.JobLostError):
        failing_quietly(lambda: fail(AttributeError(SECRET)))
