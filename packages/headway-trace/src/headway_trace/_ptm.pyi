from ._packets import StreamParser

class Parser(StreamParser):
    def __init__(
        self,
        *,
        cycle_accurate: bool,
        context_bytes: int,
        timestamp_bits: int,
        gray_timestamps: bool,
        virtual_machines: bool,
    ) -> None: ...
