"""Damage to instruction traces: what is lost and what is made up, beside OpenCSD's decoder of the same bytes.

    python -m benchmarks.trace_damage [--only PROTOCOL] [--places N] [--frames [--known]] [--each]

A capture is damaged at random places, and what is decoded of it is compared with what is decoded of the whole one:
instructions that are lost, and instructions that are made up, by the longest common subsequence of addresses. The
places are the same in each run. ETMv3 is the capture of three Cortex-A7 in ``data/tc2`` of the folder
$HEADWAY_SHARED; the others are in the folder ``decoder/tests`` of OpenCSD's sources, which $HEADWAY_OPENCSD names.
OpenCSD is its ``trc_pkt_lister``, if it is installed; each decoder is compared with its own decoding of the whole
capture. With ``--known`` headway alone drops frames, and is told the trace ID of every byte that is left.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tests.trace.common import in_common

from headway_trace._coresight import Deformatter
from headway_trace.decode import Capture, Stream

from .common import heading, load, table

LISTER = shutil.which("trc_pkt_lister")
FRAME = 16
FRAMES = "each frame dropped in turn"
_RANGE = re.compile(r"ID:([0-9a-f]+);.*INSTR_RANGE\(exec range=0x([0-9a-f]+):\[0x([0-9a-f]+)\]")
_VERSION = re.compile(r"Library Version : ([0-9.]+)")

Decoded = dict[int, list[int]]
"""The addresses of the instructions of each stream, by its trace ID."""
Harm = Callable[[bytes, random.Random], bytes]


@dataclass(frozen=True, slots=True)
class Case:
    """A capture that is damaged: its folder in OpenCSD's ``decoder/tests`` (empty: data/tc2), buffer and streams."""

    protocol: str
    folder: str
    buffer: str
    streams: tuple[int, ...]


CASES = (
    Case("ETMv3", "", "cstrace.bin", (0x10, 0x11, 0x12)),
    Case("PTM", "snapshots/TC2", "cstrace.bin", (0x13,)),
    Case("ETMv4", "snapshots/juno-uname-002", "trace.bin", (0x16,)),
    Case("ETE", "snapshots-ete/001-ack_test", "session1.bin", (0x2,)),
)


def tc2_capture() -> Path | None:
    """Return the folder of the capture TC2, if it is there."""
    places = [Path(os.environ.get("HEADWAY_SHARED", "")), Path(__file__).parents[2] / "shared"]
    return next(
        (place / "data" / "tc2" for place in places if (place / "data" / "tc2" / "snapshot.ini").is_file()), None
    )


def _flipped(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def _dropped(size: int) -> Harm:
    def drop(data: bytes, draw: random.Random) -> bytes:
        at = draw.randrange((len(data) - size) // FRAME + 1) * FRAME
        return data[:at] + data[at + size :]

    return drop


def _zeroed(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) // FRAME) * FRAME
    return data[:at] + bytes(FRAME) + data[at + FRAME :]


HARMS: dict[str, Harm] = {
    "one bit flipped": _flipped,
    "one frame dropped": _dropped(FRAME),
    "1 KB dropped": _dropped(1024),
    "one frame zeroed": _zeroed,
}


def _harmed(data: bytes, harm: Harm) -> Iterator[bytes]:
    draw = random.Random(1)
    while True:
        yield harm(data, draw)


def _without_each_frame(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), FRAME):
        yield data[:at] + data[at + FRAME :]


def _place(whole: bytes, damaged: bytes) -> int:
    """Return the first byte that differs."""
    return next((at for at, (a, b) in enumerate(zip(whole, damaged, strict=False)) if a != b), len(damaged))


class Headway:
    """headway's decoder of the streams of a capture."""

    name = "headway"

    def __init__(self, streams: dict[int, Stream]) -> None:
        self._streams = streams

    def decode(self) -> Decoded:
        """Decode the capture as it is now."""
        return {
            number: [address for block in stream.blocks() for address, _, _ in block.instructions()]
            for number, stream in self._streams.items()
        }


class KnownIds:
    """headway's decoder of a capture without one frame, if it knew to which stream every byte belongs.

    So it also knows where bytes are missing in a stream.
    """

    name = "headway"

    def __init__(self, streams: dict[int, Stream], buffer: Path) -> None:
        self._streams, self._buffer, self._whole = streams, buffer, buffer.read_bytes()
        self._frames = {number: list(self._by_frame(number)) for number in streams}

    def _by_frame(self, number: int) -> Iterator[bytes]:
        """Yield the stream's bytes in each frame."""
        deformatter = Deformatter(number)
        for at in range(0, len(self._whole), FRAME):
            yield b"".join(data for _, data, _ in deformatter.feed(self._whole[at : at + FRAME]))

    def decode(self) -> Decoded:
        """Decode the capture without the frame that is missing in the buffer now."""
        now = self._buffer.read_bytes()
        missing = None if len(now) == len(self._whole) else _place(self._whole, now) // FRAME
        return {number: list(self._addresses(number, missing)) for number in self._streams}

    def _addresses(self, number: int, missing: int | None) -> Iterator[int]:
        stream, frames = self._streams[number], self._frames[number]
        decoding = stream.decoding(confined=stream.confined)
        flow, parser = decoding.flow, stream.setting.parser()
        if decoding.reader.begins or stream.begins:
            flow.begins()
        cut = len(frames) if missing is None else missing
        first, last = b"".join(frames[:cut]), b"".join(frames[cut + 1 :])
        blocks = [flow.feed(parser.feed(first))]
        if cut < len(frames) and frames[cut]:
            blocks.append(flow.feed(parser.lost()))
            flow.lost(len(first))
        blocks += [flow.feed(parser.feed(last)), flow.feed(parser.finish()), flow.finish()]
        return (address for block in blocks for address, _, _ in block.instructions())


class OpenCsd:
    """OpenCSD's decoder of the same capture. ``sizes``: those of instructions, which it does not print."""

    name = "OpenCSD"

    def __init__(self, lister: str, folder: Path, numbers: Sequence[int], sizes: dict[int, int]) -> None:
        self._command = [lister, "-ss_dir", str(folder), "-decode_only", "-logstdout"]
        self._folder, self._numbers, self._sizes = folder, frozenset(numbers), sizes

    def decode(self) -> Decoded:
        """Decode the capture as it is now."""
        done = subprocess.run(
            self._command, capture_output=True, text=True, check=False, errors="replace", cwd=self._folder
        )
        found: Decoded = {number: [] for number in self._numbers}
        for match in _RANGE.finditer(done.stdout):
            number, start, end = (int(match[group], 16) for group in (1, 2, 3))
            while number in found and start < end:
                found[number].append(start)
                start += self._sizes.get(start, 4)
        return found


Decoder = Headway | KnownIds | OpenCsd


def _version(lister: str) -> str:
    """Return the version of OpenCSD's library."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [lister, "-ss_dir", scratch, "-logstdout"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace", cwd=scratch)
    found = _VERSION.search(done.stdout)
    return found[1] if found else "of an unknown version"


def _row(name: str, decoders: Sequence[Decoder], lost: dict[str, list[int]], made: dict[str, list[int]],
         blank: int) -> list[str]:  # fmt: skip
    figures = [
        f"{statistics.median(some):,.0f} / {statistics.fmean(some):,.1f} / {max(some):,}"
        for decoder in decoders
        for some in (lost[decoder.name], made[decoder.name])
    ]
    return [name, *figures, *[""] * blank]


def _measure(case: Case, source: Path, places: int, *, frames: bool, each: bool, known: bool) -> Iterator[list[str]]:
    """Yield a row for each kind of damage."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "capture"
        shutil.copytree(source, folder, copy_function=shutil.copyfile)
        buffer = folder / case.buffer
        data = buffer.read_bytes()
        opened = Capture.open(str(folder)).streams
        streams = {number: opened[number] for number in case.streams}
        for stream in streams.values():
            list(stream.blocks())  # whether a stream begins within the buffer is known only now
        decoders: list[Decoder] = [KnownIds(streams, buffer) if known else Headway(streams)]
        if LISTER and not known:
            told = (row for stream in streams.values() for block in stream.blocks() for row in block.instructions())
            decoders.append(OpenCsd(LISTER, folder, case.streams, {address: size for address, size, _ in told}))
        whole = {decoder.name: decoder.decode() for decoder in decoders}
        damages = {what: islice(_harmed(data, harm), places) for what, harm in HARMS.items()}
        for what, damaged in ({FRAMES: _without_each_frame(data)} if frames else damages).items():
            lost, made = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
            for harmed in damaged:
                buffer.write_bytes(harmed)
                for decoder in decoders:
                    right, found = whole[decoder.name], decoder.decode()
                    common = sum(in_common(right[number], found[number]) for number in right)
                    lost[decoder.name].append(sum(map(len, right.values())) - common)
                    made[decoder.name].append(sum(map(len, found.values())) - common)
                if each:
                    figures = "; ".join(f"{one.name} {lost[one.name][-1]}, {made[one.name][-1]}" for one in decoders)
                    print(f"{case.protocol}: {what} at byte {_place(data, harmed)}: {figures}", flush=True)
            yield _row(f"{case.protocol}: {what}", decoders, lost, made, 4 - 2 * len(decoders))


def main(arguments: Sequence[str] = ()) -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trace_damage")
    parser.add_argument("--only", choices=[case.protocol for case in CASES], help="damage only this capture")
    parser.add_argument("--places", type=int, default=60, help="how often each kind of damage is done")
    parser.add_argument("--frames", action="store_true", help="drop each frame in turn instead")
    parser.add_argument("--known", action="store_true", help="with --frames: headway alone, told the trace IDs")
    parser.add_argument("--each", action="store_true", help="print what each place lost and made up, too")
    chosen = parser.parse_args(arguments)
    if chosen.known and not chosen.frames:
        parser.error("--known is for --frames")
    print("\n## Damage to instruction traces\n")
    root, rows = os.environ.get("HEADWAY_OPENCSD"), list[list[str]]()
    for case in CASES:
        source = (Path(root) / case.folder if root else None) if case.folder else tc2_capture()
        if chosen.only not in (None, case.protocol):
            continue
        if source is None or not source.is_dir():
            where = "in OpenCSD's sources: set HEADWAY_OPENCSD" if case.folder else "data/tc2: set HEADWAY_SHARED"
            print(f"{case.protocol}: not measured, because its capture is not there; it is {where}.")
            continue
        rows += _measure(case, source, chosen.places, frames=chosen.frames, each=chosen.each, known=chosen.known)
    if rows:
        print(table(["damage", "headway loses", "makes up", "OpenCSD loses", "makes up"], rows))
        print("\nInstructions: median / mean / worst" + ("." if chosen.frames else f" of {chosen.places} places."))
        print(f"OpenCSD {_version(LISTER)}." if LISTER else "OpenCSD: not compared; trc_pkt_lister is not installed.")


if __name__ == "__main__":
    print(f"# {heading()}\n\n({load()})", flush=True)
    main(sys.argv[1:])
