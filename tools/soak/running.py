"""The command line in processes that can be disturbed: forked from one that has imported it all.

A fork takes milliseconds where a fresh process takes a second. A share of the cases uses fresh
processes all the same, so that disturbances while modules are imported are covered too.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import mmap
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

LONGEST = 300.0  # A run that takes longer hangs.
HUNG = -1000
SOFT = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@dataclass(frozen=True)
class Ended:
    """How a run ended: exit code, or minus the signal, and what it said."""

    code: int
    stdout: bytes
    stderr: str


def warm_up() -> None:
    """Import what a release needs and load its kernels, without starting a thread that stays."""
    import pyarrow.csv
    import pyarrow.json
    import pyarrow.parquet  # noqa: F401

    import dpsu
    import dpsu.cli
    import dpsu.inputs.reading
    import dpsu.plans.mechanisms.auto
    import dpsu.runtime.writing
    import dpsu.text.grams
    from tools.soak import data

    pairs = data.rows(300)
    for mechanism, options in data.CERTAIN.items():
        typed: dict[str, Any] = (
            {options[0].removeprefix("--").replace("-", "_"): int(options[1])} if options else {}
        )
        found = dpsu.release(
            pairs,
            epsilon=data.EPSILON,
            delta=data.DELTA,
            mechanism=dpsu.mechanism(mechanism, **typed),
        )
        if set(found.items) != set(data.COMMON):
            raise RuntimeError(f"{mechanism}: the release that should be certain is not")


def start(
    arguments: Sequence[str],
    folder: Path,
    *,
    stdout: int,
    stderr: int,
    temporary: Path | None = None,
    unbuffered: bool = False,
    before: Callable[[], None] | None = None,
) -> int:
    """Fork a process that runs the command line in `folder`; returns its id."""
    # What happens before the command listens is not the command's: signals wait until then.
    signal.pthread_sigmask(signal.SIG_BLOCK, SOFT)
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SOFT)
        return child
    try:
        _become(folder, stdout, stderr, temporary, unbuffered)
        sys.argv = ["dpsu", *arguments]
        command = importlib.import_module("dpsu.cli")
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SOFT)
        if before is not None:
            before()
        command.run()
    except BaseException:
        # As the interpreter would do it.
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)


def start_fresh(
    arguments: Sequence[str],
    folder: Path,
    *,
    stdout: int,
    stderr: int,
    temporary: Path | None = None,
    unbuffered: bool = False,
    before: Callable[[], None] | None = None,
) -> int:
    """Start a process that shares nothing with this one."""
    # The objects that watch over it must not collect its exit code: `wait` does.
    child = subprocess.Popen(
        [sys.executable, "-m", "dpsu", *arguments], cwd=folder, stdin=subprocess.DEVNULL,
        stdout=stdout, stderr=stderr, preexec_fn=before,  # noqa: PLW1509
        env=os.environ | ({"PYTHONUNBUFFERED": "1"} if unbuffered else {})
        | ({"TMPDIR": str(temporary)} if temporary else {}),
    )  # fmt: skip
    child.returncode = 0
    return child.pid


def wait(child: int, seconds: float = LONGEST) -> int:
    """The exit code of a child, or minus the signal that ended it; HUNG if it had to be killed."""
    hung = not ended_within(child, seconds)
    if hung:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return HUNG if hung else code


def ended_within(child: int, seconds: float) -> bool:
    """Whether a child ends by itself in that time; it still has to be waited for."""
    watch = os.pidfd_open(child)
    try:
        poll = select.poll()
        poll.register(watch, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(watch)


def run_to_the_end(
    arguments: Sequence[str],
    folder: Path,
    *,
    fresh: bool = False,
    disturb: Callable[[int], None] | None = None,
    stdout_in: Path | None = None,
    **options: Any,
) -> Ended:
    """Run the command line with its output in files; `disturb` is called with its process id."""
    with tempfile.TemporaryFile(dir=stdout_in) as out, tempfile.TemporaryFile() as words:
        begin = start_fresh if fresh else start
        child = begin(arguments, folder, stdout=out.fileno(), stderr=words.fileno(), **options)
        if disturb is not None:
            disturb(child)
        code = wait(child)
        out.seek(0)
        words.seek(0)
        return Ended(code, out.read(), words.read().decode(errors="replace"))


class Steps:
    """Counts lines of the package that a child executes, and lets it send signals to itself.

    The number of lines is known to the parent too, so that a later run can be disturbed at any of
    them: a step is as exact as a seed, where a clock is not.
    """

    def __init__(self, watched: Sequence[str], signals: Sequence[tuple[int, int]] = ()) -> None:
        self._watched = tuple(watched)
        self._signals = dict(signals)
        self._shared = mmap.mmap(-1, 8)

    def __call__(self) -> None:
        """Begin to count, in the child."""
        threading.settrace(self._trace)
        sys.settrace(self._trace)

    @property
    def count(self) -> int:
        """How many lines were executed."""
        return int.from_bytes(self._shared[:8], "little")

    def _trace(self, frame: FrameType, event: str, argument: object) -> Any:
        return self._line if frame.f_code.co_filename.startswith(self._watched) else None

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line":
            count = self.count + 1
            self._shared[:8] = count.to_bytes(8, "little")
            if count in self._signals:
                os.kill(os.getpid(), self._signals[count])
        return self._line


def _become(
    folder: Path, stdout: int, stderr: int, temporary: Path | None, unbuffered: bool
) -> None:
    for number in SOFT:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    if temporary is not None:
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    # Streams as the interpreter makes them.
    raw = io.FileIO(1, "w", closefd=False)
    sys.stdout = io.TextIOWrapper(
        raw if unbuffered else io.BufferedWriter(raw),
        encoding="utf-8",
        write_through=unbuffered,
    )
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(2, "w", closefd=False)),
        encoding="utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )


def in_child(
    work: Callable[[Callable[[str], None]], None], seconds: float
) -> tuple[list[str], int]:
    """Run `work` in a fork that may crash; returns the lines that it told and how it ended.

    It is given up when it tells nothing for so many `seconds`.
    """
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.close(read)
        _work_and_leave(work, write)
    os.close(write)
    told, heard = bytearray(), True
    with contextlib.closing(io.FileIO(read)) as stream:
        while heard:
            ready, _, _ = select.select([stream], [], [], seconds)
            chunk = stream.read(1 << 16) if ready else b""
            heard = bool(chunk)
            told += chunk or b""
        code = wait(child, 5.0 if not ready else LONGEST)
    return told.decode(errors="replace").splitlines(), code if ready else HUNG


def _work_and_leave(work: Callable[[Callable[[str], None]], None], write: int) -> NoReturn:
    def tell(line: str) -> None:
        os.write(write, f"{line}\n".encode(errors="replace"))

    try:
        work(tell)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)
