from collections.abc import Callable, Iterable

class InstructionTable:
    spans: tuple[tuple[int, int], ...]
    def __init__(
        self, look: Callable[[int, int], tuple[int, int, bool, int, int, int]], spans: Iterable[tuple[int, int]]
    ) -> None: ...
