"""Whether the edges of a trace nest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from headway.trace.edges import Edge


def check_nesting(edges: Iterable[Edge]) -> int:
    """That every slice ends, within the one around it, and no track goes back. Gives the greatest depth."""
    open_: dict[int, list[Edge]] = defaultdict(list)
    last: dict[int, int] = {}
    deepest = 0
    for edge in edges:
        assert edge.time >= last.get(edge.track, edge.time)
        last[edge.track] = edge.time
        if edge.instant:
            continue
        if edge.name is None:
            assert edge.time >= open_[edge.track].pop().time
        else:
            open_[edge.track].append(edge)
            deepest = max(deepest, len(open_[edge.track]))
    assert not any(open_.values())
    return deepest
