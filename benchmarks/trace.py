"""Instruction traces: the speed of decoding packets and instructions, and the loss by damage.

The trace is the capture of three Cortex-A7 in ``data/tc2`` of $HEADWAY_SHARED (or ../shared). To measure speed, the
first stream is repeated. What a user sees is measured with that capture, and with those in the folder that
$HEADWAY_OPENCSD names (docs/trace.md), beside OpenCSD's ``trc_pkt_lister``, if it is installed (version 1.5 or later).
To measure damage, the trace is damaged at random places, and what is decoded is compared with the undamaged trace:
instructions that are lost, and instructions that are made up, by the longest common subsequence of addresses.
After that come random mutations of its streams, none of which may crash or hang (``--mutations``, by default
a million).
"""

from __future__ import annotations

import argparse
import os
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from tests.trace.common import in_common

from headway.trace._coresight import Deformatter
from headway.trace._flow import Flow
from headway.trace.decode import Capture, Stream

from .common import heading, load, table

ROUNDS = 5
PLACES = 400
OTHERS = {
    "one bit flipped": "4 / 245",
    "one frame dropped": "17 / 113",
    "1 KB dropped": "794 / 1,017",
    "one frame zeroed": "4,780 / 15,201",
}
"""The loss of OpenCSD: median / worst, measured on the same capture."""

Decoded = dict[int, list[tuple[int, int]]]


def tc2_capture() -> Path | None:
    """Return the folder of the capture TC2, if it is there."""
    places = [Path(os.environ.get("HEADWAY_SHARED", "")), Path(__file__).parents[2] / "shared"]
    return next(
        (place / "data" / "tc2" for place in places if (place / "data" / "tc2" / "snapshot.ini").is_file()), None
    )


def _pieces(data: bytes, ids: Iterable[int]) -> dict[int, list[bytes | int]]:
    found: dict[int, list[bytes | int]] = {number: [] for number in ids}
    for number, piece, places in Deformatter().feed(data):
        if number in found:
            found[number].append(piece or places[0])
    return found


def _flow(stream: Stream) -> Flow:
    return Flow(
        stream.program,
        cycle_accurate=stream.setting.cycle_accurate,
        branch_broadcast=False,
        counted_through_overflow=False,
        threads=False,
        confined=True,
    )


def _best(work: Callable[[], None]) -> float:
    """Return the seconds of processor time of the fastest of several rounds."""
    seconds = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return min(seconds)


def _speed(stream: Stream, buffer: bytes, data: bytes) -> None:
    # Repeat from the first A-sync on. Where the trace begins again, tracing has been off.
    begin = data.index(bytes(5) + b"\x80")
    first = data.index(b"\x08\x01", begin)
    lap = data[begin : begin + 6] + b"\x70\x01\x21" + data[first + 2 :]
    chunk, many, frames = 1 << 16, lap * 1000, buffer * 300

    def deformat() -> None:
        deformatter = Deformatter()
        for at in range(0, len(frames), chunk):
            deformatter.feed(frames[at : at + chunk])

    def parse() -> None:
        parser = stream.setting.parser()
        for at in range(0, len(many), chunk):
            parser.feed(many[at : at + chunk])

    count = 0

    def follow() -> None:
        nonlocal count
        parser, flow, count = stream.setting.parser(), _flow(stream), 0
        for at in range(0, len(many), chunk):
            count += len(flow.feed(parser.feed(many[at : at + chunk])))

    follow()
    rows = [
        ["frames taken apart", f"{len(frames) / _best(deformat) / 1e6:.0f} MB/s"],
        ["packets", f"{len(many) / _best(parse) / 1e6:.0f} MB/s"],
    ]
    seconds = _best(follow)
    rows += [
        ["instructions, with packets", f"{count / seconds / 1e6:.1f} million/s, {len(many) / seconds / 1e6:.0f} MB/s"]
    ]
    print(table(["layer", "speed"], rows))


CAPTURES = (
    ("ETMv3 and PTM", "", "cstrace.bin", 400),
    ("PTM", "snapshots/tc2-ptm-rstk-t32", "PTM_0_2.bin", 40),
    ("ETMv4", "snapshots/juno-uname-002", "trace.bin", 240),
    ("ETMv4, a loop", "snapshots/bugfix-exact-match", "cstrace.bin", 2),
    ("ETE", "snapshots-ete/tme_test", "session1.bin", 90),
)
"""Captures: protocol, folder in OpenCSD's ``decoder/tests`` (empty: data/tc2), buffer, and how often it is repeated."""


def _spent(command: Sequence[str]) -> float:
    """Return the seconds of processor time that a command takes: of two runs, those of the quicker one."""
    found = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def _commands(tc2: Path) -> None:
    """Print what a user sees: instructions a second of each command, beside OpenCSD's library in the same run."""
    places, lister = os.environ.get("HEADWAY_OPENCSD"), shutil.which("trc_pkt_lister")
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for protocol, name, buffer, times in CAPTURES:
            source = Path(places or "/nonexistent") / name if name else tc2
            if not source.is_dir():
                continue
            folder = Path(scratch) / "capture"
            shutil.copytree(source, folder, copy_function=shutil.copyfile)
            (folder / buffer).write_bytes((source / buffer).read_bytes() * times)
            streams = [one for one in Capture.open(str(folder)).streams.values() if one.image.spans]
            count = sum(one.totals()[1].instructions for one in streams)

            def decode(streams: Sequence[Stream] = streams) -> None:
                for stream in streams:
                    for _ in stream.blocks():
                        pass

            begin = time.process_time()
            decode()
            seconds = [time.process_time() - begin]
            headway = [sys.executable, "-m", "headway", "trace"]
            for command in (["decode", str(folder), "--format", "csv"], ["stats", str(folder), "--format", "csv"]):
                seconds.append(_spent([*headway, *command]))
            if all(one.setting.cycle_accurate for one in streams):
                seconds.append(_spent([*headway, "export", str(folder), "-o", f"{scratch}/out"]))
            figures = [f"{count / one / 1e6:.1f}" for one in seconds] + [""] * (4 - len(seconds))
            if lister:
                listed = [lister, "-ss_dir", str(folder), "-decode_only", "-profile", "-logfilename", f"{scratch}/log"]
                try:
                    figures.append(f"{count / _spent(listed) / 1e6:.1f}")
                except subprocess.CalledProcessError as error:
                    figures.append("fails" if error.returncode > 0 else "crashes")
            size = (folder / buffer).stat().st_size
            rows.append([protocol, f"{size / 1e6:.1f} MB", f"{count:,}", *figures, *[""] * (not lister)])
            shutil.rmtree(folder)
    heads = ["capture", "size", "instructions", "`blocks()`", "`decode` (CSV)", "`stats`", "`export`", "OpenCSD"]
    print(table(heads, rows))
    print("\nMillion instructions a second of processor time: of commands, with their start; OpenCSD as")
    print("`trc_pkt_lister -profile`.")


def _flipped(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]


def _dropped(size: int) -> Callable[[bytes, random.Random], bytes]:
    def drop(data: bytes, draw: random.Random) -> bytes:
        at = draw.randrange((len(data) - size) // 16 + 1) * 16
        return data[:at] + data[at + size :]

    return drop


def _zeroed(data: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(data) // 16) * 16
    return data[:at] + bytes(16) + data[at + 16 :]


def _harmed(harm: Callable[[bytes, random.Random], bytes], data: bytes) -> Iterator[bytes]:
    draw = random.Random(1)
    for _ in range(PLACES):
        yield harm(data, draw)


def _without_each_frame(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), 16):
        yield data[:at] + data[at + 16 :]


def _damage(folder: Path, buffer: bytes) -> None:
    streams = {
        number: stream
        for number, stream in Capture.open(str(folder)).streams.items()
        if stream.setting.protocol == "ETMv3"
    }

    def decoded(data: bytes) -> Decoded:
        (folder / "cstrace.bin").write_bytes(data)
        return {
            number: [(address, size) for block in stream.blocks() for address, size, _ in block.instructions()]
            for number, stream in streams.items()
        }

    whole, rows = decoded(buffer), []
    harms = (_flipped, _dropped(16), _dropped(1024), _zeroed)
    cases = [
        (name, others, partial(_harmed, harm, buffer))
        for (name, others), harm in zip(OTHERS.items(), harms, strict=True)
    ]
    cases.append(("each frame dropped in turn", "", partial(_without_each_frame, buffer)))
    for name, others, damaged in cases:
        lost, made_up = list[int](), list[int]()
        for data in damaged():
            found = decoded(data)
            common = sum(in_common(whole[number], found[number]) for number in whole)
            lost.append(sum(map(len, whole.values())) - common)
            made_up.append(sum(map(len, found.values())) - common)
        figures = [
            f"{statistics.median(some):,.0f} / {statistics.fmean(some):.1f} / {max(some):,}" for some in (lost, made_up)
        ]
        rows.append([name, *figures, others])
    print(table(["damage", "lost: median / mean / worst", "made up", "OpenCSD loses: median / worst"], rows))


HARMED = (
    ("PTM", "snapshots/TC2", "cstrace.bin", 0x13),
    ("ETMv4", "snapshots/juno-uname-002", "trace.bin", 0x16),
    ("ETE", "snapshots-ete/001-ack_test", "session1.bin", 0x2),
)
"""Captures that are damaged: protocol, folder in OpenCSD's ``decoder/tests``, buffer, trace ID."""
_RANGE = re.compile(r"ID:([0-9a-f]+);.*INSTR_RANGE\(exec range=0x([0-9a-f]+):\[0x([0-9a-f]+)\]")


def _listed(lister: str, folder: Path, number: int, sizes: dict[int, int]) -> list[int]:
    """Return the addresses of the instructions that OpenCSD decodes of a stream."""
    command = [lister, "-ss_dir", str(folder), "-decode_only", "-logstdout"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, errors="replace", cwd=folder)
    found = []
    for match in _RANGE.finditer(done.stdout):
        start, end = int(match[2], 16), int(match[3], 16)
        while int(match[1], 16) == number and start < end:
            found.append(start)
            start += sizes.get(start, 4)
    return found


def _damage_of_others(places: int) -> None:
    """Print what damage costs in the other protocols, beside OpenCSD: of the same damaged captures."""
    root, lister = os.environ.get("HEADWAY_OPENCSD"), shutil.which("trc_pkt_lister")
    if not root or not lister:
        print("Not measured: HEADWAY_OPENCSD names no folder, or trc_pkt_lister is not installed.")
        return
    rows = []
    for protocol, name, buffer, number in HARMED:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "capture"
            shutil.copytree(Path(root) / name, folder, copy_function=shutil.copyfile)
            data, stream = (folder / buffer).read_bytes(), Capture.open(str(folder)).streams[number]
            told = [row for block in stream.blocks() for row in block.instructions()]
            sizes = {address: size for address, size, _ in told}
            decoders: dict[str, Callable[[], list[int]]] = {
                "headway": lambda stream=stream: [  # type: ignore[misc]
                    address for block in stream.blocks() for address, _, _ in block.instructions()
                ],
                "OpenCSD": partial(_listed, lister, folder, number, sizes),
            }
            whole = {who: decode() for who, decode in decoders.items()}
            for what, harm in zip(OTHERS, (_flipped, _dropped(16), _dropped(1024), _zeroed), strict=True):
                draw, lost, made_up = (
                    random.Random(1),
                    defaultdict[str, list[int]](list),
                    defaultdict[str, list[int]](list),
                )
                for _ in range(places):
                    (folder / buffer).write_bytes(harm(data, draw))
                    for who, decode in decoders.items():
                        found = decode()
                        common = in_common(whole[who], found)
                        lost[who].append(len(whole[who]) - common)
                        made_up[who].append(len(found) - common)
                rows.append(
                    [f"{protocol}: {what}"]
                    + [
                        f"{statistics.median(some[who]):,.0f} / {max(some[who]):,}"
                        for who in decoders
                        for some in (lost, made_up)
                    ]
                )
    heads = ["damage", "headway: lost", "made up", "OpenCSD: lost", "made up"]
    print(table(heads, rows))


def _mutations(stream: Stream, data: bytes, count: int) -> None:
    draw, begin, slowest = random.Random(1), time.perf_counter(), 0.0
    for _ in range(count):
        at = draw.randrange(len(data) - 400)
        piece = bytearray(data[at : at + draw.randrange(40, 400)])
        for _ in range(draw.randrange(1, 6)):
            spot = draw.randrange(len(piece))
            if draw.random() < 0.5:
                piece[spot] = draw.randrange(256)
            else:
                piece[spot : spot + draw.randrange(20)] = draw.randbytes(draw.randrange(20))
            piece = piece or bytearray(1)
        one = time.perf_counter()
        parser, flow = stream.setting.parser(), _flow(stream)
        flow.feed(parser.feed(b"\0\0\0\0\0\x80" + bytes(piece)))
        flow.feed(parser.finish())
        flow.finish()
        slowest = max(slowest, time.perf_counter() - one)
    seconds = time.perf_counter() - begin
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(
        f"{count:,} mutated streams: no crash, {count / seconds:,.0f} a second, the slowest {slowest * 1000:.0f} ms, "
        f"{memory} MiB of memory at most."
    )


def main(arguments: Sequence[str] = ()) -> None:
    """Print the figures as Markdown."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trace")
    parser.add_argument("--mutations", type=int, default=1_000_000)
    parser.add_argument("--speed", action="store_true", help="measure only how fast traces are read")
    parser.add_argument("--places", type=int, default=100, help="damage the captures of other protocols so often")
    chosen = parser.parse_args(arguments)
    print("\n## Instruction traces\n")
    folder = tc2_capture()
    if folder is None:
        print("Not measured: data/tc2 is neither in $HEADWAY_SHARED nor in ../shared.")
        return
    capture = Capture.open(str(folder))
    buffer = (folder / "cstrace.bin").read_bytes()
    stream = capture.streams[0x10]
    data = b"".join(piece for piece in _pieces(buffer, [0x10])[0x10] if isinstance(piece, bytes))
    _speed(stream, buffer, data)
    print()
    _commands(folder)
    if chosen.speed:
        return
    print()
    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True, copy_function=shutil.copyfile)
        _damage(Path(copy), buffer)
    print()
    _damage_of_others(chosen.places)
    print()
    _mutations(stream, data, chosen.mutations)


if __name__ == "__main__":
    print(f"# {heading()}\n\n({load()})", flush=True)
    main(sys.argv[1:])
