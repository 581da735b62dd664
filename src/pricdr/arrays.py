"""Names for the arrays that functions take and give, for type checkers."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

BoolArray: TypeAlias = npt.NDArray[np.bool_]
Int16Array: TypeAlias = npt.NDArray[np.int16]
Int32Array: TypeAlias = npt.NDArray[np.int32]
IntArray: TypeAlias = npt.NDArray[np.int64]
IntegerArray: TypeAlias = npt.NDArray[Any]  # whole numbers of any width
Float32Array: TypeAlias = npt.NDArray[np.float32]
Float64Array: TypeAlias = npt.NDArray[np.float64]
