"""Where memory or threads are missing, a run says so at once, in the right words."""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpsu
from dpsu.errors import lacks_memory, without_values
from dpsu.runtime import threads
from dpsu.runtime.address_space import LEAST, address_space_left
from dpsu.runtime.memory import Memory, available

LONGEST = 600
RELEASE = ["-m", "dpsu", "release", "--epsilon", "1", "--delta", "1e-6", "--mechanism", "greedy"]


def _raise(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        pa.lib.ArrowMemoryError("malloc of size 2097152 failed"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        OSError("cannot load library: failed to map segment from shared object"),
        RuntimeError("can't start new thread"),
        RuntimeError("std::bad_alloc"),
        pa.lib.ArrowException("Unknown error: Failed to launch worker thread: Resource temporarily "
                              "unavailable"),
    ],
)  # fmt: skip
def test_data_are_not_blamed_for_missing_memory(error: Exception) -> None:
    assert lacks_memory(error)
    with pytest.raises(dpsu.ResourceError, match="there is not enough memory") as caught:
        without_values(lambda: _raise(error), "these data are damaged")
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a cell that says out of memory"),
        pa.ArrowInvalid("a cell that says std::bad_alloc"),
        BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"),
        OSError(errno.EIO, "Input/output error"),
        RuntimeError("something else"),
    ],
)
def test_memory_is_not_blamed_for_damaged_data(error: Exception) -> None:
    assert not lacks_memory(error)
    with pytest.raises(dpsu.DataError, match="these data are damaged"):
        without_values(lambda: _raise(error), "these data are damaged")


def limited(size: int) -> Any:
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size))


def test_too_small_an_address_space_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    rows, book = tmp_path / "rows.csv", tmp_path / "ledger.db"
    rows.write_text("user,item\nu1,a\n")
    done = subprocess.run(
        [sys.executable, *RELEASE, str(rows), "--ledger", str(book), "--dataset", "x",
         "--budget", "3,1e-5"],
        capture_output=True, check=False, text=True, timeout=LONGEST, preexec_fn=limited(LEAST // 2),
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == (
        "dpsu: there is not enough memory: this process may address 0.75 GB (ulimit -v), and its "
        "libraries alone need 1.5 GB; raise that limit\n"
    )
    assert not book.exists()


@pytest.mark.slow
def test_a_small_address_space_neither_hangs_nor_interrupts(tmp_path: Path) -> None:
    """OpenBLAS waits for ever for memory, or sends a SIGINT, unless it has one thread."""
    rows = tmp_path / "rows.csv"
    rows.write_text("user,item\n" + "".join(f"u{u},a\n" for u in range(500)))
    for size in (LEAST, LEAST + 2 * 10**8):
        done = subprocess.run(
            [sys.executable, *RELEASE, str(rows)],
            capture_output=True, check=False, text=True, timeout=LONGEST, preexec_fn=limited(size),
        )  # fmt: skip
        assert "interrupted" not in done.stderr
        # Libraries in C++ may abort; nothing else ends a run without a word of ours.
        aborted = done.returncode == -signal.SIGABRT
        assert done.returncode == 0 or aborted or "not enough memory" in done.stderr, done.stderr


def test_the_command_loads_no_blas_in_the_middle_of_its_work(tmp_path: Path) -> None:
    """SciPy's BLAS, which Numba looks for when it first compiles, waits for ever for memory."""
    rows = tmp_path / "rows.csv"
    rows.write_text("user,item\n" + "".join(f"u{u},a\n" for u in range(500)))
    for mechanism in ("weighted-gaussian", "sieve"):
        done = subprocess.run(
            [sys.executable, "-X", "importtime", *RELEASE, str(rows), "--mechanism", mechanism],
            capture_output=True, check=True, text=True, timeout=LONGEST,
        )  # fmt: skip
        assert done.stdout == "a\n"
        assert "llvmlite" in done.stderr
        assert "scipy.linalg.blas" not in done.stderr


def test_blas_gets_one_thread_unless_somebody_wants_more() -> None:
    code = (
        "import os; from dpsu_command import beginning; beginning.begin()\n"
        "print([os.environ.get(n) for n in ('OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS')])"
    )
    for given, seen in (({}, ["1", "1"]), ({"OPENBLAS_NUM_THREADS": "3"}, ["3", "1"])):
        names = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        clean = {name: value for name, value in os.environ.items() if name not in names}
        done = subprocess.run(
            [sys.executable, "-c", code], env=clean | given, capture_output=True, check=True, text=True
        )  # fmt: skip
        assert done.stdout == f"{seen}\n"


def test_threads_that_cannot_start_are_told_by_the_shell(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("user,item\n" + "".join(f"u{u},a\n" for u in range(100)))
    (tmp_path / "sitecustomize.py").write_text(
        "import threading\n"
        "def start(self):\n"
        '    raise RuntimeError("can\'t start new thread")\n'
        "threading.Thread.start = start\n"
    )
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *RELEASE, str(rows)],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True, check=False, text=True, timeout=LONGEST,
    )  # fmt: skip
    assert done.returncode == 1
    assert "there is not enough memory for this" in done.stderr


@pytest.mark.parametrize("allowed", [0, 1])
def test_threads_that_cannot_start_do_not_hang(
    allowed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, start = [0], threading.Thread.start

    def limited_start(self: threading.Thread) -> None:
        if started[0] >= allowed:
            raise RuntimeError("can't start new thread")
        started[0] += 1
        start(self)

    monkeypatch.setattr(threads, "WORKERS", 4)
    # Those that earlier tests started are kept.
    monkeypatch.setattr(threads, "_helpers", threads._Helpers())
    monkeypatch.setattr(threading.Thread, "start", limited_start)
    gate = threading.Event()
    with pytest.raises(dpsu.ResourceError, match="not enough memory"):
        # The first worker is busy, so that others are wanted.
        threads.side_by_side(lambda k: gate.wait(0.2), 4)
    started[0] = 0
    with pytest.raises(dpsu.ResourceError, match="not enough memory"):
        list(threads.in_order_ahead(lambda k: gate.wait(0.2), range(20)))


def test_memory_counts_a_limited_address_space() -> None:
    code = """
import resource
from dpsu.runtime import memory
from dpsu.runtime.address_space import address_space_left
from dpsu.errors import ResourceError
left = 300_000_000
now = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + left, now + left))
assert abs(address_space_left() - left) < 50_000_000, address_space_left()
assert memory.available() <= left
try:
    memory.Memory().expect(10**9)
except ResourceError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert "that this process may still address (ulimit -v); raise that limit" in done.stdout


def test_no_limit_means_no_limit() -> None:
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        pytest.skip("this process is limited")
    assert address_space_left() is None
    assert available() > 0
    Memory().expect(1000)
