"""The types of the compiled part in ``_course.pyx``."""

import numpy as np
from numpy.typing import NDArray

CPUS: int

class Sink: ...

class ThreadSlices:
    passed: int
    flows: int
    progress: NDArray[np.int64]
    reached: NDArray[np.int64]
    def __init__(self, sink: Sink, tids: NDArray[np.int32], start: int, width: int, steps: int) -> None: ...
    def put(
        self,
        order: NDArray[np.int64],
        time: NDArray[np.int64],
        duration: NDArray[np.int64],
        taken: NDArray[np.int32],
        cpu: NDArray[np.int16],
        thread: NDArray[np.int32],
        state: NDArray[np.int32],
        count: NDArray[np.int32],
        waker: NDArray[np.int32],
        waker_tid: NDArray[np.int32],
        waker_state: NDArray[np.int32],
        effective: NDArray[np.uint8],
    ) -> None: ...
    def finish(self) -> None: ...
