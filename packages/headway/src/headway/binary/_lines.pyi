class Table:
    def add(
        self,
        section: bytes,
        start: int,
        end: int,
        unit: int,
        *,
        least: int,
        line_base: int,
        line_range: int,
        opcode_base: int,
        lengths: bytes,
    ) -> None: ...
    def close(self) -> None: ...
    def find(self, address: int) -> tuple[int, int, int] | None: ...
