"""Work that is spread over threads: all of it is done, failures come out, and threads are kept."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dpsu
from dpsu.runtime import cores, threads
from tests.support.cases import every


@pytest.fixture(autouse=True)
def three_workers() -> Iterator[None]:
    with threads.use_workers(3):
        yield


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


def test_work_that_is_spread_by_readers_is_spread_as_the_caller_was_asked_to() -> None:
    with threads.use_workers(2):
        assert list(threads.in_order_ahead(lambda k: threads.workers(), range(5))) == [2] * 5
        seen: list[int] = []
        threads.side_by_side(lambda k: seen.append(threads.workers()), 5)
    assert seen == [2] * 5
    assert threads.workers() == 3


def test_overlapping_releases_keep_their_own_threads() -> None:
    """Each leaves after the other has come: none sets what the other one, or the process, has."""
    meeting = threading.Barrier(2, timeout=60)
    seen: dict[int, list[int]] = {1: [], 2: []}

    def run(number: int) -> None:
        for turn in range(2):
            with threads.use_workers(number):
                meeting.wait()
                seen[number].append(threads.workers())
                if number == 1 + turn:
                    # The other one leaves first.
                    meeting.wait()
            if number != 1 + turn:
                meeting.wait()
            meeting.wait()
            seen[number].append(threads.workers())

    both = [threading.Thread(target=run, args=[number]) for number in seen]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    usual = threads.usual_workers()
    assert seen == {1: [1, usual] * 2, 2: [2, usual] * 2}


@pytest.fixture
def asked_anew() -> Iterator[None]:
    threads.usual_workers.cache_clear()
    yield
    threads.usual_workers.cache_clear()


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_quotas_of_groups_are_found(tmp_path: Path) -> None:
    """Of both versions, of any group around this one, and of a container that sees only its own."""
    groups, mount = tmp_path / "cgroup", tmp_path / "fs"
    cfs = {"cpu__cfs_quota_us": "250000\n", "cpu__cfs_period_us": "100000\n"}
    free = {"cpu__cfs_quota_us": "-1\n", "cpu__cfs_period_us": "100000\n"}
    second, first = "0::/kube/pod\n", "4:cpu,cpuacct:/kube/pod\n3:memory:/kube/pod\n"
    cases: list[tuple[str, dict[str, dict[str, str]], list[float]]] = [
        (second, {}, []),
        (second, {"kube/pod": {"cpu__max": "max 100000\n"}}, []),
        (second, {"kube/pod": {"cpu__max": "150000 100000\n"}}, [1.5]),
        (
            second,
            {"kube/pod": {"cpu__max": "max 100000"}, "kube": {"cpu__max": "1000 100000"}},
            [0.01],
        ),
        (second, {"": {"cpu__max": "200000 50000\n"}}, [4.0]),
        ("0::/\n", {"": {"cpu__max": "200000 50000\n"}}, [4.0]),
        ("0::/../other\n", {"": {"cpu__max": "200000 50000\n"}}, [4.0]),
        (first, {"cpu/kube/pod": cfs, "cpu": free}, [2.5]),
        (first, {"cpu": cfs}, [2.5]),
        (first, {"memory/kube/pod": cfs}, []),
        (second, {"": {"cpu__max": "nonsense"}, "kube": {"cpu__max": "1 0"}}, []),
        ("nonsense", {"": {"cpu__max": "200000 50000\n"}}, []),
    ]
    for at, (own, tree, expected) in enumerate(cases):
        groups.write_text(own)
        for folder, files in tree.items():
            write(mount / str(at) / folder, **files)
        assert list(cores.quotas(groups, mount / str(at))) == expected, at
    assert list(cores.quotas(tmp_path / "none", mount)) == []


def test_threads_are_as_many_as_cores_that_may_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_anew: None
) -> None:
    def usual(quota: str = "max 100000", affinity: int = 6, typed: str | None = None) -> int:
        write(tmp_path, cpu__max=quota, groups="0::/\n")
        monkeypatch.setattr(cores, "GROUPS", tmp_path / "groups")
        monkeypatch.setattr(cores, "MOUNT", tmp_path)
        monkeypatch.setattr(os, "process_cpu_count", lambda: affinity, raising=False)
        monkeypatch.delenv("DPSU_THREADS", raising=False)
        if typed is not None:
            monkeypatch.setenv("DPSU_THREADS", typed)
        threads.usual_workers.cache_clear()
        return threads.usual_workers()

    assert usual() == 6
    assert usual(affinity=64) == threads.MOST_WORKERS == 8
    assert usual("150000 100000") == 2
    assert usual("1000 100000") == 1
    assert usual("900000 100000", affinity=64) == 8
    assert usual(typed="2") == usual(typed="02") == 2
    assert usual(typed="999999999") == 6
    monkeypatch.delattr(os, "process_cpu_count")
    threads.usual_workers.cache_clear()
    if hasattr(os, "sched_getaffinity"):
        monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 5, 7})
        assert cores.usable_cores() == 3


@every("typed", ["", "0", "-1", "2.5", "two", " 2", "٣", "{user}", "9" * 5000])
def test_threads_that_are_no_number_are_refused_before_anything_is_charged(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_anew: None
) -> None:
    monkeypatch.setenv("DPSU_THREADS", typed)
    ledger = dpsu.Ledger(tmp_path / "ledger.db")
    account = ledger.dataset("visits", budget=(9, 0.1))
    rows: Any = {"u": ["a"]}
    with pytest.raises(dpsu.ParameterError, match=r"DPSU_THREADS=.* set it to a positive integer"):
        dpsu.release(rows, epsilon=1, delta=1e-6, ledger=account)
    plan = dpsu.plan(epsilon=1, delta=1e-6, mechanism="sieve")
    with pytest.raises(dpsu.ParameterError, match="DPSU_THREADS"):
        dpsu.select(rows, [plan], ledger=account)
    assert not (tmp_path / "ledger.db").exists()
    with pytest.raises(dpsu.ParameterError, match="DPSU_THREADS"):
        threads.usual_workers()
