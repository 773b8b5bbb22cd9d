"""Standard input, and pipes with a name, such as the shell makes of ``<(...)``.

Their bytes come once. So a source keeps the pipes that it has opened, to look at what they begin
with before a release is charged, and to read on from there.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TypeAlias

from dpsu.errors import ParameterError, without_values
from dpsu.inputs.formats import STDIN


class _NamedPipe(io.BufferedReader):
    """Closes itself, without a warning, when nothing is left that reads it."""

    def __del__(self) -> None:
        self.close()


Pipes: TypeAlias = dict[Path, io.BufferedReader]
# Of a pipe with a name; standard input comes with a buffer of its own.
BUFFER = 1 << 16


def is_pipe(path: Path) -> bool:
    """Whether this names standard input or another pipe."""
    try:
        return str(path) == STDIN or path.is_fifo()
    except (OSError, ValueError):
        return False


def named(path: Path) -> str:
    """The name of a file in messages: without its folder, but of a pipe that is all that tells."""
    if str(path) == STDIN:
        return "standard input"
    return repr(str(path) if is_pipe(path) else path.name)


def open_pipe(path: Path, pipes: Pipes) -> io.BufferedReader:
    """What has not been read yet; a pipe with a name waits for its writer."""
    if path not in pipes:
        if str(path) == STDIN:
            # Python has none where it was closed, and other programs put other objects there.
            opened = getattr(sys.stdin, "buffer", None)
        else:
            opened = without_values(
                lambda: _NamedPipe(io.FileIO(path), BUFFER), f"cannot open {named(path)}"
            )
        if not isinstance(opened, io.BufferedReader) or opened.closed:
            raise ParameterError(
                "standard input is closed, or was replaced by an object that is not a stream of "
                "bytes; pipe rows to this process, or name a file"
            )
        pipes[path] = opened
    return pipes[path]


def beginning(path: Path, pipes: Pipes) -> bytes:
    """Peek at the next bytes without taking them; empty at the end."""
    stream = open_pipe(path, pipes)
    return without_values(lambda: stream.peek(1), f"{named(path)} cannot be read")
