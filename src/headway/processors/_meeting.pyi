from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

MOST_SOURCES: int
MOST_WORDS: int

def clock() -> int: ...

class Stamps(NamedTuple):
    met: bool
    cpu_before: int
    cpu_after: int
    repin_error: int
    loose: bool
    woken: int
    arrived: int
    saw_go: int
    before: int
    after: int
    saw_done: int
    gap: int
    chains: tuple[int, ...]
    away: int
    preempted: int
    waited: int
    words: tuple[int, ...]
    missing: int

class Meeting:
    cpus: tuple[int, ...]
    def __init__(self, cpus: Iterable[int], sources: Sequence[Sequence[tuple[int, int, int]]] = ...) -> None: ...
    def start(self, fifo: bool = ...) -> dict[int, int]: ...
    def tids(self) -> dict[int, int]: ...
    @property
    def fifo(self) -> bool: ...
    def expect(self, cpus: Container[int]) -> None: ...
    def announce_cuts(self, at: int, number: int, ahead: int, keep: object) -> None: ...
    def set_limits(self, *, patience: int, chain: int) -> None: ...
    def attempt(self, moment: int, *, again: bool = ..., deadline: int = ...) -> bool: ...
    @property
    def cut(self) -> int: ...
    def stamps(self) -> list[Stamps | None]: ...
    def close(self) -> None: ...
