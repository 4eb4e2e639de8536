"""Instruction traces: the speed of decoding packets and instructions, and mutated streams.

The trace is the capture of three Cortex-A7 in ``data/tc2`` of the folder $HEADWAY_SHARED. To measure speed, the first
stream is repeated. What a user sees is measured with that capture, and with those in the folder that
$HEADWAY_OPENCSD names (docs/trace/trace-checks.md) beside OpenCSD's ``trc_pkt_lister``, if 1.5 or later is there.
After that come random mutations of its streams, none of which may crash or hang (``--mutations``, by default
a million). The loss by damage is that of `benchmarks.trace_damage`.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from headway_trace._coresight import Deformatter
from headway_trace._flow import Flow
from headway_trace.decode import Capture, Stream
from headway_trace.packets import PacketKind

from .common import heading, load, table
from .trace_damage import tc2_capture

ROUNDS = 5
REPEATED = 1500


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


def _lap(data: bytes) -> bytes:
    """Return a stream of ETMv3 as it can be repeated: where it begins again, tracing has been off."""
    begin = data.index(bytes(5) + b"\x80")
    first = data.index(b"\x08\x01", begin)
    return data[begin : begin + 6] + b"\x70\x01\x21" + data[first + 2 :]


def _without_seams(stream: Stream, data: bytes, tc2: Path, folder: Path) -> None:
    """Make a capture of one stream of TC2, repeated. Its time does not go back, as timestamps are taken out."""
    shutil.copytree(tc2, folder, copy_function=shutil.copyfile)
    lap = _lap(data)
    parser = stream.setting.parser()
    packets = [*parser.feed(lap), *parser.finish()]
    stamps = [one for one in packets if one.kind == PacketKind.TIMESTAMP]
    for one in reversed(stamps):
        lap = lap[: one.offset] + lap[one.offset + one.size :]
    (folder / "cstrace.bin").write_bytes(lap * REPEATED)
    (folder / "trace.ini").write_text(
        "[trace_buffers]\nbuffers=buffer0\n\n[buffer0]\nname=ETB_0\nfile=cstrace.bin\nformat=source_data\n\n"
        "[source_buffers]\nETM_0=ETB_0\n\n[core_trace_sources]\ncpu_0=ETM_0\n"
    )


def _speed(stream: Stream, buffer: bytes, data: bytes) -> None:
    chunk, many, frames = 1 << 16, _lap(data) * 1000, buffer * 300

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


def _repeat(source: Path, buffer: str, times: int, folder: Path) -> None:
    """Make a capture of one whose buffer is repeated."""
    shutil.copytree(source, folder, copy_function=shutil.copyfile)
    (folder / buffer).write_bytes((source / buffer).read_bytes() * times)


def _commands(tc2: Path, without_seams: Callable[[Path], None]) -> None:
    """Print what a user sees: instructions a second of each command, beside OpenCSD's library in the same run."""
    places, lister = Path(os.environ.get("HEADWAY_OPENCSD") or "/nonexistent"), shutil.which("trc_pkt_lister")
    captures: list[tuple[str, str, Callable[[Path], None]]] = [("ETMv3, no seams", "cstrace.bin", without_seams)]
    for protocol, name, buffer, times in CAPTURES:
        source = places / name if name else tc2
        if source.is_dir():
            captures.append((protocol, buffer, partial(_repeat, source, buffer, times)))
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for protocol, buffer, make in captures:
            folder = Path(scratch) / "capture"
            make(folder)
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
                export = [*headway, "export", str(folder), "-o", f"{scratch}/out", "--to"]
                seconds += [_spent([*export, form]) for form in ("perfetto", "html")]
            figures = [f"{count / one / 1e6:.1f}" for one in seconds] + [""] * (5 - len(seconds))
            if lister:
                listed = [lister, "-ss_dir", str(folder), "-decode_only", "-profile", "-logfilename", f"{scratch}/log"]
                try:
                    figures.append(f"{count / _spent(listed) / 1e6:.1f}")
                except subprocess.CalledProcessError as error:
                    figures.append("fails" if error.returncode > 0 else "crashes")
            size = (folder / buffer).stat().st_size
            rows.append([protocol, f"{size / 1e6:.1f} MB", f"{count:,}", *figures, *[""] * (not lister)])
            shutil.rmtree(folder)
    commands = ["`blocks()`", "`decode` (CSV)", "`stats`", "`export`", "`export --to html`"]
    heads = ["capture", "size", "instructions", *commands, "OpenCSD"]
    print(table(heads, rows))
    print("\nMillion instructions a second of processor time: of commands, with their start; OpenCSD as")
    print("`trc_pkt_lister -profile`.")


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
    chosen = parser.parse_args(arguments)
    print("\n## Instruction traces\n")
    folder = tc2_capture()
    if folder is None:
        print("Not measured, because the capture data/tc2 is not there: set HEADWAY_SHARED to the folder of data.")
        return
    capture = Capture.open(str(folder))
    buffer = (folder / "cstrace.bin").read_bytes()
    stream = capture.streams[0x10]
    data = b"".join(piece for piece in _pieces(buffer, [0x10])[0x10] if isinstance(piece, bytes))
    _speed(stream, buffer, data)
    print()
    _commands(folder, partial(_without_seams, stream, data, folder))
    if chosen.speed:
        return
    print()
    _mutations(stream, data, chosen.mutations)


if __name__ == "__main__":
    print(f"# {heading()}\n\n({load()})", flush=True)
    main(sys.argv[1:])
