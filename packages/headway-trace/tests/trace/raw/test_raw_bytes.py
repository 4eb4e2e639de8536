"""What a file of raw bytes is, is found by what is in it, wherever it begins."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trace.common import in_common

from headway.errors import HeadwayError
from headway_trace.decode import Capture
from headway_trace.orbflow import Orbflow, message_of
from headway_trace.raw.opening import RawTrace, open_raw
from headway_trace.raw.told import Told, told_of
from headway_trace.reader import OptionError
from headway_trace.records import Instruction
from headway_trace.snapshot import Style

from .wrapping import Made, cobs, framed, made, orbflow, port

SEEDS = st.integers(0, 2**32)
PROTOCOLS = ("ETMv3", "PTM", "ETMv4", "ITM")


def opened(folder: Path, data: bytes, *images: str, told: Told | None = None) -> RawTrace:
    path = folder / "dump.bin"
    path.write_bytes(data)
    return open_raw(str(path), images, told or Told())


def protocols(found: RawTrace) -> dict[int, str]:
    return {source.stream or 0: source.protocol for source in found.snapshot.sources}


def executed(folder: Path, one: Made, data: bytes) -> list[int]:
    """What is decoded of the first stream with instructions."""
    (folder / "memory").write_bytes(one.image)
    images = [f"{folder / 'memory'}@{one.base:#x}"]
    capture = Capture(opened(folder, data, *images).snapshot, images)
    stream = next(iter(capture.streams.values()))
    return [record.address for record in stream.records() if isinstance(record, Instruction)]


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.sampled_from(PROTOCOLS), st.integers(0, 100))
def test_bare_bytes_of_each_protocol_are_recognised_wherever_they_begin(seed: int, protocol: str, cut: int) -> None:
    one = made(random.Random(seed), protocol)
    with TemporaryDirectory() as folder:
        found = opened(Path(folder), one.data[cut:])
    assert protocols(found) == {0: protocol}
    assert found.snapshot.sources[0].buffer.style is Style.RAW
    if protocol != "ITM":
        setting = found.snapshot.sources[0].setting
        assert setting is not None
        assert setting.cycle_accurate == one.cycles


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.sets(st.sampled_from(PROTOCOLS), min_size=2), st.integers(0, 100), st.booleans())
def test_streams_that_share_frames_are_found_wherever_these_begin(
    seed: int, which: set[str], cut: int, synchronised: bool
) -> None:
    draw = random.Random(seed)
    wrote = {0x10 + at: made(draw, protocol) for at, protocol in enumerate(sorted(which))}
    data = framed(draw, {number: one.data for number, one in wrote.items()})
    data = port(draw, data) if synchronised else data
    with TemporaryDirectory() as folder:
        found = opened(Path(folder), data[cut:])
    assert protocols(found) == {number: one.protocol for number, one in wrote.items()}


@given(st.binary(max_size=700), st.booleans())
def test_a_message_comes_out_of_its_frame(data: bytes, long: bool) -> None:
    message = b"\x01" + data + (b"\x07" * 600 if long else b"")
    frame = cobs(message + bytes([-sum(message) & 0xFF]))
    assert 0 not in frame
    assert message_of(frame) == message


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.integers(0, 100), st.lists(st.integers(1, 2000), max_size=3))
def test_messages_of_orbflow_are_found_and_divide_anywhere(seed: int, cut: int, sizes: list[int]) -> None:
    draw = random.Random(seed)
    wrote = {1: made(draw, "ITM"), 2: made(draw, "ETMv3")}
    data = orbflow(draw, {number: one.data for number, one in wrote.items()})
    with TemporaryDirectory() as folder:
        found = opened(Path(folder), data[cut:])
    assert protocols(found) == {1: "ITM", 2: "ETMv3"}
    reader, pieces, at = Orbflow(2), list[bytes](), 0
    for size in (*sizes, len(data)):
        pieces += [piece for _, piece, _ in reader.feed(data[at : at + size])]
        state = reader.save()
        reader = Orbflow(2)
        reader.load(state)
        at += size
    assert b"".join(pieces) == wrote[2].data


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.sampled_from(PROTOCOLS[:3]), st.integers(0, 200))
def test_a_missing_start_costs_what_was_in_it_and_nothing_is_made_up(seed: int, protocol: str, cut: int) -> None:
    draw = random.Random(seed)
    one = made(draw, protocol)
    data = framed(draw, {0x10: one.data, 0x11: made(draw, "ITM").data})
    with TemporaryDirectory() as folder:
        whole, found = executed(Path(folder), one, data), executed(Path(folder), one, data[cut:])
    assert whole == list(one.executed)
    assert in_common(found, whole) == len(found)
    assert len(found) >= len(whole) // 2


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.sampled_from([1, 3, 5]), st.integers(0, 1 << 16))
def test_bytes_missing_in_the_middle_of_frames_cost_little_more(seed: int, missing: int, at: int) -> None:
    """There are no synchronisation packets, so all frames behind them begin at another byte."""
    draw = random.Random(seed)
    one, other = made(draw, "ETMv3"), made(draw, "ITM")
    data = framed(draw, {0x10: one.data, 0x11: other.data})
    at = 1024 + at % (len(data) - 2048)
    with TemporaryDirectory() as folder:
        damaged = data[:at] + data[at + missing :]
        found = opened(Path(folder), damaged)
        assert protocols(found) == {0x10: "ETMv3", 0x11: "ITM"}
        assert found.snapshot.sources[0].buffer.starts
        common = in_common(executed(Path(folder), one, damaged), one.executed)
    assert common >= len(one.executed) - 450


@settings(max_examples=20, deadline=None)
@given(st.binary(max_size=300), SEEDS)
def test_bytes_without_a_trace_are_refused_in_one_sentence(data: bytes, seed: int) -> None:
    for one in (data, random.Random(seed).randbytes(1 << 14)):
        with TemporaryDirectory() as folder, pytest.raises(HeadwayError) as refused:
            opened(Path(folder), one)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(("data", "says"), [(b"\x7fELF" + bytes(60), "but a program"), (b"text\n" * 99, "is neither")])
def test_programs_and_texts_are_no_traces(data: bytes, says: str, tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match=says):
        opened(tmp_path, data)


def test_a_capture_of_real_processors_is_found_in_its_buffer_alone(tc2: Path, tmp_path: Path) -> None:
    """The registers of the snapshot give the same instructions as what is found without them."""
    data, images = (tc2 / "cstrace.bin").read_bytes(), [f"{tc2 / 'kernel_dump.bin'}@0xc0008000"]
    for one in (data, data[5:], port(random.Random(1), data)):
        capture = Capture(opened(tmp_path, one, *images).snapshot, images)
        counts = {number: stream.totals()[1].instructions for number, stream in capture.streams.items()}
        assert counts == {0x10: 7205, 0x11: 8181, 0x12: 2355, 0x13: 9648}


def test_what_the_user_says_holds(tmp_path: Path) -> None:
    one = made(random.Random(1), "ETMv4")
    found = opened(tmp_path, one.data, told=told_of(["ete"], ["TRCIDR8=0x20", "0:TRCCONFIGR=0x10"]))
    (source,) = found.snapshot.sources
    assert source.protocol == "ETE"
    assert (source.setting.deepest, source.setting.cycle_accurate) == (32, True)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("protocol", "register", "says"),
    [
        ("ETMv9", None, "names no protocol: give one of ETMv3"),
        ("0x70=PTM", None, "is no trace ID"),
        ("\x1b=PTM", None, "is no trace ID"),
        (None, "TRCIDR8", "is no register with a value"),
        (None, "NAME=1", "is no register with a value"),
        (None, "TRCIDR8=x", "give a number of 32 bits"),
        (None, "x:TRCIDR8=1", "is no trace ID"),
        (None, "TRCIDR8=0x100000000", "give a number of 32 bits"),
    ],
)
def test_what_is_wrong_in_what_the_user_says_is_named(protocol: str | None, register: str | None, says: str) -> None:
    with pytest.raises(OptionError, match=says):
        told_of([protocol] if protocol else [], [register] if register else [])
