"""What the processor can do."""

from __future__ import annotations

import cython
from cython.cimports.dpsu.kernels.primitives import is_x86_64_v3


def runs_x86_64_v3() -> cython.bint:
    """Whether it runs what is compiled for x86-64-v3, as most have done since 2013."""
    return is_x86_64_v3()
