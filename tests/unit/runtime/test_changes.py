"""What calls change for a while, and what overlapping calls leave behind: nothing."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

import dpsu
from dpsu.errors import keep_warnings, warn
from dpsu.runtime.changes import shared
from dpsu.selection import telling_once


def overlap(block: Callable[[], AbstractContextManager[object]], act: Callable[[], object]) -> None:
    """Two threads enter, one after the other; the first one to enter is the first one to leave."""
    begun, ended = threading.Event(), threading.Event()

    def second() -> None:
        with block():
            begun.set()
            ended.wait(60)
            act()

    thread = threading.Thread(target=second)
    with block():
        thread.start()
        assert begun.wait(60)
        act()
    ended.set()
    thread.join()


def test_a_shared_change_is_made_by_the_first_and_undone_by_the_last() -> None:
    seen: list[str] = []

    @contextmanager
    def change() -> Iterator[None]:
        seen.append("made")
        yield
        seen.append("undone")

    for _ in range(2):
        overlap(lambda: shared("name", change), lambda: seen.append("used"))
    assert seen == ["made", "used", "used", "undone"] * 2
    with pytest.raises(ValueError, match="of the block"), shared("name", change):
        raise ValueError("of the block")
    assert seen[-2:] == ["made", "undone"]


def test_overlapping_choices_leave_python_its_warnings() -> None:
    """Each thread hears of its own once, and what others say is shown once all have left."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        filters, show = list(warnings.filters), warnings.showwarning

        def act() -> None:
            for _ in range(3):
                warn(f"of thread {threading.current_thread() is threading.main_thread()}")
                warnings.warn("of a loader", UserWarning, stacklevel=1)

        overlap(telling_once, act)
        assert warnings.filters == filters
        assert warnings.showwarning is show
        warn("afterwards")
    said = [str(each.message) for each in caught]
    assert sorted(said) == ["afterwards", "of a loader", "of thread False", "of thread True"]


def test_warnings_that_are_kept_are_those_of_the_block() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", dpsu.DataWarning)
        overlap(keep_warnings, lambda: warn("kept"))
        with keep_warnings() as outer:
            warn("first")
            with keep_warnings() as inner:
                warn("second")
        assert (outer, inner) == (["first"], ["second"])
        with pytest.raises(dpsu.DataWarning, match="shown"):
            warn("shown")


def test_errors_that_quote_cells_are_logged_by_no_overlapping_action() -> None:
    pytest.importorskip("pyspark")
    from pyspark.logger import PySparkLogger

    from dpsu.engines.spark.quietly import QUOTING_LOGGERS, unlogged

    records: list[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Kept()
    for name in QUOTING_LOGGERS:
        logger = PySparkLogger.getLogger(name)
        logger.addHandler(handler)
        try:
            overlap(unlogged, lambda logger=logger: logger.error("alice bought a gun"))  # type: ignore[misc]
            assert records == []
            logger.error("of another query")
            assert len(records) == 1
        finally:
            logger.removeHandler(handler)
            records.clear()
