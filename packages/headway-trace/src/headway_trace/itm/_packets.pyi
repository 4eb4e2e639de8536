from headway_trace._packets import StreamParser

class Parser(StreamParser):
    def __init__(self) -> None: ...
