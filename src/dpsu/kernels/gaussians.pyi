import numpy as np
from numpy.typing import NDArray

WORDS: int
PROPOSAL_ERROR: float
LEAST_WORD: int
LOCAL_BITS: int
TABLE_SHA256: str

def quantiles() -> NDArray[np.float64]: ...
def proposals(words: NDArray[np.uint64]) -> NDArray[np.float64]: ...
def round_gaussians(
    words: NDArray[np.uint64],
    scale: float,
    noise: NDArray[np.int64],
    sure: NDArray[np.bool_],
) -> None: ...
