from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

FORMULAS: tuple[Callable[..., float], ...]

def laplace_formula(weight: float, scale: float, threshold: float) -> float: ...
def gaussian_formula(weight: float, scale: float, threshold: float) -> float: ...
def truncated_laplace_formula(
    weight: float, epsilon: float, delta: float, sensitivity: float
) -> float: ...
def optimal_formula(weight: float, epsilon: float, delta: float, switch: float) -> float: ...
def evaluate(
    place: int,
    weights: NDArray[np.float64],
    first: float,
    second: float,
    third: float,
    found: NDArray[np.float64],
) -> None: ...
