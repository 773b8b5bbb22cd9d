"""How much memory this process may still address, if a limit is set."""

from __future__ import annotations

import os
from pathlib import Path

from dpsu.errors import ResourceError

# Our libraries and their threads alone take about 800 MB of addresses (not of memory), and more on
# some machines. With less they do not raise an error: they hang, or end the process.
LEAST = 3 * 10**9 // 2


def address_space() -> int | None:
    """The limit in bytes (`ulimit -v`); None where there is none."""
    try:
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
    except (ImportError, AttributeError, OSError, ValueError):
        return None
    return None if most == resource.RLIM_INFINITY else most


def address_space_left() -> int | None:
    """How many bytes below that limit are not in use."""
    most = address_space()
    if most is None:
        return None
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return most
    return max(0, most - pages * os.sysconf("SC_PAGE_SIZE"))


def refuse_small_address_space() -> None:
    """Refuse a limit with which libraries would hang or crash without an error."""
    most = address_space()
    if most is not None and most < LEAST:
        raise ResourceError(
            f"there is not enough memory: this process may address {most / 10**9:.2g} GB (ulimit "
            f"-v), and its libraries alone need {LEAST / 10**9:.2g} GB; raise that limit"
        )
