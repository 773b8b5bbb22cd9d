"""What happens first in a process that runs the command: signals are heard, and BLAS is kept small.

Nothing is imported here but what Python has loaded anyway, and nothing of `dpsu`.
"""

import gc
import os
import signal
import sys

# Nothing here needs BLAS, yet NumPy and SciPy load it, and it takes memory at once for each thread.
# Where memory is limited that ends in a hang, or in a SIGINT that nobody sent. Arrow, which needs
# its threads, asks for OMP_NUM_THREADS, so that one is left alone.
BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
# To import everything makes some hundred thousand objects, of which none is garbage. Python would
# look through them for garbage again and again; it still does, but less often.
OBJECTS_PER_COLLECTION = 50_000


def begin() -> None:
    """Listen for signals, keep BLAS small unless somebody wants it otherwise, and begin quickly."""
    gc.set_threshold(OBJECTS_PER_COLLECTION)
    for name in BLAS_THREADS:
        os.environ.setdefault(name, "1")
    # Numba looks for SciPy's BLAS as well, in the middle of the work, where less memory is left:
    # that BLAS then tries for ever to get some. Numba does without where there is no SciPy.
    sys.modules.setdefault("scipy", None)  # type: ignore[arg-type]
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _leave)


def started_as_module() -> bool:
    """Whether this process is `python -m dpsu` and still looks for that module."""
    given = sys.orig_argv
    named = [given[place + 1 : place + 2] for place, word in enumerate(given) if word == "-m"]
    return sys.argv[:1] == ["-m"] and ("-mdpsu" in given or ["dpsu"] in named[:1])


def _leave(number: int, frame: object) -> None:
    try:
        os.write(2, b"dpsu: interrupted; no output was written\n")
    finally:
        os._exit(1)
