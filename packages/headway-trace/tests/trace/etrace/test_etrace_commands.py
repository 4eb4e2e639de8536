"""The commands with traces of E-Trace: of the machine, and of any encoder by a description."""

from __future__ import annotations

import csv
import io
import json
from functools import cache
from pathlib import Path

import pytest
from tests.running import headway as run
from tests.trace.etrace import encoding
from tests.trace.etrace.encoding import packet
from tests.trace.etrace.test_etrace_packets import NOP, RV64, branch

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One run in both formats."""
    folder = tmp_path_factory.mktemp("etrace")
    found = {}
    for form in ("threads", "etrace"):
        found[form] = folder / f"{form}.hwt"
        done = run("machine", "run", "sort", "-q", "--trace", found[form], "--trace-format", form)
        assert done.returncode == 0
    return found


@cache
def rows(path: Path, *more: object) -> list[dict[str, str]]:
    done = run("trace", "decode", path, "--image", "sort", "--format", "csv", *more)
    assert done.returncode == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout)))


def test_both_formats_have_the_same_instructions(traces: dict[str, Path]) -> None:
    first, second = ([row for row in rows(traces[form]) if row["address"]] for form in ("threads", "etrace"))
    same = ("address", "size", "state", "symbol")
    assert [[row[name] for name in same] for row in first] == [[row[name] for name in same] for row in second]
    assert {row["stream"] for row in second} == {"0x0"}


def test_the_table_and_csv_are_the_same(traces: dict[str, Path]) -> None:
    done = run("trace", "decode", traces["etrace"], "--image", "sort", "--format", "json")
    found = json.loads(done.stdout)
    texts = rows(traces["etrace"])
    assert len(found) == len(texts)
    assert [row["address"] for row in found] == [row["address"] for row in texts]
    assert [row["cycle"] for row in found] == [int(row["cycle"]) if row["cycle"] else None for row in texts]


def test_statistics(traces: dict[str, Path]) -> None:
    done = run("trace", "stats", traces["etrace"], "--image", "sort", "--format", "json")
    found = {row["what"]: row["value"] for row in json.loads(done.stdout)}
    assert found["instructions"] == len(rows(traces["etrace"]))
    assert found["contradictions"] == 0
    assert 0 < found["density"] < 2
    without = run("trace", "stats", traces["etrace"], "--format", "json")
    assert {"packet.start", "packet.support"} <= {row["what"] for row in json.loads(without.stdout)}


def test_a_moment_and_the_times(traces: dict[str, Path]) -> None:
    done = run("trace", "at", traces["etrace"], "--image", "sort", "--time", 100_000, "--format", "json")
    (found,) = json.loads(done.stdout)
    assert found["time"] + found["uncertainty"] == 100_000
    assert found["state"] == "executed"
    spans = json.loads(run("trace", "align", traces["etrace"], "--image", "sort", "--format", "json").stdout)
    assert spans[0]["times"] > 1
    assert spans[0]["start"] < spans[0]["end"]


def test_an_export(traces: dict[str, Path], tmp_path: Path) -> None:
    done = run("trace", "export", traces["etrace"], "--image", "sort", "-o", tmp_path / "a.pftrace")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.pftrace").stat().st_size > 1000
    assert "evenly" in done.stderr


def test_a_part_of_it_and_its_instructions_as_text(traces: dict[str, Path]) -> None:
    every = rows(traces["etrace"], "--disassemble")
    assert all(row["instruction"] for row in every if row["size"] != "0")
    first = {row["address"]: row["instruction"] for row in rows(traces["threads"], "--disassemble")}
    assert all(first[row["address"]] == row["instruction"] for row in every if row["address"])
    times = [int(row["cycle"]) for row in every if row["cycle"]]
    begin, end = times[len(times) // 3], times[len(times) // 2]
    part = rows(traces["etrace"], "--disassemble", "--from", begin + 1, "--to", end)
    at = every.index(part[0])
    assert part == every[at : at + len(part)]
    assert int(part[0]["cycle"]) == begin
    assert int(every[at + len(part)]["cycle"]) == end
    assert {row["thread"] for row in every} == {
        row["thread"] for row in rows(traces["etrace"], "--thread", every[0]["thread"])
    }
    assert not [row for row in rows(traces["etrace"], "--thread", 77) if row["address"]]


def test_where_nothing_is_selected_one_sentence_says_what_there_is(traces: dict[str, Path]) -> None:
    for words, says in (
        (("--thread", 77), "has no instruction of thread 77; it has the threads 0"),
        (("--to", 1), "has no instruction before 1; it has the times from "),
    ):
        for style in ("csv", "json"):
            done = run("trace", "decode", traces["etrace"], "--image", "sort", "--format", style, *words)
            assert done.returncode == 0
            assert says in done.stderr
    done = run("trace", "decode", traces["threads"], "--image", "sort", "--from", 1 << 40)
    assert "; it has the times from " in done.stderr


def test_a_trace_beside_a_recording(tmp_path: Path) -> None:
    trace, recording = tmp_path / "s.hwt", tmp_path / "s.hw"
    done = run("machine", "run", "sleepers", "-q", "--trace", trace, "--trace-format", "etrace", "-o", recording)
    assert done.returncode == 0, done.stderr
    done = run("at", recording, 60000, "--trace", trace, "--image", "sleepers", "--format", "json")
    assert done.returncode == 0, done.stderr
    threads = json.loads(done.stdout)
    moments = json.loads(run("trace", "at", trace, "--image", "sleepers", "--time", 60000, "--format", "json").stdout)
    of_harts = {int(one["stream"], 16): one for one in moments}
    assert threads
    for one in threads:
        if one["cpu"] is None:
            assert one["executed_unknown"] == "it had no processor"
            continue
        moment = of_harts[one["cpu"]]
        assert (one["address"], one["executed"]) == (moment["address"], moment["time"])
        assert one["instruction"]
        assert one["executed_uncertainty"] == 0
    early = json.loads(run("at", recording, 0, "--trace", trace, "--image", "sleepers", "--format", "json").stdout)
    assert {one["executed_unknown"] for one in early} <= {None, "unknown.outside", "it had no processor"}
    other = run("at", recording, 60000, "--trace", trace)
    assert other.returncode == 125
    assert "no program is known" in other.stderr


@pytest.fixture
def described(tmp_path: Path) -> Path:
    """A stream of an RV64 program, with its description."""
    code = b"".join(word.to_bytes(4, "little") for word in (NOP, branch(8), NOP, branch(-12), NOP))
    stream = [encoding.support(RV64), encoding.start(RV64, 0x4000_0000, time=5, number=3)]
    stream += [encoding.report(RV64, 16, "tn"), encoding.support(RV64, status=1)]
    (tmp_path / "core.bin").write_bytes(b"".join(packet(*fields) for fields in stream))
    (tmp_path / "prog.bin").write_bytes(code)
    values = "".join(f"{name} = {json.dumps(value)}\n" for name, value in RV64.described().items())
    path = tmp_path / "capture.toml"
    path.write_text(f'[etrace]\nstreams = ["core.bin"]\n{values}')
    return path


def test_a_description_of_any_encoder(described: Path) -> None:
    image = f"{described.parent / 'prog.bin'}@0x40000000"
    done = run("trace", "decode", described, "--image", image, "--format", "csv")
    assert done.stdout.splitlines()[1:] == [
        "0x0,3,5,,0x40000000,4,executed,",
        "0x0,3,,,0x40000004,4,executed,",
        "0x0,3,,,0x4000000c,4,not_executed,",
        "0x0,3,,,0x40000010,4,executed,",
    ]
    assert "no program is known" in run("trace", "decode", described).stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no table"),
        ("[etrace", "no TOML"),
        ("[etrace]\n", "streams"),
        ('[etrace]\nstreams = ["core.bin"]\ntime_width = 99\n', "time_width"),
        ('[etrace]\nstreams = ["core.bin"]\nspeed = 9\n', "no parameter"),
        ('[etrace]\nstreams = ["gone.bin"]\n', "gone.bin"),
    ],
)
def test_what_is_no_description_is_one_sentence(described: Path, text: str, says: str) -> None:
    described.write_text(text)
    done = run("trace", "stats", described)
    assert done.returncode == 125
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("decode",), "no program is known"),
        (("decode", "--image", "mix"), "not the one that was traced"),
        (("at", "--image", "sort", "--cycle", "5"), "--time"),
        (("at", "--image", "sort", "--time", "0"), "begin later"),
        (("decode", "--image", "sort", "--stream", "9"), "no source"),
        (("stats", "--windows"), "E-Trace"),
    ],
)
def test_what_cannot_be_answered_is_said(traces: dict[str, Path], words: tuple[str, ...], says: str) -> None:
    done = run("trace", words[0], traces["etrace"], *words[1:])
    assert done.returncode
    assert says in done.stderr


def test_a_format_needs_a_trace() -> None:
    assert "--trace" in run("machine", "run", "sort", "--trace-format", "etrace").stderr


def test_parameters_that_do_not_fit_are_an_error(described: Path) -> None:
    (described.parent / "prog.bin").write_bytes(bytes(20))  # no instruction in it
    image = f"{described.parent / 'prog.bin'}@0x40000000"
    for words in (("decode",), ("decode", "--format", "csv"), ("stats",)):
        done = run("trace", words[0], described, "--image", image, *words[1:])
        assert (done.returncode, "check the encoder's parameters" in done.stderr) == (125, True), words
        assert done.stdout


def test_stacks_are_the_same_in_both_formats(traces: dict[str, Path], tmp_path: Path) -> None:
    found = []
    for form, path in traces.items():
        done = run("trace", "export", path, "--image", "sort", "--to", "callgrind", "-o", tmp_path / form)
        assert done.returncode == 0, done.stderr
        text = (tmp_path / form).read_text().splitlines()
        own = [tuple(text[at : at + 2]) for at, line in enumerate(text) if line.startswith("fn=")]
        found.append(sorted((name, numbers.split()[1]) for name, numbers in own))
    assert found[0] == found[1]
