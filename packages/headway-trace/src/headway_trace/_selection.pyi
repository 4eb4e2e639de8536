from collections.abc import Collection, Sequence

from ._records import Records
from .records import Gap, Instruction

class Selection:
    passed: bool
    def __init__(
        self, stretches: Sequence[tuple[int, int, int]] | None = None, threads: Collection[int] | None = None
    ) -> None: ...
    def of(self, block: Records) -> Records: ...

def note_threads(
    block: Records, runs: list[tuple[int, int, int]], last: dict[int, Instruction | Gap], thread: int | None
) -> int | None: ...
