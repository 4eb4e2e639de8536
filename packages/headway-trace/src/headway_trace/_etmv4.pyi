from ._packets import StreamParser

class Parser(StreamParser):
    def __init__(
        self,
        *,
        version: int,
        machine_bytes: int,
        thread_bytes: int,
        conditions: bool,
        quotas: bool,
        commits: bool,
        data: bool,
        deepest: int,
    ) -> None: ...
