import numpy as np
from numpy.typing import NDArray

UInt64 = NDArray[np.uint64]
Float64 = NDArray[np.float64]
Word = int | np.uint64

def use_at_most(
    p: Word, q: Word, d: Word, power: float, limit: float, price: float, tangents: Float64
) -> float: ...
def draw_curve(
    sure: UInt64,
    limits: Float64,
    power: float,
    longest: int,
    prices: Float64,
    tangents: Float64,
) -> UInt64: ...
def worst_use(
    table: UInt64,
    sure: UInt64,
    limits: Float64,
    power: float,
    prices: Float64,
    tangents: Float64,
) -> float: ...
