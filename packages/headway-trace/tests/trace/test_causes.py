"""The reason that is given for what is not known is the cause that was put into the stream, in every protocol."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.running import headway

from headway_trace import etmv3, etmv4, ptm
from headway_trace._program import InstructionTable
from headway_trace._waypoints import WaypointFlow
from headway_trace.records import Gap, Instruction, Record, Why

from . import encoding, programs
from . import etmv4 as v4
from . import ptm as pft
from .common import in_common
from .snapshots import write
from .test_flow import SEEDS

NORMAL = {Why.UNSYNCHRONISED, Why.OFF}
DAMAGED = {Why.DAMAGE, Why.CONTRADICTION}
"""What damage is called: bytes that are missing or no packet, and what they lead to that cannot be."""


@dataclass(frozen=True)
class Stream:
    """A stream of a program, another that begins where it was switched on again, and what each executed."""

    setting: etmv3.Setting | ptm.Setting | etmv4.Setting
    known: Callable[[], InstructionTable]
    first: bytes
    second: bytes
    executed: tuple[list[int], list[int]]
    restarts: dict[Why, bytes]
    """What the second begins with, by the reason why it does; it begins as after a time off."""
    aligned: int
    """Bytes of the A-sync with which a stream begins."""
    noise: int
    """A byte that begins no packet."""

    def decoded(self, pieces: Sequence[bytes | None]) -> tuple[list[Gap], list[int]]:
        """The gaps, and the addresses that are shown; None among the pieces: bytes are missing there."""
        parser, flow, at = self.setting.parser(), self.setting.flow(self.known()), 0
        found = list[Record]()
        for piece in pieces:
            found += flow.feed(parser.lost() if piece is None else parser.feed(piece))
            while isinstance(flow, WaypointFlow) and flow.waiting:
                found += flow.more()
            if piece is None:
                flow.lost(at)
            at += len(piece or b"")
        found += flow.feed(parser.finish())
        while isinstance(flow, WaypointFlow) and flow.waiting:
            found += flow.more()
        found += flow.finish()
        gaps = [one for one in found if isinstance(one, Gap)]
        return gaps, [one.address for one in found if isinstance(one, Instruction)]

    def ends(self) -> list[int]:
        """Where the packets of the first stream end."""
        parser = self.setting.parser()
        found = [*parser.feed(self.first), *parser.finish()]
        return [packet.offset + packet.size for packet in found]


def of_etmv3(draw: random.Random) -> Stream:
    code = programs.program(draw)
    done = [programs.run(code, draw, 60) for _ in range(2)]
    return _begun(encoding.sync, code, done, programs.SETTING, 0x10)


def of_ptm(draw: random.Random) -> Stream:
    code = programs.program(draw)
    setting = ptm.Setting(cycle_accurate=draw.random() < 0.5, return_stack=draw.random() < 0.5)
    done = [pft.run(code, draw, setting, 60) for _ in range(2)]
    return _begun(pft.sync, code, done, setting, 0x10)


def _begun(
    sync: Callable[..., bytes],
    code: programs.Program,
    done: Sequence[programs.Run | pft.Run],
    setting: etmv3.Setting | ptm.Setting,
    noise: int,
) -> Stream:
    """A stream whose I-sync tells why it begins."""
    start, counts = done[1].executed[0][0], setting.cycle_accurate
    begun = partial(sync, thumb=code.thumb(start), cycles=5 if counts else None)
    first = encoding.ALIGNMENT + begun(start, reason=1)
    assume(bytes(done[1].trace).startswith(first))  # its first instruction may have been cancelled
    rest = bytes(done[1].trace)[len(first) :]
    restarts = {
        why: encoding.ALIGNMENT + begun(start, reason=reason)
        for why, reason in ((Why.OFF, 1), (Why.OVERFLOW, 2), (Why.DEBUG, 3))
    }
    executed = [one[0] for one in done[0].executed], [one[0] for one in done[1].executed]
    known = partial(programs.listing, code)
    return Stream(setting, known, bytes(done[0].trace), rest, executed, restarts, 6, noise)


def of_etmv4(draw: random.Random) -> Stream:
    code = v4.program(draw)
    setting = etmv4.Setting(version=0x42, deepest=draw.choice((0, 6, 30)), return_stack=draw.random() < 0.5)
    done = [v4.run(code, draw, setting, 60) for _ in range(2)]
    restarts = {Why.OFF: b"", Why.OVERFLOW: b"\x00\x05"}
    executed = [one[0] for one in done[0].executed], [one[0] for one in done[1].executed]
    return Stream(setting, code.table, bytes(done[0].trace), bytes(done[1].trace), executed, restarts, 12, 0x84)


STREAMS = [of_etmv3, of_ptm, of_etmv4]
every = pytest.mark.parametrize("make", STREAMS)


def reasons(gaps: Sequence[Gap]) -> Counter[Why]:
    return Counter(gap.why for gap in gaps)


@every
@pytest.mark.parametrize("cause", [Why.OFF, Why.OVERFLOW, Why.DEBUG])
@settings(max_examples=60, deadline=None)
@given(seed=SEEDS)
def test_why_a_unit_did_not_trace_is_the_reason(make: Callable[[random.Random], Stream], cause: Why, seed: int) -> None:
    stream = make(random.Random(seed))
    if cause not in stream.restarts:
        pytest.skip("the protocol does not tell this cause")
    alone, _ = stream.decoded([stream.first])
    gaps, shown = stream.decoded([stream.first + stream.restarts[cause] + stream.second])
    assert shown == [*stream.executed[0], *stream.executed[1]]
    assert set(reasons(gaps)) <= {*NORMAL, cause}
    assert reasons(gaps)[cause] > reasons(alone)[cause]


@every
@settings(max_examples=100, deadline=None)
@given(seed=SEEDS, at=st.integers(0, 1 << 20))
def test_a_stream_that_was_cut_ends_in_a_gap_that_says_so_or_between_packets(
    make: Callable[[random.Random], Stream], seed: int, at: int
) -> None:
    stream = make(random.Random(seed))
    cut = stream.aligned + at % (len(stream.first) - stream.aligned)
    gaps, shown = stream.decoded([stream.first[:cut]])
    assert set(reasons(gaps)) <= {*NORMAL, Why.TRUNCATED}
    assert (reasons(gaps)[Why.TRUNCATED] == 1) == (cut not in (stream.aligned, *stream.ends()))
    assert in_common(stream.executed[0], shown) >= len(shown) - 1  # the last one may have been cancelled


@every
@pytest.mark.parametrize("noisy", [False, True])
@settings(max_examples=200, deadline=None)
@given(seed=SEEDS, at=st.integers(0, 1 << 20), size=st.integers(1, 60))
def test_damage_is_called_damage_wherever_it_is(
    make: Callable[[random.Random], Stream], noisy: bool, seed: int, at: int, size: int
) -> None:
    """Bytes are missing, also within a packet and while nothing was traced; or there are some that begin no packet."""
    draw = random.Random(seed)
    stream = make(draw)
    ends = [end for end in stream.ends() if end > stream.aligned]
    begin = draw.choice(ends) if noisy else stream.aligned + at % (len(stream.first) - stream.aligned)
    after = stream.restarts[Why.OFF] + stream.second
    rest = stream.first[begin:] if noisy else stream.first[begin + size :]
    harm: bytes | None = bytes([stream.noise]) * size if noisy else None
    whole, _ = stream.decoded([stream.first + after])
    gaps, shown = stream.decoded([stream.first[:begin], harm, rest + after])
    assert set(reasons(gaps)) <= NORMAL | DAMAGED
    assert reasons(gaps)[Why.OFF] <= reasons(whole)[Why.OFF]
    (first, *_) = [gap for gap in gaps if gap.why not in NORMAL]
    assert first.why == Why.DAMAGE
    assert begin - 24 <= first.start <= begin  # where the packet begins that is damaged
    assert all(gap.end <= first.end or gap.start >= first.start for gap in gaps)
    for one, other in pairwise(gaps):
        assert one.end <= other.start
    assert shown[-len(stream.executed[1]) :] == stream.executed[1]


def test_stats_shows_damage_before_a_trace_on(tmp_path: Path) -> None:
    """A frame of zeros is missing at the end of what was traced, before the unit is switched on again."""
    on = encoding.ALIGNMENT + encoding.sync(programs.BASE, reason=1, cycles=5)
    frame = encoding.frames([(0x10, on + encoding.atom(True, 1) * 16)])
    folder = write(tmp_path, frame + bytes(16) + encoding.frames([(0x10, on + encoding.atom(True, 1) * 16)]))
    done = headway("trace", "stats", str(folder), "--format", "csv")
    rows = {tuple(line.split(",")[1:3]): line.split(",")[3] for line in done.stdout.splitlines()}
    assert rows["gap.unknown.damage", "gaps"] == "1"
    assert rows["gap.unknown.trace_off", "cycles"] == "5"
