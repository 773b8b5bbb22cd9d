"""Work that is spread over threads: all of it is done, failures come out, and threads are kept."""

from __future__ import annotations

import os
import threading
import time

import pytest

from dpsu.runtime import threads


@pytest.fixture(autouse=True)
def three_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "WORKERS", 3)


def test_everything_is_done_once() -> None:
    for n in [0, 1, 2, 3, 50]:
        done: list[int] = []
        threads.side_by_side(done.append, n)
        assert sorted(done) == list(range(n)), n


def test_the_calling_thread_works_and_helpers_are_kept() -> None:
    seen: set[int] = set()
    meeting = threading.Barrier(3, timeout=60)

    def meet(k: int) -> None:
        seen.add(threading.get_ident())
        meeting.wait()

    for _ in range(20):
        threads.side_by_side(meet, 3)
    assert threading.get_ident() in seen
    # As many as ever ran at once, and not as many as there were calls.
    assert len(seen) <= threads.MOST_WORKERS + 1


def test_a_failure_comes_out_when_nothing_runs_any_more() -> None:
    running, begun = [0], threading.Barrier(3, timeout=60)

    def work(k: int) -> None:
        running[0] += 1
        begun.wait()
        if k == 1:
            running[0] -= 1
            raise ValueError("k is 1")
        time.sleep(0.02)
        running[0] -= 1

    with pytest.raises(ValueError, match="k is 1"):
        threads.side_by_side(work, 3)
    assert running == [0]


def test_helpers_that_need_help_work_alone() -> None:
    done: list[tuple[int, int]] = []

    def outer(k: int) -> None:
        threads.side_by_side(lambda j: done.append((k, j)), 5)

    # More than there are helpers: had they waited for each other, this would never end.
    threads.side_by_side(outer, 40)
    assert sorted(done) == [(k, j) for k in range(40) for j in range(5)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_has_helpers_of_its_own() -> None:
    meeting = threading.Barrier(3, timeout=60)
    threads.side_by_side(lambda k: meeting.wait(), 3)
    child = os.fork()
    if child == 0:
        meeting = threading.Barrier(3, timeout=60)
        try:
            threads.side_by_side(lambda k: meeting.wait(), 3)
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
