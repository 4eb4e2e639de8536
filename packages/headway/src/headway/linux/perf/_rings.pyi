"""The types of the compiled reader in ``_rings.pyx``."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PAGE: int
FIELDS: dict[str, int]

class Samples(NamedTuple):
    time: NDArray[np.int64]
    pid: NDArray[np.int32]
    tid: NDArray[np.int32]
    cpu: NDArray[np.int32]
    kernel: NDArray[np.bool_]
    period: NDArray[np.int64]
    ip: NDArray[np.uint64]
    first: NDArray[np.int64]
    frames: NDArray[np.uint64]

class Tray:
    used: int
    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def clear(self) -> None: ...
    def tobytes(self) -> bytes: ...
    def put(self, records: bytes | bytearray | memoryview) -> None: ...
    def others(self) -> list[tuple[int, int, bytes]]: ...
    def samples(self, fields: int) -> Samples: ...

class Ring:
    size: int
    samples: int
    lost: int
    throttled: int
    damaged: int
    time: int
    dropped: int
    def __init__(self, fd: int, pages: int) -> None: ...
    def close(self) -> None: ...
    @property
    def filled(self) -> int: ...
    def ask(self, fd: int) -> int: ...
    def stood_still(self) -> bool: ...
    def drain(self, into: Tray) -> int: ...
