from collections.abc import Sequence

from headway_trace._packets import Packets

from .evidence import Evidence

def evidence_of(blocks: Sequence[Packets], leading: int, /) -> Evidence: ...
