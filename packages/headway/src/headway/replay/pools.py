"""A pool with more threads: what one thread did is dealt out to several, from one wait to the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .graph import Step, WaitGraph, Waits
from .rows import Ints

__all__ = ["with_more_threads"]


def with_more_threads(graph: WaitGraph, places: Ints, factor: int) -> WaitGraph:
    """Return the graph with ``factor`` threads in place of each thread in ``places``.

    What lies between two waits of a thread stays together, and the pieces go to its successors in turn. New threads
    start when the thread that they are copies of did.
    """
    chosen = np.flatnonzero(np.isin(graph.copy_of, places))
    chosen = chosen[np.diff(graph.first)[chosen] > 0]
    n, steps = graph.threads, len(graph.kind)
    more = len(chosen) * (factor - 1)
    rank = np.full(graph.threads, -1, np.int64)
    rank[chosen] = np.arange(len(chosen))
    owner = np.repeat(np.arange(graph.threads), np.diff(graph.first))
    waits = np.isin(graph.kind, (Step.WAIT, Step.SLEEP))
    waits[graph.first[:-1][np.diff(graph.first) > 0]] = False  # the start is no wait
    number: Ints = np.cumsum(waits) - waits
    piece: Ints = number - number[np.minimum(graph.first[:-1], steps - 1)][owner]
    copy = np.where(rank[owner] >= 0, piece % factor, 0)
    new = np.where(copy > 0, n + rank[owner] * (factor - 1) + copy - 1, owner)
    # Each copy needs a start and an end of its own.
    starts = np.repeat(graph.first[chosen], factor - 1)
    copies = n + np.arange(more)
    ends = graph.first[chosen + 1] - 1
    all_of = np.concatenate([np.repeat(chosen, factor - 1), chosen])
    sequences = np.concatenate([copies, chosen])
    has_end = np.isin(sequences, new[ends])
    end_of, end_in = graph.first[all_of + 1][~has_end] - 1, sequences[~has_end]
    take = np.concatenate([np.arange(steps), starts, end_of])
    where = np.concatenate([new, copies, end_in])
    place = np.concatenate([np.arange(steps), np.full(len(starts), -1), np.full(len(end_of), steps)])
    order = np.lexsort((place, where))
    moved = np.empty(len(order), np.int64)
    moved[order] = np.arange(len(order))
    take, old = take[order], order < steps
    started = (order >= steps) & (order < steps + len(starts))

    def column(values: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.ascontiguousarray(values[take])

    kind, outside = graph.kind[take], graph.outside[take]
    kind[started], outside[started] = Step.SLEEP, Waits.AT
    until = column(graph.until)
    until[started] = np.maximum(column(graph.dispatch), until)[started]
    target = column(graph.target)
    target = np.where(old & (target >= 0), moved[np.maximum(target, 0)], -1)
    previous = np.where(old, moved[column(graph.previous)], np.arange(len(order)))
    counts = np.bincount(where, minlength=graph.threads + more)
    return replace(
        graph,
        first=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        kind=kind,
        row=column(graph.row),
        within=column(graph.within),
        previous=previous,
        off_row=np.where(old, column(graph.off_row), -1),
        target=target,
        length=np.where(old, column(graph.length), 0),
        until=until,
        outside=outside,
        dispatch=column(graph.dispatch),
        contended=column(graph.contended),
        early=column(graph.early),
        late=column(graph.late),
        by_others=column(graph.by_others),
        delay=graph.delay[take] & old,
        parent=np.concatenate([graph.parent, np.repeat(graph.parent[chosen], factor - 1)]),
        copy_of=np.concatenate([graph.copy_of, np.repeat(graph.copy_of[chosen], factor - 1)]),
    )
