import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

def uniforms(key: int | np.uint64, length: int) -> Float64: ...
def draw_rows(
    sizes: Int64, cumulative: Float64, guide: Int32, key: int | np.uint64, position: int
) -> tuple[Int64, Int32, Int32]: ...
