import numpy as np
from numpy.typing import NDArray

def walk(
    row: int,
    time: int,
    start: int,
    thread: NDArray[np.int32],
    begin: NDArray[np.int64],
    end: NDArray[np.int64],
    activity: NDArray[np.int8],
    source: NDArray[np.int64],
    sent: NDArray[np.int64],
    creator: NDArray[np.int64],
) -> NDArray[np.int64]: ...
