from ._packets import Packets, StreamParser

class Parser(StreamParser):
    def __init__(
        self,
        *,
        cycle_accurate: bool,
        context_bytes: int,
        timestamp_bits: int,
        alternative_branches: bool,
        data_values: bool,
        data_addresses: bool,
        virtual_machines: bool,
        deprecated_branches: bool,
    ) -> None: ...

def atoms(packets: Packets, cycle_accurate: bool) -> list[tuple[int, bool | None, int]]: ...
