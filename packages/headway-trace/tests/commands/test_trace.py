"""headway trace: what it prints, and that whatever it is given, it says in one sentence what is wrong."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests import running
from tests.perfetto import read_back
from tests.trace import etmv4
from tests.trace.elves import END, LINE_7, at, elf, unit
from tests.trace.encoding import frames
from tests.trace.programs import BASE
from tests.trace.snapshots import PROGRAM, STREAM, write

from headway.errors import HeadwayError
from headway_trace.decode import Capture


def headway(*arguments: str | Path) -> running.Done:
    return running.headway("trace", *arguments)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_decode_prints_instructions_and_gaps(tmp_path: Path) -> None:
    done = headway("decode", write(tmp_path), "--format", "csv")
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "stream,thread,cycle,cycles,address,size,state,symbol"
    found = rows(done.stdout)
    assert found[0]["state"] == "unknown.unsynchronised[0:16]"
    assert found[0]["size"] == "0"
    assert [int(row["address"], 16) for row in found[1:]] == [
        *range(BASE, BASE + 130, 2),
        *range(BASE + 4, BASE + 44, 2),
    ]
    assert found[1] == {
        "stream": "0x10",
        "thread": "",
        "cycle": "15",
        "cycles": "10",
        "address": f"{BASE:#010x}",
        "size": "2",
        "state": "executed",
        "symbol": "",
    }
    assert done.stderr == "headway: left out: stream 0x13 of STM (STM is not decoded)\n"


def test_json_and_table_have_the_same_rows(tmp_path: Path) -> None:
    folder = write(tmp_path)
    found = json.loads(headway("decode", folder, "--format", "json").stdout)
    assert len(found) == 86
    assert found[0]["address"] is None
    table = headway("decode", folder).stdout.splitlines()
    assert len(table) == 87
    assert table[0].split() == ["stream", "thread", "cycle", "cycles", "address", "size", "state", "symbol"]


def test_symbols_come_from_a_system_map(tmp_path: Path) -> None:
    (tmp_path / "System.map").write_text(f"{BASE:08x} T start\n{BASE + 32:08x} t middle\n")
    done = headway("decode", write(tmp_path / "s"), "--image", tmp_path / "System.map", "--format", "csv")
    assert [row["symbol"] for row in rows(done.stdout)[1:19]] == ["start"] * 16 + ["middle"] * 2


def test_stats_say_what_is_there(tmp_path: Path) -> None:
    found = {row["what"]: row["value"] for row in rows(headway("stats", write(tmp_path), "--format", "csv").stdout)}
    assert found["packet.A-sync"] == "1"
    assert found["packet.timestamp"] == "3"
    assert found["instructions"] == "85"


def test_align_shows_the_fit(tmp_path: Path) -> None:
    row = rows(headway("align", write(tmp_path), "--format", "csv").stdout)[0]
    assert float(row["cycles_per_tick"]) == pytest.approx(10, rel=0.01)
    assert float(row["residual_max"]) < 10


def test_align_gives_each_instruction_its_time(tmp_path: Path) -> None:
    found = rows(headway("align", write(tmp_path), "--instructions", "--format", "csv").stdout)
    assert float(found[1]["time"]) == pytest.approx(1001, abs=1)
    assert float(found[1]["uncertainty"]) >= 1


def test_at_says_what_was_being_executed(tmp_path: Path) -> None:
    folder = write(tmp_path)
    row = rows(headway("at", folder, "--stream", "0x10", "--cycle", "21", "--format", "csv").stdout)[0]
    assert (row["cycle"], row["address"]) == ("21", f"{BASE + 2:#010x}")
    row = rows(headway("at", folder, "--time", "1032", "--format", "csv").stdout)[0]
    assert row["address"].startswith("0xc000803") or row["address"].startswith("0xc000804")


def test_at_a_time_knows_which_streams_there_are(tmp_path: Path) -> None:
    assert "no stream 0x55" in refused("at", write(tmp_path), "--time", "1032", "--stream", "0x55")


def test_at_names_the_line_of_source(tmp_path: Path) -> None:
    table = unit(at(BASE) + LINE_7 + b"\x02\x20" + LINE_7 + b"\x02\x80\x01" + END)
    (tmp_path / "program").write_bytes(elf(table, code=PROGRAM, base=BASE))
    arguments = write(tmp_path / "s"), "--image", tmp_path / "program", "--format", "csv"
    found = rows(headway("at", *arguments, "--stream", "0x10", "--cycle", "21").stdout)[0]
    assert (found["address"], found["line"]) == (f"{BASE + 2:#010x}", "one.c:7")
    found = rows(headway("at", *arguments, "--time", "1062").stdout)[0]
    assert int(found["address"], 16) > BASE + 64
    assert found["line"] == "one.c:13"
    assert rows(headway("at", write(tmp_path / "s"), "--time", "1062", "--format", "csv").stdout)[0]["line"] == ""


@pytest.mark.exhaustive  # only make test-all has Perfetto's reader
def test_a_capture_is_exported_with_its_lines(tmp_path: Path) -> None:
    table = unit(at(BASE) + LINE_7 + b"\x02\x80\x02" + END)
    (tmp_path / "program").write_bytes(elf(table, code=PROGRAM, base=BASE))
    out = tmp_path / "out.pftrace"
    done = headway("export", write(tmp_path / "s"), "--image", tmp_path / "program", "--to", "perfetto", "-o", out)
    assert done.returncode == 0
    assert done.stderr == "headway: left out: stream 0x13 of STM (STM is not decoded)\n"
    slices, tracks = read_back(out.read_bytes())
    assert list(tracks.values()) == ["stream 0x10 (cpu)"]
    assert slices[-1].notes == {"address": BASE, "line": "one.c:7"}
    assert slices[-1].start // 1000 in range(998, 1002)
    assert slices[-1].end // 1000 in range(1103, 1107)


def test_what_is_not_exported_leaves_the_file_that_is_there(tmp_path: Path) -> None:
    out = tmp_path / "out.pftrace"
    out.write_bytes(b"precious")
    folder = write(tmp_path / "s")
    assert "there are 0x10" in refused("export", folder, "--stream", "7", "-o", out)
    assert "cannot be opened" in refused("export", folder, "--image", tmp_path / "gone", "-o", out)
    assert "is not there" in refused("export", tmp_path / "nowhere", "-o", out)
    assert "over or into" in refused("export", folder, "--image", out, "-o", out)
    assert "over or into" in refused("export", folder, "-o", folder / "trace.bin")
    assert "over or into" in refused("export", folder, "--image", f"{out}@{BASE:#x}", "-o", out)
    assert "beyond 64 bits" in refused("decode", folder, "--image", f"{out}@0xfffffffffffffffc")
    assert "is empty" in refused("decode", "")
    assert out.read_bytes() == b"precious"
    assert "cannot be written" in refused("export", folder, "-o", tmp_path)
    assert "--windows is for" in refused("stats", folder, "--windows")
    assert "stream 0x10 is ETMv3" in refused("decode", folder, "--assume")
    assert "stream 0x10 is ETMv3" in refused("stats", folder, "--assume")


ETMV4 = (
    "[device]\nname=ETM\nclass=trace_source\ntype=ETM4.2\n[regs]\nTRCCONFIGR=0x1\nTRCIDR0=0x28000EA1\n"
    "TRCIDR1=0x4100F423\nTRCIDR2=0x488\nTRCTRACEIDR=0x10\n"
)


def test_what_another_program_contradicts_is_followed_if_that_is_asked_for(tmp_path: Path) -> None:
    """The dump has a return where the program that ran had an instruction with a condition."""
    image = tmp_path / "dump"
    image.write_bytes((b"\x1f\x20\x03\xd5" + b"\xc0\x03\x5f\xd6") * 3)
    place = f"{image}@{etmv4.BASE:#x}"
    start = etmv4.START + etmv4.ON + etmv4.context() + etmv4.long_address(etmv4.BASE)
    after = etmv4.long_address(etmv4.BASE + 16) + etmv4.atoms([True])
    trace = start + etmv4.atoms([False, True]) + after
    folder = write(tmp_path / "s", frames([(0x10, trace)]), etm=ETMV4)
    exact = rows(headway("decode", folder, "--image", place, "--format", "csv").stdout)
    assert [row["state"] for row in exact if row["address"]] == ["executed"] * 2
    done = headway("decode", folder, "--image", place, "--format", "csv", "--assume")
    found = [row for row in rows(done.stdout) if row["address"]]
    assert [int(row["address"], 16) - etmv4.BASE for row in found] == [0, 4, 8, 12, 16, 20]
    assert [row["state"] for row in found] == ["assumed"] * 4 + ["executed"] * 2
    told = json.loads(headway("decode", folder, "--image", place, "--format", "json", "--assume").stdout)
    assert [row["state"] for row in told if row["address"]] == [row["state"] for row in found]
    counted = rows(headway("stats", folder, "--image", place, "--format", "csv", "--assume").stdout)
    values = {row["what"]: row["value"] for row in counted}
    assert (values["instructions"], values["instructions.assumed"]) == ("6", "4")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("style", ["table", "csv", "json"])
def test_rows_that_cannot_be_written_are_one_sentence(tmp_path: Path, style: str) -> None:
    run = "import sys; from headway.commands import main; main()"
    arguments = [sys.executable, "-c", run, "trace", "decode", str(write(tmp_path)), "--format", style]
    with open("/dev/full", "w") as full:
        done = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 125
    assert done.stderr == (
        "headway: the rows cannot be written to standard output (No space left on device): "
        "redirect it to another place\n"
    )


def test_rows_for_a_standard_output_that_is_closed_are_one_sentence(tmp_path: Path) -> None:
    run = "import sys; from headway.commands import main; main()"
    script = f'exec "{sys.executable}" -c "{run}" trace decode "{write(tmp_path)}" >&-'
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 125
    assert done.stderr == (
        "headway: the rows cannot be written to standard output (Bad file descriptor): redirect it to another place\n"
    )


def refused(*arguments: str | Path) -> str:
    done = headway(*arguments)
    assert done.returncode == 125
    assert done.stdout == ""
    assert done.stderr.startswith("headway: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        (b"", "is empty"),
        (b"\x21", "shorter than one frame"),
        (bytes(160), "no frames with trace"),
        (frames([(0x13, b"\x01" * 40)]), "no stream that can be decoded: stream 0x13 of STM (STM is not decoded)"),
    ],
)
def test_a_buffer_without_trace_is_refused(tmp_path: Path, trace: bytes, words: str) -> None:
    assert words in refused("decode", write(tmp_path, trace))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"snapshot": "[snapshot]\nversion=1.0\n"}, "no section [device_list]"),
        ({"snapshot": "nonsense"}, "no INI file"),
        ({"snapshot": "[device_list]\na=../../etc/passwd\n"}, "outside its folder"),
        ({"snapshot": "[device_list]\na=none.ini\n[trace]\nmetadata=trace.ini\n"}, "cannot be opened"),
        ({"trace": "[trace_buffers]\nbuffers=buffer0\n"}, "no section [buffer0]"),
        ({"trace": "[trace_buffers]\nbuffers=b\n[b]\nname=x\nfile=trace.bin\nformat=odd\n"}, "format 'odd'"),
        ({"etm": "[device]\nname=ETM\nclass=trace_source\ntype=ETM3.5\n[regs]\nETMCR=1\n"}, "no ETMIDR"),
        ({"etm": "[device]\nname=ETM\nclass=trace_source\ntype=ETM3.5\n[regs]\nETMCR=a lot\n"}, "'a lot' as ETMCR"),
        ({"etm": "[device]\nname=other\nclass=trace_source\ntype=ETM3.5\n"}, "no device file describes"),
        ({"cpu": "[device]\nname=cpu\nclass=core\ntype=A7\n"}, "no program is known"),
        ({"cpu": "[device]\nname=cpu\nclass=core\ntype=A7\n[dump]\nfile=gone\naddress=0\n"}, "no program is known"),
    ],
)
def test_a_snapshot_with_something_missing_is_refused(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    assert words in refused("decode", write(tmp_path, None, **changes))


def test_a_buffer_without_its_snapshot_has_the_same_instructions(tmp_path: Path) -> None:
    folder = write(tmp_path)
    images = "--image", f"{folder / 'memory.bin'}@{BASE:#x}", "--format", "csv"
    done = headway("decode", folder / "trace.bin", "--stream", "0x10", *images)
    assert done.returncode == 0
    assert done.stdout == headway("decode", folder, "--stream", "0x10", *images).stdout
    taken, sure, *more = done.stderr.splitlines()
    assert "is taken for frames of a trace buffer: ETMv3 with cycle counts (0x10)" in taken
    assert "100 % of the bytes after its first synchronisation fit" in sure
    assert all("0x13" in line for line in more)
    found = rows(headway("stats", folder / "trace.bin", *images).stdout)
    assert {row["what"]: row["value"] for row in found}["instructions"] == "85"


def test_what_is_asked_for_must_be_there(tmp_path: Path) -> None:
    folder = write(tmp_path / "s")
    assert "there are 0x10" in refused("decode", folder, "--stream", "0x42")
    assert "STM is not decoded" in refused("decode", folder, "--stream", "0x13")
    assert "is not a number" in refused("decode", folder, "--stream", "core")
    assert "ends at cycle" in refused("at", folder, "--stream", "0x10", "--cycle", "99999999")
    assert "give a time in between" in refused("at", folder, "--time", "5")
    assert "either --cycle" in refused("at", folder)
    assert "is not there" in refused("decode", tmp_path / "nowhere")
    assert "is not there" in refused("at", tmp_path / "nowhere", "--cycle", "5")
    assert "is not there" in refused("decode", tmp_path / "nowhere", "--thread", "5")
    assert "neither a trace" in refused("decode", folder / "trace.ini")
    assert "E-Trace" in refused("decode", folder / "trace.ini")
    assert "are for files of raw bytes" in refused("stats", folder, "--protocol", "PTM")
    assert "names no protocol" in refused("stats", folder / "trace.bin", "--protocol", "x")
    assert "it has no snapshot.ini" in refused("decode", tmp_path)


def test_an_image_must_be_one_and_the_right_one(tmp_path: Path) -> None:
    folder = write(tmp_path / "s")
    (tmp_path / "text").write_text("hello")
    (tmp_path / "cut").write_bytes(b"\x7fELF\1\1\1")
    (tmp_path / "other").write_bytes(b"\x70\x47" * 200)
    assert "neither an ELF program" in refused("decode", folder, "--image", tmp_path / "text")
    assert "damaged ELF" in refused("decode", folder, "--image", tmp_path / "cut")
    assert "little-endian ARM" in refused("decode", folder, "--image", sys.executable)
    assert "is in the program" in refused("decode", folder, "--image", f"{tmp_path / 'other'}@0x1000")
    assert "is no address" in refused("decode", folder, "--image", f"{tmp_path / 'other'}@0x10000000000000000")
    assert "cannot be opened" in refused("decode", folder, "--image", tmp_path / "gone")


def test_a_program_that_is_not_the_one_that_ran_is_noticed(tmp_path: Path) -> None:
    again = STREAM * 12
    folder = write(tmp_path / "s", frames([(0x10, again)]))
    (tmp_path / "other").write_bytes(b"\x70\x47" * 200)
    assert "contradict it" in refused("decode", folder, "--image", f"{tmp_path / 'other'}@{BASE:#x}")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["snapshot", "trace", "cpu", "etm", "stm"]), st.integers(0, 300), st.integers(0, 9), st.binary())
@example("trace", 32, 0, b" ")  # a section becomes part of the value before it
def test_any_ini_files_are_read_or_refused(tmp_path: Path, name: str, at: int, skipped: int, new: bytes) -> None:
    folder = write(tmp_path)
    text = (folder / f"{name}.ini").read_bytes()
    (folder / f"{name}.ini").write_bytes(text[:at] + new + text[at + skipped :])
    words = ""
    try:
        for stream in Capture.open(str(folder)).streams.values():
            list(stream.records())
    except HeadwayError as error:
        words = str(error)
    assert "\n" not in words


def test_a_stream_that_is_something_else_is_refused(tmp_path: Path) -> None:
    noise = frames([(0x10, bytes([0x10, 0x14, 0x12]) * 100)])
    assert "are no packets" in refused("decode", write(tmp_path / "noise", noise))
    plain = frames([(0x10, b"\x84" * 20_000)])
    assert "there is no A-sync" in refused("stats", write(tmp_path / "plain", plain))
