"""The compiled loops: arrays in, arrays out, no classes, no closures.

Importing a file of this folder imports numba, so callers import it where the work starts.
"""

from dpsu.runtime.compiling import load_numba_without_scipy

# SciPy takes longer to load than a small release takes.
load_numba_without_scipy()
