import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

LARGEST_Y: float
BLOCK: int

def logarithms(values: Float64, found: Float64) -> None: ...
def falling_exponentials(values: Float64, found: Float64) -> None: ...
def steer(
    signal: Float64,
    precision: Float64,
    total: Float64,
    released: Flags,
    last_boundary: float,
    remaining: float,
    gain: float,
    sigma: float,
    extra: float,
    open_above: float,
    open_below: float,
    doubt: float,
    margin: float,
    common: float,
    levels: Float64,
    lowest: Float64,
    step: Float64,
    means: Float64,
    deviations: Float64,
    first: int,
    last: int,
    attention: Float64,
) -> None: ...
def add_evidence(
    noisy_sums: Float64,
    share: float,
    sigma: float,
    memory: float,
    least: float,
    boundary: float,
    attention: Float64,
    present: Flags,
    signal: Float64,
    precision: Float64,
    total: Float64,
    released: Flags,
    first: int,
    last: int,
) -> None: ...
