"""Nested slices become stretches of their innermost ones."""

from __future__ import annotations

import io
from array import array
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.trace.slices import block
from tests.views.html.reading import Page, rows_of

from headway.views.html._spans import InnermostSpans
from headway.views.html.document import Subject
from headway.views.html.stretches import Stretches
from headway_trace.edges import Edge


@st.composite
def edges(draw: st.DrawFn) -> list[Edge]:
    """Edges of a few tracks, of each in order and properly nested, all of them ended."""
    found = []
    for track in range(1, draw(st.integers(1, 3)) + 1):
        time, depth = draw(st.integers(0, 100)), 0
        for begins in draw(st.lists(st.booleans(), max_size=20)):
            time += draw(st.integers(0, 30))
            if begins:
                depth += 1
                name = draw(st.sampled_from(["main", "stall.load", "idle.c1", "unknown.damage", "<b>"]))
                found.append(Edge(track, time, name, "function" if name in ("main", "<b>") else "stall"))
            elif depth:
                depth -= 1
                found.append(Edge(track, time, None))
        for _ in range(depth):
            time += draw(st.integers(0, 30))
            found.append(Edge(track, time, None))
    return found


def expected(some: list[Edge]) -> Counter[tuple[int, str]]:
    """Time of each track in each innermost slice, one unit after the other."""
    found: Counter[tuple[int, str]] = Counter()
    for track in {edge.track for edge in some}:
        own = [edge for edge in some if edge.track == track]
        stack: list[str] = []
        at = own[0].time
        for edge in own:
            while at < edge.time:
                if stack:
                    found[track, stack[-1]] += 1
                at += 1
            if edge.name is None:
                stack.pop()
            else:
                stack.append(f"user.{edge.name}" if edge.category == "function" else edge.name)
    return found


def test_arrays_that_do_not_fit_are_refused() -> None:
    spans, one, place = InnermostSpans(), memoryview(array("q", [1])), memoryview(array("i", [0]))
    with pytest.raises(ValueError, match="one length"):
        spans.add(one, memoryview(array("q")), place, array("i", [0]))
    with pytest.raises(IndexError):
        spans.add(one, one, place, array("i"))
    assert spans.add(one, one, place, array("i", [-1])) == [0]
    assert spans.columns() == ([], (b"", b"", b"", b""))


@given(edges())
def test_each_moment_is_in_the_innermost_slice(some: list[Edge]) -> None:
    tracks = Stretches()
    tracks.describe(1, "hart 0", 9)
    for at in range(0, len(some), 7):
        tracks.put(block(some[at : at + 7]))
    stream = io.StringIO()
    tracks.write(stream, Subject("t"), "a tick")
    page = Page(stream.getvalue())
    said = page.document
    shown: Counter[tuple[int, str]] = Counter()
    for place, tid in enumerate(said["threads"]["tid"]):
        for state, time, count in said["threads"]["states"][place]:
            assert count is None
            shown[tid, said["states"][state]] += time
    assert shown == expected(some)
    places = said["timeline"]["states"]
    kinds = [said["kinds"][said["state_kinds"][state]]["name"] for state in places]
    waits, off = [kind == "wait" for kind in kinds], [kind in ("wait", "ready") for kind in kinds]
    drawn: Counter[tuple[int, str]] = Counter()
    parts = [*zip(page.slices(), said["timeline"]["edges"], strict=False), (page.section("over_edges"), 0)]
    for data, begin in parts:
        for lane, start, end, state, *_ in rows_of(data, begin, waits, off):
            drawn[said["threads"]["tid"][lane], said["states"][places[state]]] += end - start
    assert drawn == expected(some)
    assert all(pid == 9 for tid, pid in zip(said["threads"]["tid"], said["threads"]["pid"], strict=True) if tid == 1)
