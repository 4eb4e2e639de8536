"""``headway machine run --trace`` and ``headway trace`` of what it wrote."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from tests.machine.examples import EXAMPLES
from tests.trace.threads.runs import Run, run

from headway.machine.config import Config, Trace
from headway.machine.image import Image

PROGRAM = EXAMPLES / "mutex.elf"
COLUMNS = ["stream", "thread", "cycle", "cycles", "address", "size", "state", "symbol"]


def headway(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from headway.commands import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "mutex.hwt"
    result = headway("machine", "run", PROGRAM, "--trace", path, "-q", "--cores", 2, "--threads", 3)
    assert result.returncode == 0
    return path


@pytest.fixture(scope="module")
def truth() -> Run:
    config = Config.of(cores=2, threads=3, trace=Trace(enabled=True))
    return run(config, Image.load(PROGRAM), 10_000_000)


def decoded(*arguments: object) -> list[dict[str, str]]:
    result = headway("trace", "decode", *arguments, "--format", "csv")
    assert result.returncode == 0, result.stderr
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert list(rows[0]) == COLUMNS
    return rows


def test_decode_prints_every_instruction_with_its_cycle(recorded: Path, truth: Run) -> None:
    rows = decoded(recorded, "--image", PROGRAM)
    for hart in range(6):
        mine = [row for row in rows if row["thread"] == str(hart) and row["size"] != "0"]
        executed = [(cycle + 2, address) for cycle, _, address, what in truth.log[hart] if what in (16, 17)]
        assert [(int(row["cycle"]), int(row["address"], 16)) for row in mine] == executed
        assert {row["stream"] for row in mine} <= {hex(hart // 3)}
        for before, after in pairwise(mine):
            assert int(after["cycle"]) - int(before["cycle"]) == int(after["cycles"])


def test_all_formats_say_the_same(recorded: Path) -> None:
    rows = decoded(recorded, "--image", PROGRAM, "--stream", "1", "--stalls")
    result = headway("trace", "decode", recorded, "--image", PROGRAM, "--stream", 1, "--stalls", "--format", "json")
    assert [{k: "" if v is None else str(v) for k, v in row.items()} for row in json.loads(result.stdout)] == rows
    table = headway("trace", "decode", recorded, "--image", PROGRAM, "--stream", 1, "--stalls").stdout
    assert len(table.splitlines()) == len(rows) + 1


@pytest.mark.parametrize("cycle", [0, 1, 700, 5000, 20_000, 39_999])
def test_at_says_what_everybody_did(recorded: Path, truth: Run, cycle: int) -> None:
    from headway.trace.threads.reading import STATES

    result = headway("trace", "at", recorded, "--image", PROGRAM, "--cycle", cycle, "--format", "json")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)
    assert [row["thread"] for row in rows] == list(range(6))
    for row in rows:
        true: list[tuple[str | None, str]] = [
            (f"{address:#010x}", STATES[what])
            for start, n, address, what in truth.log[row["thread"]]
            if start <= cycle < start + n
        ]
        assert [(row["address"], row["state"])] == (true or [(None, "unknown.trace_off")])


def test_stats_count_packets_and_instructions(recorded: Path, truth: Run) -> None:
    result = headway("trace", "stats", recorded, "--image", PROGRAM, "--format", "json")
    found = {(row["stream"], row["what"]): row["value"] for row in json.loads(result.stdout)}
    total = sum(found[stream, "instructions"] for stream in ("0x0", "0x1"))
    assert total == sum(what in (16, 17) for log in truth.log.values() for *_, what in log)
    assert found["0x0", "size"] == len(truth.streams[0])
    assert headway("trace", "stats", recorded).returncode == 0


def refused(*arguments: object) -> str:
    result = headway(*arguments)
    assert result.returncode == 125
    assert "Traceback" not in result.stderr
    return result.stderr.strip()


def test_what_cannot_be_answered_is_one_sentence(recorded: Path, tmp_path: Path) -> None:
    assert "--image" in refused("trace", "decode", recorded)
    assert "not the one that was traced" in refused("trace", "decode", recorded, "--image", EXAMPLES / "sort.elf")
    assert "no stream 0x7" in refused("trace", "decode", recorded, "--image", PROGRAM, "--stream", 7)
    assert "give one from 0" in refused("trace", "at", recorded, "--image", PROGRAM, "--cycle", 1 << 40)
    assert "--cycle" in refused("trace", "at", recorded, "--image", PROGRAM, "--time", 5)
    assert "cannot be opened" in refused("trace", "stats", recorded, "--image", tmp_path / "missing.elf")
    assert "cannot be written" in refused("machine", "run", PROGRAM, "--trace", tmp_path)


def test_a_trace_that_was_cut_off_says_so(recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.hwt"
    path.write_bytes(recorded.read_bytes()[:-400])
    result = headway("trace", "decode", path, "--image", PROGRAM, "--format", "csv")
    assert result.returncode == 0
    assert "was cut off" in result.stderr
    assert "unknown.cut_off" in result.stdout


def test_clocks_of_cores_are_laid_over_each_other(tmp_path: Path) -> None:
    from headway.trace.threads.clock import Clock

    clock = Clock([(0, 0, 16, 1024), (100, 100, 8, 1024), (200, 300, 16, 512)], 1000, 1024)
    for cycle in range(600):
        assert clock.cycle(clock.tick(cycle)) == cycle
    assert [clock.tick(cycle) for cycle in (99, 100, 101, 200, 711, 712)] == [99, 100, 102, 300, 811, 1324]


def test_the_trace_that_comes_with_headway_is_what_a_run_writes_now(tmp_path: Path) -> None:
    again = tmp_path / "sleepers.hwt"
    assert headway("machine", "run", EXAMPLES / "sleepers.elf", "--trace", again, "-q").returncode == 0
    assert again.read_bytes() == (EXAMPLES / "sleepers.hwt").read_bytes()
    arguments = EXAMPLES / "sleepers.hwt", "--image", EXAMPLES / "sleepers.elf", "--cycle", 45000
    assert headway("trace", "at", *arguments).returncode == 0


def test_export_writes_a_file_and_only_of_the_machine(recorded: Path, tmp_path: Path) -> None:
    out = tmp_path / "mutex.pftrace"
    assert headway("trace", "export", recorded, "--image", PROGRAM, "--to", "perfetto", "-o", out).returncode == 0
    assert out.stat().st_size > 1000
    assert "not a trace of the machine" in refused("trace", "export", PROGRAM, "-o", out)


def test_a_trace_without_cycles_has_instructions_but_no_times(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("[trace]\ncycle_accurate = false\n")
    path = tmp_path / "a.hwt"
    assert headway("machine", "run", PROGRAM, "--config", tmp_path / "my.toml", "--trace", path, "-q").returncode == 0
    rows = decoded(path, "--image", PROGRAM)
    assert {(row["cycle"], row["cycles"]) for row in rows if row["size"] != "0"} == {("", "")}
    for command in (("at", "--cycle", 5), ("export", "-o", tmp_path / "x")):
        assert "counts no cycles" in refused("trace", command[0], path, "--image", PROGRAM, *command[1:])


def test_what_no_check_vouches_for_is_not_called_damaged(tmp_path: Path) -> None:
    sound = (EXAMPLES / "sleepers.hwt").read_bytes()
    (tmp_path / "damaged.hwt").write_bytes(sound[:9000] + bytes(100) + sound[9100:])
    said = headway("trace", "stats", EXAMPLES / "sleepers.hwt").stdout
    assert ("damaged" in said, "after the last A-sync" in said) == (False, True)
    assert "damaged" in headway("trace", "stats", tmp_path / "damaged.hwt").stdout


def test_what_was_mended_is_counted_and_costs_nothing(tmp_path: Path) -> None:
    sound = (EXAMPLES / "sleepers.hwt").read_bytes()
    arguments = "--image", EXAMPLES / "sleepers.elf"
    (tmp_path / "a.hwt").write_bytes(sound[:9000] + bytes([sound[9000] ^ 8]) + sound[9001:])
    stats = json.loads(headway("trace", "stats", tmp_path / "a.hwt", "--format", "json").stdout)
    assert [(row["value"], row["unit"]) for row in stats if row["what"] == "mended"] == [(1, "bits")]
    assert decoded(tmp_path / "a.hwt", *arguments) == decoded(EXAMPLES / "sleepers.hwt", *arguments)


def test_a_gap_says_which_bytes_it_comes_from(tmp_path: Path) -> None:
    sound = (EXAMPLES / "sleepers.hwt").read_bytes()
    (tmp_path / "a.hwt").write_bytes(sound[:9000] + bytes(100) + sound[9100:])
    rows = decoded(tmp_path / "a.hwt", "--image", EXAMPLES / "sleepers.elf")
    gaps = [row["state"] for row in rows if row["state"].startswith("unknown.damage")]
    assert gaps
    # In the file its header and the chunk's are before the stream.
    ahead = sound.index(b"\0\0\0\0\0\x80\x42")
    for gap in gaps:
        start, end = map(int, gap.removeprefix("unknown.damage[").removesuffix("]").split(":"))
        assert start <= 9000 - ahead < 9100 - ahead < end
        assert end - start < 2000


def test_stats_add_up_the_profile(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("[trace]\nwindow = 500\n")
    path = tmp_path / "a.hwt"
    assert headway("machine", "run", PROGRAM, "--config", tmp_path / "my.toml", "--trace", path, "-q").returncode == 0
    result = headway("trace", "stats", path, "--image", PROGRAM, "--format", "json")
    found = {row["what"]: row["value"] for row in json.loads(result.stdout)}
    assert found["profile.windows"] == found["packet.profile"] > 0
    assert found["profile.stall_cycles"] >= found["profile.data_cache_stall_cycles"] > 0
