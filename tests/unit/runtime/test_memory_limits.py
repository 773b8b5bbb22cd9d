"""Where memory or threads are missing, a run says so at once, in the right words."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpsu
from dpsu.errors import is_memory_error, without_values
from dpsu.runtime import threads

LONGEST = 600
RELEASE = [sys.executable, "-m", "dpsu", "release", "--epsilon", "1", "--delta", "1e-6"]


def _raise(error: BaseException) -> Any:
    raise error


def test_data_and_memory_are_not_blamed_for_each_other() -> None:
    missing: list[Exception] = [
        MemoryError(),
        pa.lib.ArrowMemoryError("malloc of size 2097152 failed"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        RuntimeError("can't start new thread"),
    ]
    damaged: list[Exception] = [
        ValueError("a cell that says out of memory"),
        pa.ArrowInvalid("a cell that says std::bad_alloc"),
        BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"),
        OSError(errno.EIO, "Input/output error"),
        RuntimeError("a cell that says can't start new thread"),
    ]
    kind: type[dpsu.DpsuError]
    for errors, kind, words in (
        (missing, dpsu.ResourceError, "there is not enough memory"),
        (damaged, dpsu.DataError, "these data are damaged"),
    ):
        for error in errors:
            assert is_memory_error(error) == (errors is missing), error
            with pytest.raises(kind, match=words) as caught:
                without_values(partial(_raise, error), "these data are damaged")
            assert caught.value.__context__ is None, error


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
        [*RELEASE, "--mechanism", "greedy", str(rows)],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True, check=False, text=True, timeout=LONGEST,
    )  # fmt: skip
    assert done.returncode == 75
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

    # Those that earlier tests started are kept.
    monkeypatch.setattr(threads, "_helpers", threads._Helpers())
    monkeypatch.setattr(threading.Thread, "start", limited_start)
    gate = threading.Event()
    with (
        threads.use_workers(4),
        pytest.raises(dpsu.ResourceError, match="not enough memory"),
    ):
        # The first worker is busy, so that others are wanted.
        threads.side_by_side(lambda k: gate.wait(0.2), 4)
    started[0] = 0
    with threads.use_workers(4), pytest.raises(dpsu.ResourceError, match="not enough memory"):
        list(threads.in_order_ahead(lambda k: gate.wait(0.2), range(20)))
