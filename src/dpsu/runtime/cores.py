"""How many cores this process may use: under a limit, as in a container, fewer than there are."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from dpsu.errors import ParameterError, shown

VARIABLE = "DPSU_THREADS"
GROUPS, MOUNT = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Cores by the affinity of the process, the quota of its cgroup and `DPSU_THREADS`."""
    most = min([_by_affinity(), *(max(1, math.ceil(each)) for each in quotas(GROUPS, MOUNT))])
    typed = os.environ.get(VARIABLE)
    return most if typed is None else min(most, _parsed(typed))


def _by_affinity() -> int:
    # Python 3.13 has one that knows -X cpu_count, too.
    count = getattr(os, "process_cpu_count", None)
    if count is None and hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return (count or os.cpu_count)() or 1


def _parsed(typed: str) -> int:
    if re.fullmatch(r"0*[1-9][0-9]{0,8}", typed, re.ASCII) is None:
        raise ParameterError(
            f"{VARIABLE}={shown(typed)} is not a number of threads; set it to a positive integer, "
            "such as 4, or unset it"
        )
    return int(typed)


def quotas(groups: Path, mount: Path) -> Iterator[float]:
    """How many cores the cgroup of this process and those around it may use, where that is limited.

    In a container, the group may have the path that it has outside, where nothing is mounted; the
    limit of the container is then at the root.
    """
    with suppress(OSError, ValueError):
        for line in groups.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            group = PurePosixPath("/" + path.lstrip("/"))
            if controllers and "cpu" not in controllers.split(","):
                continue
            for folder in (group, *group.parents):
                yield from _quota(mount / ("cpu" if controllers else "") / str(folder)[1:])


def _quota(folder: Path) -> Iterator[float]:
    """The quota of one group, of version 2 or 1: microseconds in each period, if limited."""
    with suppress(OSError, ValueError, ZeroDivisionError):
        if (folder / "cpu.max").exists():
            allowed, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        else:
            allowed, period = (
                (folder / f"cpu.cfs_{name}_us").read_text(encoding="ascii")
                for name in ("quota", "period")
            )
        if int(allowed) > 0:
            yield int(allowed) / int(period)
