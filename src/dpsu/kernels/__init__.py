"""The compiled loops: arrays in, arrays out, no classes, no closures.

Each module is Python with types, compiled to C when the package is built. The folder `x86_64_v3`
has every module once more, for processors with AVX2; releases are the same. DPSU_KERNELS=any
chooses those for all processors, and DPSU_KERNELS=checked those that check the indices of arrays,
which only the tests build. The build rounds sums and products apart (-ffp-contract=off, no
-ffast-math): proofs count rounding errors.
"""

from __future__ import annotations

import os
from pathlib import Path

try:
    from dpsu.kernels.processor import runs_x86_64_v3
except (ImportError, AttributeError) as error:
    # What was found is the source, or nothing.
    raise ImportError("dpsu is not compiled; run `make`, or install it with pip") from error

_NEWER, _CHECKED = (Path(__file__).with_name(name) for name in ("x86_64_v3", "checked"))
match os.environ.get("DPSU_KERNELS"):
    case None | "":
        if runs_x86_64_v3() and _NEWER.is_dir():
            __path__.insert(0, str(_NEWER))
    case "checked" if _CHECKED.is_dir():
        __path__.insert(0, str(_CHECKED))
    case "any":
        pass
    case _:
        raise ImportError("DPSU_KERNELS must be any, or checked where the tests have built that")
