"""A decoder goes on from a state that was saved anywhere and loaded elsewhere; other states are refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway_trace import etmv3, etmv4, ptm
from headway_trace._coresight import Deformatter, Probe, StreamPlaces
from headway_trace._program import InstructionTable
from headway_trace._records import Records
from headway_trace._waypoints import WaypointFlow
from headway_trace.index_files import UNSOUND
from headway_trace.records import Record

from . import etmv4 as etmv4_programs
from . import programs
from . import ptm as ptm_programs
from .encoding import frames
from .programs import listing
from .test_flow import SEEDS, mutated

Setting = etmv3.Setting | ptm.Setting | etmv4.Setting


@dataclass
class Traced:
    """A damaged trace, with what is needed to decode it."""

    setting: Setting
    table: Callable[[], InstructionTable]
    trace: bytes
    assumes: bool = False


def of_etmv3(draw: random.Random, length: int) -> Traced:
    code = programs.program(draw)
    trace = bytes(programs.run(code, draw, length).trace)
    return Traced(programs.SETTING, lambda: listing(code), mutated(draw, trace))


def of_ptm(draw: random.Random, length: int) -> Traced:
    setting = ptm.Setting(cycle_accurate=draw.random() < 0.5, return_stack=draw.random() < 0.5)
    code = programs.program(draw)
    trace = bytes(ptm_programs.run(code, draw, setting, length).trace)
    return Traced(setting, lambda: listing(code), mutated(draw, trace), draw.random() < 0.5)


def of_etmv4(draw: random.Random, length: int) -> Traced:
    setting = etmv4.Setting(
        version=draw.choice((0x42, 0x50)), deepest=draw.choice((0, 8)), return_stack=draw.random() < 0.5
    )
    code = etmv4_programs.program(draw)
    trace = bytes(etmv4_programs.run(code, draw, setting, length).trace)
    return Traced(setting, code.table, mutated(draw, trace), draw.random() < 0.5)


PROTOCOLS = st.sampled_from((of_etmv3, of_ptm, of_etmv4))


class Pass:
    """A parser and a flow that take bytes."""

    def __init__(self, traced: Traced) -> None:
        self.parser = traced.setting.parser()
        self.flow = traced.setting.flow(traced.table(), assumes=traced.assumes)

    def records(self, blocks: Iterator[Records]) -> list[Record]:
        return [record for block in blocks for record in block]

    def feed(self, data: bytes | None) -> Iterator[Records]:
        """Take bytes; None: the stream ends."""
        packets = self.parser.finish() if data is None else self.parser.feed(data)
        yield self.flow.feed(packets)
        while isinstance(self.flow, WaypointFlow) and self.flow.waiting:
            yield self.flow.more()
        if data is None:
            yield self.flow.finish()

    def save(self) -> str:
        return json.dumps([self.parser.save(), self.flow.save()])

    def load(self, state: list[Any], history: bytes) -> None:
        self.parser.load(state[0])
        self.flow.load(state[1], history)


def passed(traced: Traced, cuts: list[int]) -> tuple[list[int], list[str], list[list[Record]], bytes]:
    """Decode a trace. Return where it was cut, the state at each cut, the records after it, and the history."""
    whole, states, found = Pass(traced), [], []
    whole.flow.remember()
    edges = [0, *sorted(cut % (len(traced.trace) + 1) for cut in cuts), len(traced.trace)]
    for start, end in pairwise(edges):
        states.append(whole.save())
        found.append(whole.records(whole.feed(traced.trace[start:end])))
    found[-1] += whole.records(whole.feed(None))
    assert whole.flow.remembers
    return edges, states, found, whole.flow.history()


@settings(max_examples=300, deadline=None)
@given(SEEDS, PROTOCOLS, st.lists(st.integers(0, 10_000), max_size=6), st.data())
def test_a_pass_goes_on_where_its_state_was_saved(
    seed: int, kind: Callable[[random.Random, int], Traced], cuts: list[int], data: st.DataObject
) -> None:
    traced = kind(random.Random(seed), 150)
    edges, states, found, history = passed(traced, cuts)
    place = data.draw(st.integers(0, len(states) - 1))
    later = Pass(traced)
    later.load(json.loads(states[place]), history)
    records = later.records(later.feed(traced.trace[edges[place] :]))
    records += later.records(later.feed(None))
    assert records == [record for some in found[place:] for record in some]


def changed(draw: random.Random, state: Any) -> Any:
    """The state with one value in it changed."""
    if isinstance(state, list | dict) and state:
        keys = list(state) if isinstance(state, dict) else list(range(len(state)))
        key = draw.choice(keys)
        copy = dict(state) if isinstance(state, dict) else list(state)
        if draw.random() < 0.05:
            del copy[key]
        else:
            copy[key] = changed(draw, copy[key])
        return copy
    if isinstance(state, str) and state and draw.random() < 0.8:  # bytes of rows, items or of the stream
        raw = bytearray.fromhex(state)
        raw[draw.randrange(len(raw))] = draw.randrange(256)
        return raw.hex()
    return draw.choice(
        (0, 1, 2, 3, 4, 9, 17, 255, 1 << 16, 1 << 31, (1 << 32) - 1, (1 << 64) - 1, -1, None, "", "ff", [])
    )


@settings(max_examples=500, deadline=None)
@given(SEEDS, PROTOCOLS, st.integers(0, 10_000))
def test_a_state_that_was_changed_is_refused_or_decodes(
    seed: int, kind: Callable[[random.Random, int], Traced], cut: int
) -> None:
    draw = random.Random(seed)
    traced = kind(draw, 60)
    edges, states, _, history = passed(traced, [cut])
    state = json.loads(states[1])
    for _ in range(draw.randint(1, 3)):
        state = changed(draw, state)
    if draw.random() < 0.3:
        raw = bytearray(history)
        for _ in range(draw.randint(1, 3)):
            if raw:
                raw[draw.randrange(len(raw))] = draw.randrange(256)
        history = bytes(raw[: draw.choice((len(raw), draw.randint(0, len(raw))))])
    later = Pass(traced)
    try:
        later.load(state, history)
    except (*UNSOUND, AttributeError):
        return
    later.records(later.feed(traced.trace[edges[1] :]))
    later.records(later.feed(None))


@pytest.mark.parametrize("kind", [Deformatter, Probe])
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from((0x10, 0x11)), st.binary(max_size=60)), max_size=8), st.integers(0, 400))
def test_frames_go_on_where_their_state_was_saved(
    kind: type[Deformatter | Probe], pieces: list[tuple[int, bytes]], cut: int
) -> None:
    data = (b"\xff\xff\xff\x7f" if kind is Probe else b"") + frames(pieces)
    before, after = kind(0x10), kind(0x10)
    before.feed(data[:cut])
    after.load(json.loads(json.dumps(before.save())))
    assert after.feed(data[cut:]) == before.feed(data[cut:])
    assert (after.first, after.sizes) == (before.first, before.sizes)


def test_places_are_the_same_after_they_were_saved() -> None:
    from array import array

    before, after = StreamPlaces(8), StreamPlaces(8)
    for number in range(40):
        before.add(array("Q", (15 * number, 16 * number)))
    after.load(before.save())
    assert [after.span(start, start + 20) for start in range(600)] == [
        before.span(start, start + 20) for start in range(600)
    ]
    with pytest.raises(ValueError, match="places"):
        after.load(before.save()[:-8])
