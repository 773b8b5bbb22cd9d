"""Standard output must carry every item; standard error may fail without harm."""

from __future__ import annotations

import contextlib
import sys

from dpsu.errors import OutputError


def to_stdout(data: bytes) -> None:
    """Write all of it, or say why not."""
    if sys.stdout is None or sys.stdout.closed:
        raise OutputError("cannot write standard output: it is closed")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write standard output: {error.strerror}") from None


def somebody_watches() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def to_stderr(line: str) -> None:
    """Tell people, if anybody listens."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
