"""``headway machine run --trace`` and ``headway trace`` of what it wrote."""

from __future__ import annotations

import csv
import io
import json
import struct
from itertools import pairwise
from pathlib import Path

import pytest
from tests.machine.examples import EXAMPLES
from tests.perfetto import read_back
from tests.running import headway
from tests.trace.threads.runs import Run, run

from headway.binary.lines import LineTable
from headway_machine.config import Config, TraceUnitConfig
from headway_machine.image import MachineImage
from headway_trace.threads.container import COUNTED

pytestmark = pytest.mark.end_to_end

PROGRAM = EXAMPLES / "mutex.elf"
COLUMNS = ["stream", "thread", "cycle", "cycles", "address", "size", "state", "symbol"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "mutex.hwt"
    result = headway("machine", "run", PROGRAM, "--trace", path, "-q", "--cores", 2, "--threads", 3)
    assert result.returncode == 0
    return path


@pytest.fixture(scope="module")
def truth() -> Run:
    config = Config.of(cores=2, threads=3, trace=TraceUnitConfig(enabled=True))
    return run(config, MachineImage.load(PROGRAM), 10_000_000)


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


def test_all_formats_say_the_same() -> None:
    part = EXAMPLES / "sleepers.hwt", "--image", "sleepers", "--thread", 1, "--stalls"
    rows = decoded(*part)
    result = headway("trace", "decode", *part, "--format", "json")
    assert [{k: "" if v is None else str(v) for k, v in row.items()} for row in json.loads(result.stdout)] == rows
    table = headway("trace", "decode", *part).stdout
    assert len(table.splitlines()) == len(rows) + 1


@pytest.mark.parametrize("cycle", [0, 1, 700, 5000, 20_000, 39_999])
def test_at_says_what_everybody_did(recorded: Path, truth: Run, cycle: int) -> None:
    from headway_trace.threads.reading import STATES

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


@pytest.mark.parametrize("tick", [0, 700, 20_000, 39_000])
def test_at_a_tick_is_what_everybody_did_in_the_cycle_of_it(recorded: Path, tick: int) -> None:
    """The clocks of this run are the machine's."""
    shared = "trace", "at", recorded, "--image", PROGRAM, "--format", "json"
    by_tick = json.loads(headway(*shared, "--time", tick).stdout)
    assert by_tick == json.loads(headway(*shared, "--cycle", tick).stdout)
    of_core = json.loads(headway(*shared, "--time", tick, "--stream", 1).stdout)
    assert of_core == [row for row in by_tick if row["stream"] == "0x1"]


def test_at_a_tick_at_which_the_clock_is_stopped_nobody_stalls(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("threads = 1\n[smi]\nat = 20_000\nticks = 300\n")
    path = tmp_path / "my.hwt"
    run_ = headway("machine", "run", "sort", "--config", tmp_path / "my.toml", "--trace", path, "-q")
    assert run_.returncode == 0, run_.stderr
    found = []
    for tick in (19_999, 20_000, 20_299, 20_300):
        (row,) = json.loads(headway("trace", "at", path, "--image", "sort", "--time", tick, "--format", "json").stdout)
        found.append((row["cycle"], row["state"] == "clock.stopped"))
    assert found == [(19_999, False), (20_000, True), (20_000, True), (20_000, False)]


def test_after_its_last_cycle_a_thread_is_not_traced_any_more(recorded: Path, truth: Run) -> None:
    """The threads of a core in strict turn do not end in the same cycle; nothing has been damaged for that."""
    last = max(cycle + n - 1 for hart in range(3) for cycle, n, _, _ in truth.log[hart])
    result = headway("trace", "at", recorded, "--image", PROGRAM, "--cycle", last, "--format", "json")
    states = [row["state"] for row in json.loads(result.stdout)]
    assert "unknown.trace_off" in states
    assert "unknown.damage" not in states


def test_where_no_thread_was_traced_no_cycle_can_be_asked_for(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("[trace]\nstart = false\n")
    path = tmp_path / "my.hwt"
    run_ = headway("machine", "run", EXAMPLES / "sort.elf", "--config", tmp_path / "my.toml", "--trace", path, "-q")
    assert run_.returncode == 0, run_.stderr
    assert "at any cycle" in refused("trace", "at", path, "--image", EXAMPLES / "sort.elf", "--cycle", 0)


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
    assert "give --time" in refused("trace", "at", recorded, "--image", PROGRAM)
    assert "not both" in refused("trace", "at", recorded, "--image", PROGRAM, "--time", 5, "--cycle", 5)
    assert "is from tick 0 to " in refused("trace", "at", recorded, "--image", PROGRAM, "--time", 1 << 40)
    assert "no stream 0x7" in refused("trace", "at", recorded, "--image", PROGRAM, "--time", 5, "--stream", 7)
    assert "cannot be opened" in refused("trace", "stats", recorded, "--image", tmp_path / "missing.elf")
    assert "cannot be written" in refused("machine", "run", PROGRAM, "--trace", tmp_path)


def test_a_trace_that_was_cut_off_says_so(recorded: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.hwt"
    path.write_bytes(recorded.read_bytes()[:-1200])
    result = headway("trace", "decode", path, "--image", PROGRAM, "--format", "csv")
    assert result.returncode == 0
    assert "was cut off" in result.stderr
    assert "unknown.cut_off" in result.stdout


def test_the_trace_that_comes_with_headway_is_what_a_run_writes_now(tmp_path: Path) -> None:
    again = tmp_path / "sleepers.hwt"
    assert headway("machine", "run", EXAMPLES / "sleepers.elf", "--trace", again, "-q").returncode == 0
    assert again.read_bytes() == (EXAMPLES / "sleepers.hwt").read_bytes()
    arguments = EXAMPLES / "sleepers.hwt", "--image", EXAMPLES / "sleepers.elf", "--cycle", 45000
    assert headway("trace", "at", *arguments).returncode == 0


@pytest.mark.exhaustive  # only make test-all has Perfetto's reader
def test_export_writes_a_file_that_perfetto_reads(recorded: Path, tmp_path: Path) -> None:
    out = tmp_path / "mutex.pftrace"
    assert headway("trace", "export", recorded, "--image", PROGRAM, "--to", "perfetto", "-o", out).returncode == 0
    slices, tracks = read_back(out.read_bytes())
    assert len(slices) > 100
    assert len(tracks) == 2 * (1 + 3)


def test_an_export_is_never_written_over_what_it_reads(recorded: Path, tmp_path: Path) -> None:
    before = recorded.read_bytes()
    assert "over or into" in refused("trace", "export", recorded, "--image", PROGRAM, "-o", recorded)
    assert recorded.read_bytes() == before
    assert "cannot be written" in refused("trace", "export", recorded, "--image", PROGRAM, "-o", tmp_path)


def test_what_is_refused_leaves_the_file_that_is_there(recorded: Path, tmp_path: Path) -> None:
    out = tmp_path / "mutex.pftrace"
    out.write_bytes(b"precious")
    assert "--image" in refused("trace", "export", recorded, "-o", out)
    assert "neither a trace" in refused("trace", "export", PROGRAM, "-o", out)
    assert out.read_bytes() == b"precious"


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


def test_align_says_how_each_clock_ran(recorded: Path, truth: Run) -> None:
    result = headway("trace", "align", recorded, "--format", "json")
    found = json.loads(result.stdout)
    assert [row["stream"] for row in found] == ["0x0", "0x1"]
    assert {(row["changes"], row["cycles_per_tick"], row["offset"]) for row in found} == {(0, 1.0, 0)}
    last = max(cycle + n for log in truth.log.values() for cycle, n, _, _ in log)
    assert last - 3 <= max(row["end"] for row in found) <= last


def test_align_gives_each_instruction_its_tick() -> None:
    traced = EXAMPLES / "sleepers.hwt", "--image", "sleepers"
    titles, *found = csv.reader(
        io.StringIO(headway("trace", "align", *traced, "--instructions", "--format", "csv").stdout)
    )
    assert titles == ["stream", "thread", "time", "uncertainty", *COLUMNS[3:]]
    _, *rows = csv.reader(io.StringIO(headway("trace", "decode", *traced, "--format", "csv").stdout))
    time, cycle = titles.index("time"), COLUMNS.index("cycle")
    address, known = titles.index("address"), COLUMNS.index("address")
    assert [(row[time], row[address]) for row in found] == [(row[cycle], row[known]) for row in rows]
    assert {row[time + 1] for row in found if row[time]} == {"0"}


def test_a_tick_is_not_called_exact_where_a_change_of_the_clock_may_be_missing(tmp_path: Path) -> None:
    sound = (EXAMPLES / "sleepers.hwt").read_bytes()
    (tmp_path / "damaged.hwt").write_bytes(sound[:9000] + bytes(range(64)) + sound[9064:])
    arguments = "--image", EXAMPLES / "sleepers.elf", "--instructions", "--format", "csv"
    result = headway("trace", "align", tmp_path / "damaged.hwt", *arguments)
    assert {row["uncertainty"] for row in csv.DictReader(io.StringIO(result.stdout))} == {""}


def test_at_shows_lines_where_the_program_has_them(recorded: Path, tmp_path: Path) -> None:
    """Without symbols and lines it is still the program that was traced."""
    bare = bytearray(PROGRAM.read_bytes())
    struct.pack_into("<I", bare, 32, 0)  # e_shoff, and then e_shnum and e_shstrndx: no sections
    struct.pack_into("<HH", bare, 48, 0, 0)
    (tmp_path / "bare.elf").write_bytes(bare)
    lines = LineTable(PROGRAM.read_bytes())
    for program, has_lines in ((PROGRAM, True), (tmp_path / "bare.elf", False)):
        result = headway("trace", "at", recorded, "--image", program, "--cycle", 20_000, "--format", "json")
        found = [row for row in json.loads(result.stdout) if row["address"]]
        assert found
        for row in found:
            line = lines.at(int(row["address"], 16))
            assert line.partition(":")[0].endswith((".c", ".h", ".S"))
            assert row["line"] == (line if has_lines else "")
            assert bool(row["symbol"]) == has_lines or not row["symbol"]


def test_stats_show_each_window_of_the_profile(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("[trace]\nwindow = 5000\n")
    path = tmp_path / "a.hwt"
    arguments = "--config", tmp_path / "my.toml", "--trace", path, "-q", "--cores", 2
    assert headway("machine", "run", PROGRAM, *arguments).returncode == 0
    found = json.loads(headway("trace", "stats", path, "--windows", "--format", "json").stdout)
    assert list(found[0])[2:] == list(COUNTED)
    assert {row["stream"] for row in found} == {"0x0", "0x1"}
    for core in ("0x0", "0x1"):
        ends = [row["cycle"] for row in found if row["stream"] == core]
        assert ends == sorted(ends)
        assert all(end % 5000 == 0 for end in ends[:-1])
    sums = {(row["stream"], row["what"]): row["value"] for row in json.loads(stats(path))}
    for name in COUNTED:
        for core in ("0x0", "0x1"):
            assert sums[core, f"profile.{name}"] == sum(row[name] for row in found if row["stream"] == core)
    table = headway("trace", "stats", path, "--windows").stdout.splitlines()
    assert len(table) == len(found) + 1
    assert max(map(len, table)) <= 80
    assert "no windows" in refused("trace", "stats", EXAMPLES / "sleepers.hwt", "--windows")


def stats(path: Path) -> str:
    return headway("trace", "stats", path, "--format", "json").stdout


def test_windows_have_the_counters_that_were_configured(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(
        "[trace]\nwindow = 5000\n[[trace.counters]]\nsource = 'instructions'\n"
        "[[trace.counters]]\nsource = 'dependency_stall_cycles'\nharts = 2\n"
    )
    path = tmp_path / "a.hwt"
    assert headway("machine", "run", PROGRAM, "--config", tmp_path / "my.toml", "--trace", path, "-q").returncode == 0
    found = json.loads(headway("trace", "stats", path, "--windows", "--format", "json").stdout)
    assert list(found[0]) == ["stream", "cycle", "instructions", "dependency_stall_cycles@0x2"]
    sums = {row["what"]: row["value"] for row in json.loads(stats(path)) if row["what"].startswith("profile.")}
    assert sums.keys() == {"profile.windows", "profile.instructions", "profile.dependency_stall_cycles@0x2"}
    table = headway("trace", "stats", path, "--windows").stdout.splitlines()
    assert table[0].split() == ["stream", "cycle", "instructions", "data_stalls@0x2"]


def test_a_program_of_the_machine_is_given_by_its_name(tmp_path: Path) -> None:
    trace = EXAMPLES / "sleepers.hwt"
    assert decoded(trace, "--image", "sleepers") == decoded(trace, "--image", EXAMPLES / "sleepers.elf")
    assert "not the one that was traced" in refused("trace", "decode", trace, "--image", "sort")
    assert "cannot be opened" in refused("trace", "decode", trace, "--image", "./sleepers")
    assert headway("trace", "export", trace, "--image", "sleepers", "-o", tmp_path / "s.pftrace").returncode == 0


def test_what_was_mended_is_counted_and_costs_nothing(tmp_path: Path) -> None:
    sound = (EXAMPLES / "sleepers.hwt").read_bytes()
    arguments = "--image", EXAMPLES / "sleepers.elf"
    (tmp_path / "a.hwt").write_bytes(sound[:9000] + bytes([sound[9000] ^ 8]) + sound[9001:])
    stats = json.loads(headway("trace", "stats", tmp_path / "a.hwt", "--format", "json").stdout)
    assert [tuple(row.values()) for row in stats if row["stream"] == "all"] == [("all", "file.repaired", "chunks", 1)]
    assert decoded(tmp_path / "a.hwt", *arguments) == decoded(EXAMPLES / "sleepers.hwt", *arguments)


def test_what_was_mended_of_segments_is_counted_and_costs_nothing(tmp_path: Path) -> None:
    sound = bytearray((EXAMPLES / "sleepers.hwt").read_bytes())
    arguments = "--image", EXAMPLES / "sleepers.elf"
    for at in (6000, 9000):  # too far apart to be repaired as a chunk
        sound[at] ^= 8
    (tmp_path / "a.hwt").write_bytes(sound)
    stats = json.loads(headway("trace", "stats", tmp_path / "a.hwt", "--format", "json").stdout)
    assert [(row["value"], row["unit"]) for row in stats if row["what"] == "mended"] == [(2, "bits")]
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


def documented() -> list[str]:
    text = (Path(__file__).parents[3] / "docs" / "trace.md").read_text()
    return [
        line.partition("   ")[0] for line in text.splitlines() if line.startswith("headway trace") and ".hwt" in line
    ]


@pytest.mark.parametrize("command", documented())
def test_what_is_documented_works_on_the_trace_that_comes_with_headway(command: str, tmp_path: Path) -> None:
    words = command.replace("s.pftrace", str(tmp_path / "s.pftrace")).split()[1:]
    result = headway(*[str(EXAMPLES / word) if word.startswith("sleepers.") else word for word in words])
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout or (tmp_path / "s.pftrace").stat().st_size


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        (b"", "is empty"),
        (b"text", "neither a trace"),
        (b"HWTRACE\x02", "does not describe its machine"),
        (b"HWTRACE\x0c" + bytes(20), "version 12"),
        (b"HWTRACE\x04" + bytes(20), "does not describe its machine"),
        (b"HWTRACE\x02\xff\x02\x00\x00\x00{}", "missing or impossible"),
        (b"HWTRACE\x02\xff\x02\x00\x00\x00{", "no JSON"),
    ],
)
@pytest.mark.parametrize(
    "command", [("decode",), ("stats", "--windows"), ("align",), ("at", "--cycle", "1"), ("export", "-o")]
)
def test_what_is_no_trace_is_refused_by_every_command(
    tmp_path: Path, contents: bytes, words: str, command: tuple[str, ...]
) -> None:
    path = tmp_path / "a.hwt"
    path.write_bytes(contents)
    arguments = [*command, tmp_path / "out"] if command[-1] == "-o" else command
    assert words in refused("trace", arguments[0], path, *arguments[1:])
    assert not (tmp_path / "out").exists()


def test_each_counter_of_a_profile_is_there_also_if_two_have_one_source(tmp_path: Path) -> None:
    counters = "".join(
        f'[[trace.counters]]\nsource = "instructions"\nharts = {harts:#x}\n' for harts in (0x1, 0x6, 0xFF, 0x6)
    )
    (tmp_path / "my.toml").write_text("[trace]\nwindow = 5000\n" + counters)
    path = tmp_path / "a.hwt"
    arguments = "--config", tmp_path / "my.toml", "--trace", path, "-q", "--cores", 1, "--threads", 3
    assert headway("machine", "run", PROGRAM, *arguments).returncode == 0
    names = ["instructions@0x1", "instructions@0x6", "instructions", "instructions@0x6#2"]
    titles, *found = csv.reader(io.StringIO(headway("trace", "stats", path, "--windows", "--format", "csv").stdout))
    assert titles[2:] == names
    for row in found:
        first, second, both, again = map(int, row[2:])
        assert first + second == both
        assert second == again
    sums = {row["what"]: (row["value"], row["unit"]) for row in json.loads(stats(path))}
    for at, name in enumerate(names, 2):
        assert sums[f"profile.{name}"] == (sum(int(row[at]) for row in found), "instructions")


def test_what_a_trace_buffer_has_overwritten_is_not_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text("[trace]\nbuffer = 1024\n")
    path = tmp_path / "a.hwt"
    assert headway("machine", "run", PROGRAM, "--config", tmp_path / "my.toml", "--trace", path, "-q").returncode == 0
    found = {row["what"]: row["value"] for row in json.loads(stats(path))}
    assert 0 < found["before the first A-sync"] < 2048
    assert "damaged" not in found


def test_the_table_of_a_moment_fits_a_page_and_has_no_empty_columns(recorded: Path) -> None:
    arguments = "trace", "at", recorded, "--image", PROGRAM, "--cycle", 20_000
    table = headway(*arguments).stdout.splitlines()
    assert max(map(len, table)) <= 80
    assert "trigger" not in table[0]
    assert "trigger" in json.loads(headway(*arguments, "--format", "json").stdout)[0]
