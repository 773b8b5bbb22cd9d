"""The compiler: load it without what kernels do not need, and report when it compiles.

To compile takes long, once; all later runs load what was compiled.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_REPORTS: list[Callable[[], None]] = []


@contextmanager
def when_compiling(report: Callable[[], None]) -> Iterator[None]:
    """Call `report` whenever a kernel has to be compiled, because no earlier run cached it."""
    _REPORTS.append(report)
    try:
        yield
    finally:
        _REPORTS.remove(report)


@functools.cache
def load_numba() -> None:
    """Import numba, and hear when it compiles."""
    load_numba_without_scipy()
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            for report in list(_REPORTS):
                report()

        def on_end(self, event: Any) -> None:
            pass

    register: Any = event.register
    register("numba:compile", Listener())


def load_numba_without_scipy() -> None:
    """Load the part of numba that asks for SciPy's BLAS, without loading SciPy.

    Numba asks once, before it loads its first function, and SciPy takes longer than a small
    release. No kernel here needs BLAS. A function of somebody else that does still gets it: numba
    then looks for SciPy itself.
    """
    if "numba.np.arraymath" in sys.modules or importlib.util.find_spec("scipy") is None:
        return
    from numba.np import linalg

    try:
        ensure_blas = linalg.ensure_blas
    except AttributeError:
        # Another version of numba, which asks otherwise: it costs time, and nothing else.
        return
    linalg.ensure_blas = lambda: None
    try:
        importlib.import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = ensure_blas
