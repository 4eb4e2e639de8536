"""Snapshots as they come are read; hostile ones are refused in one printable sentence, not as long as they are."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway_trace._coresight import Deformatter, Probe
from headway_trace.commands.trace import command
from headway_trace.decode import Capture
from headway_trace.records import Instruction

from .elves import elf
from .encoding import frames
from .programs import BASE
from .snapshots import PROGRAM, STREAM, write

LONG = "x" * 100_000
BUFFER = "[trace_buffers]\nbuffers=b\n[b]\nname=B\nfile=trace.bin\nformat=coresight\n"


@pytest.mark.parametrize(
    "changes",
    [
        {"trace": f"[trace_buffers]\nbuffers=b\n[b]\nname=x\nfile=trace.bin\nformat={LONG}\n"},
        {"trace": f"[trace_buffers]\nbuffers={LONG}\n"},
        {"trace": f"[trace_buffers]\nbuffers=b\n[b]\nname=ETB\nfile={LONG}\nformat=coresight\n"},
        {"trace": BUFFER.replace("name=B", "name=a\x1b[31mb")},
        {"trace": f"{BUFFER}[source_buffers]\n{LONG}=B\n"},
        {"trace": f"{BUFFER}[source_buffers]\nETM={LONG}\n"},
        {"snapshot": f"[device_list]\na={LONG}\n[trace]\nmetadata=trace.ini\n"},
        {"snapshot": f"[device_list]\na=cpu.ini\n[trace]\nmetadata={LONG}\n"},
        {"etm": f"[device]\nname=ETM\nclass=trace_source\ntype={LONG}\n"},
        {"cpu": f"[device]\nname=cpu\nclass=core\ntype=A7\n[dump]\nfile={LONG}\naddress=0\n"},
        {"cpu": f"[device]\nname=cpu\nclass={LONG}\ntype=A7\n"},
        {"stm": f"[device]\nname=STM\nclass=trace_source\ntype={'x' * 4000}\n[regs]\nETMTRACEIDR=0x10\n", "etm": None},
    ],
    ids=range(12),
)
def test_what_is_refused_is_refused_in_a_short_sentence(tmp_path: Path, changes: dict[str, str | None]) -> None:
    with pytest.raises(HeadwayError) as refused:
        Capture.open(str(write(tmp_path / "s", None, **changes)))
    text = str(refused.value)
    assert text.isprintable()
    assert len(text) < 600 + len(str(tmp_path))


def instructions(folder: Path, stream: int = 0x10) -> list[int]:
    """The addresses that a stream executed."""
    return [one.address for one in Capture.open(str(folder)).streams[stream].records() if isinstance(one, Instruction)]


RAW = (
    "[trace_buffers]\nbuffers={buffers}\n[b1]\nname=B1\nfile=trace.bin\nformat=source_data\n"
    "[b2]\nname=B2\nfile=two.bin\nformat=source_data\n[source_buffers]\n{sources}\n"
    "[core_trace_sources]\ncpu=ETM\ncpu=STM\n"
)


def test_a_list_of_buffers_may_end_with_a_comma(tmp_path: Path) -> None:
    trace = RAW.format(buffers="b1,", sources="ETM=B1")
    assert len(instructions(write(tmp_path, STREAM, trace=trace))) == 85


def test_a_dump_may_be_at_an_address_of_64_bits_and_have_a_name(tmp_path: Path) -> None:
    text = (write(tmp_path) / "cpu.ini").read_text()
    more = "[dump.text]\nfile=memory.bin\naddress=0xFFFFFFC000081000\n"
    folder = write(tmp_path, cpu=text + more)
    stream = Capture.open(str(folder)).streams[0x10]
    assert stream.image.spans == [(BASE, BASE + 256), (0xFFFFFFC000081000, 0xFFFFFFC000081100)]
    assert stream.image.read(0xFFFFFFC000081080, 2) == PROGRAM[128:130]
    assert len(instructions(folder)) == 85


@pytest.mark.parametrize("name", ["libc.so", "\N{GRINNING FACE}" * 99], ids=["libc.so", "too long for a file"])
def test_a_dump_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    text = (write(tmp_path) / "cpu.ini").read_text()
    folder = write(tmp_path, cpu=f"{text}[dump2]\nfile={name}\naddress=0\n")
    assert Capture.open(str(folder)).left_out == (
        f"left out: the memory dump {name[:60]} (it is not there), stream 0x13 of STM (STM is not decoded)"
    )
    assert len(instructions(folder)) == 85


def test_a_source_that_no_device_file_describes_is_named(tmp_path: Path) -> None:
    text = (write(tmp_path) / "trace.ini").read_text()
    folder = write(tmp_path, trace=text.replace("ETM=ETB\n", "ETM=ETB\nNEW=ETB\n"))
    assert "NEW (no device file describes it)" in Capture.open(str(folder)).left_out
    assert len(instructions(folder)) == 85


@pytest.mark.parametrize(
    ("kind", "registers", "words"),
    [
        ("STM", "STMTCSR=0x00130005", "stream 0x13 of STM (STM is not decoded)"),
        ("ITM", "ITM_TER=1", "STM (ITM without a trace ID is not decoded)"),
        ("Own", "ETMTRACEIDR=0x13", "stream 0x13 of STM (Own is not decoded)"),
    ],
)
def test_what_is_not_decoded_is_named_by_its_protocol(tmp_path: Path, kind: str, registers: str, words: str) -> None:
    stm = f"[device]\nname=STM\nclass=trace_source\ntype={kind}\n[regs]\n{registers}\n"
    assert Capture.open(str(write(tmp_path / "a", stm=stm))).left_out == f"left out: {words}"
    alone = write(tmp_path / "b", frames([(0x13, b"\x01" * 40)]), stm=stm)
    with pytest.raises(HeadwayError, match="no stream that can be decoded") as refused:
        Capture.open(str(alone))
    assert words in str(refused.value)


def test_a_session_that_traced_nothing_is_left_out(tmp_path: Path) -> None:
    trace = RAW.format(buffers="b1,b2", sources="ETM=B1\nSTM=B2")
    folder = write(tmp_path, STREAM, trace=trace)
    (folder / "two.bin").write_bytes(b"")
    capture = Capture.open(str(folder))
    assert capture.left_out.endswith("two.bin' is empty: there is no trace in it")
    assert list(capture.streams) == [0x10]
    assert len(instructions(folder)) == 85


def test_sessions_of_one_trace_id_are_streams_of_their_own(tmp_path: Path) -> None:
    trace = RAW.format(buffers="b2,b1", sources="ETM=B1\nSTM=B2")
    folder = write(tmp_path, STREAM, trace=trace)
    (folder / "stm.ini").write_text((folder / "etm.ini").read_text().replace("name=ETM", "name=STM"))
    (folder / "two.bin").write_bytes(STREAM[: len(STREAM) // 2])
    capture = Capture.open(str(folder))
    assert list(capture.streams) == [0x10, 0x110]
    assert [stream.source.core for stream in capture.streams.values()] == ["cpu", "cpu"]
    assert len(instructions(folder, 0x10)) == 85
    assert 0 < len(instructions(folder, 0x110)) < 85


def probed(data: bytes, draw: random.Random) -> bytes:
    """As a DSTREAM unit stores frames: with synchronisation packets in between, in blocks that have a footer."""
    out = bytearray(draw.randbytes(draw.randrange(8)))
    for at in range(0, len(data), 16):
        if at == 0 or draw.random() < 0.6:
            out += b"\xff\xff\xff\x7f"
        for half in range(at, min(at + 16, len(data)), 2):
            if draw.random() < 0.2:
                out += b"\xff\x7f"
            out += data[half : half + 2]
    out += b"\xff\x7f" * (252 - len(out) % 504 // 2)
    blocks = [bytes(out[at : at + 504]) + draw.randbytes(8) for at in range(0, len(out) - 503, 504)]
    return b"".join(blocks)


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_synchronisation_packets_of_a_trace_port_change_nothing(seed: int, laps: int) -> None:
    draw = random.Random(seed)
    wrote = [(draw.choice((0x10, 0x11)), draw.randbytes(draw.randrange(1, 90))) for _ in range(20 * laps)]
    wrote = [(stream, data.replace(b"\0", b"\1")) for stream, data in wrote]
    deformatter, probe, stored = Deformatter(), Probe(), probed(frames(wrote), draw)
    plain: dict[int, bytes] = {}
    for stream, data, _ in deformatter.feed(frames(wrote)):
        plain[stream] = plain.get(stream, b"") + data
    found: dict[int, bytes] = {}
    cut = draw.randrange(len(stored))
    for part in (stored[:cut], stored[cut:]):
        for stream, data, places in probe.feed(part):
            found[stream] = found.get(stream, b"") + data
            assert all(0 <= place < len(stored) for place in places[1::2])
    plain.pop(0, None)
    assert {stream: data for stream, data in found.items() if stream} == plain


def test_a_capture_of_a_probe_is_decoded(tmp_path: Path) -> None:
    text = (write(tmp_path) / "trace.ini").read_text().replace("format=coresight", "format=dstream_coresight")
    stored = probed(frames([(0x10, STREAM), (0x13, b"\x01\x02\x03")]), random.Random(1))
    assert len(instructions(write(tmp_path, stored, trace=text))) == 85


def test_a_frame_that_a_probe_lost_a_part_of_is_a_loss() -> None:
    frame = frames([(0x10, b"\x02" * 14)])
    probe = Probe()
    found = probe.feed(b"\xff\xff\xff\x7f" + frame + frame[:6] + b"\xff\xff\xff\x7f" + frame)
    assert [(stream, data) for stream, data, _ in found] == [(0x10, b"\x02" * 14), (0x10, b""), (0x10, b"\x02" * 14)]
    assert [list(places) for _, _, places in found] == [[0, 4], [14, 20], [14, 30]]


@pytest.mark.parametrize("address", [BASE, 0])
def test_a_program_that_is_named_as_a_dump_is_loaded_as_one(tmp_path: Path, address: int) -> None:
    text = (write(tmp_path) / "cpu.ini").read_text().replace(f"address={BASE:#x}", f"address={address:#x}")
    folder = write(tmp_path, cpu=text)
    expected = instructions(write(tmp_path / "plain"))
    (folder / "memory.bin").write_bytes(elf(b"", code=PROGRAM, base=BASE))
    assert instructions(folder) == expected


def test_a_dump_of_memory_that_begins_with_a_header_of_elf_stays_a_dump(tmp_path: Path) -> None:
    program = elf(b"", code=PROGRAM, base=BASE + 84)  # where the segment lies in the file
    text = (write(tmp_path) / "cpu.ini").read_text()
    (write(tmp_path, cpu=text) / "memory.bin").write_bytes(program)
    image = Capture.open(str(tmp_path)).streams[0x10].image
    assert image.read(BASE, 8) == program[:8]


def test_a_cycle_needs_no_stream_where_there_is_one(tmp_path: Path) -> None:
    arguments = "at", str(write(tmp_path)), "--cycle", "20", "--format", "csv"
    found = CliRunner().invoke(command, arguments)
    assert found.exit_code == 0, found.stderr
    assert found.stdout == CliRunner().invoke(command, [*arguments, "--stream", "0x10"]).stdout
    assert len(found.stdout.splitlines()) == 2


def test_a_capture_has_stacks_and_coverage(tmp_path: Path) -> None:
    folder = write(tmp_path / "capture")
    for form in ("folded", "callgrind", "lcov"):
        done = CliRunner().invoke(command, ["export", str(folder), "--to", form, "-o", str(tmp_path / form)])
        assert done.exit_code == 0, done.stderr
    lines = [line.rsplit(" ", 1) for line in (tmp_path / "folded").read_text().splitlines()]
    assert all(stack.startswith("0x10;") for stack, _ in lines)
    cycles = [
        one.cycles or 0 for one in Capture.open(str(folder)).streams[0x10].records() if isinstance(one, Instruction)
    ]
    assert sum(int(number) for _, number in lines) == sum(cycles)
