from typing import Self

import numpy as np
from numpy.typing import NDArray

class Replay:
    finish: NDArray[np.int64]
    reached: NDArray[np.int64]
    left_at: NDArray[np.int64]
    ready: int
    forced: int
    end: int
    def __init__(
        self,
        first: NDArray[np.int64],
        kind: NDArray[np.int8],
        work: NDArray[np.int64],
        target: NDArray[np.int64],
        length: NDArray[np.int64],
        until: NDArray[np.int64],
        outside: NDArray[np.int8],
        dispatch: NDArray[np.int64],
        early: NDArray[np.int64],
        late: NDArray[np.int64],
        contended: NDArray[np.int64],
        weightless: NDArray[np.uint8],
        parent: NDArray[np.int64],
        processors: int,
        slice: int,
        meet: bool,
        punctual: bool,
    ) -> None: ...
    def run(self, follow: int, traced: bool = ...) -> Self: ...
