"""Room for rows: in memory while there is enough, else in temporary files without a name.

A temporary file is unlinked before anything is written to it: nobody else can open it, and nothing
is left of it however the process ends. It holds codes, never ids.
"""

from __future__ import annotations

import errno
import mmap
import os
import re
import shutil
import tempfile
import threading
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsu.errors import ResourceError, option_error, unless_short

# The share of the available memory that rows may take when a release starts. The rest is for what
# is being read, for the distinct ids and for other processes.
SHARE_FOR_ROWS = 0.6
# What is reserved on disk at once is what was reserved before, so that few files are open; but no
# less and no more than this.
SLABS = 1 << 22, 1 << 30
# A code of a user and one of an item, as they are read, and both again as they are grouped.
BYTES_PER_ROW = 16
FIX = "set TMPDIR to a larger disk, raise the memory limit, or use a larger machine"
UNITS = ["", "K", "M", "G", "T"]


class Memory:
    """Hands out arrays, in memory up to `limit` bytes at a time and on disk beyond."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = int(SHARE_FOR_ROWS * available()) if limit is None else limit
        self.spilled = 0
        self._held = 0
        self._slab: mmap.mmap | None = None
        self._used = 0
        # Reentrant, because an array may be freed while another is made.
        self._lock = threading.RLock()

    def expect(self, rows: int) -> None:
        """Refuse before the work starts if neither memory nor disk will have room."""
        beyond = rows * BYTES_PER_ROW - self.limit
        if beyond <= 0:
            return
        free = shutil.disk_usage(_folder()).free
        if beyond > free:
            # The message does not say how many rows there are: others may see it.
            raise ResourceError(
                f"the rows need more than the {_shown(self.limit)} of memory and {_shown(free)} of "
                f"disk in {_folder()!r} that there are for them; {FIX}"
            )

    def empty(self, size: int, dtype: Any = np.int32) -> NDArray[Any]:
        """An array of zeros, to be filled by the caller; any thread may ask for one."""
        n_bytes = size * np.dtype(dtype).itemsize
        if n_bytes == 0:
            return np.empty(size, dtype)
        with self._lock:
            if self._held + n_bytes > self.limit:
                return self._on_disk(size, n_bytes, dtype)
            self._held += n_bytes
        # Not from the heap, which does not return memory that is freed piece by piece.
        array = np.frombuffer(unless_short(lambda: _anonymous(n_bytes)), dtype, size)
        weakref.finalize(array, self._free, n_bytes)
        return array

    def _free(self, n_bytes: int) -> None:
        with self._lock:
            self._held -= n_bytes

    def _on_disk(self, size: int, n_bytes: int, dtype: Any) -> NDArray[Any]:
        if self._slab is None or self._used + n_bytes > len(self._slab):
            self._slab, self._used = self._reserved(n_bytes), 0
        array = np.frombuffer(self._slab, dtype, size, offset=self._used)
        # Whole pages, so that arrays of every type are aligned.
        self._used += -(-n_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        self.spilled += n_bytes
        return array

    def _reserved(self, n_bytes: int) -> mmap.mmap:
        smallest, largest = SLABS
        ample = max(n_bytes, min(largest, max(smallest, self.spilled)))
        # Where there is no room for more than what is needed, that will do.
        for size in dict.fromkeys((ample, n_bytes)):
            if (slab := _nameless(size)) is not None:
                return slab
        raise ResourceError(
            f"the rows do not fit in memory, and the disk in {_folder()!r} has no room for "
            f"{_shown(n_bytes)} more; {FIX}"
        )


def _anonymous(n_bytes: int) -> mmap.mmap:
    if not hasattr(mmap, "MAP_ANONYMOUS"):
        return mmap.mmap(-1, n_bytes)
    return mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def _folder() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        raise ResourceError(f"there is no folder for temporary files; {FIX}") from None


def _nameless(n_bytes: int) -> mmap.mmap | None:
    """Memory backed by a file without a name, with room reserved on the disk; None without room."""
    try:
        with tempfile.TemporaryFile(prefix="dpsu-", dir=_folder()) as file:
            # If the space were not reserved, a full disk would later kill the process.
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            else:
                file.truncate(n_bytes)
            return unless_short(lambda: mmap.mmap(file.fileno(), n_bytes))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        return None


def refuse_beyond_memory(n_bytes: int, what: str) -> None:
    """Raise an error where the system would otherwise kill the process."""
    if n_bytes > 1 << 26 and n_bytes > available():
        raise ResourceError(f"{what} need more memory than there is; use a larger machine")


def available() -> int:
    """Bytes that this process may still take."""
    pages = os.sysconf("SC_AVPHYS_PAGES") * mmap.PAGESIZE if hasattr(os, "sysconf") else 1 << 32
    with suppress(OSError, AttributeError):
        meminfo = Path("/proc/meminfo").read_text(encoding="ascii")
        pages = int(re.search(r"MemAvailable:\s+(\d+)", meminfo)[1]) * 1024  # type: ignore[index]
    for most, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        with suppress(OSError, ValueError):
            allowed = int(Path(most).read_text(encoding="ascii"))
            pages = min(pages, allowed - int(Path(used).read_text(encoding="ascii")))
    return max(pages, 0)


def parse_size(typed: str | int | None) -> int | None:
    """Bytes from a number or from text such as 4GB, 500M or 2GiB."""
    if typed is None:
        return None
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", str(typed), re.IGNORECASE)
    if found is None:
        raise option_error("memory_limit", "is not a size; write for example 4GB", typed)
    return int(float(found[1]) * (1024 if found[3] else 1000) ** UNITS.index(found[2].upper()))


def _shown(n_bytes: float) -> str:
    return f"{n_bytes / 10**9:.1f} GB" if n_bytes >= 10**8 else f"{n_bytes / 10**6:.1f} MB"
