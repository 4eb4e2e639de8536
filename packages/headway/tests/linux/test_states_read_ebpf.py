"""What threads read by state, of themselves and of each other, is what the report says; nobody else reads it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compiling import Compile

import headway
from headway.linux.options import MeasureOptions
from headway.linux.sources.ebpf.publication import SOCKET

from .measuring import measure

pytestmark = [pytest.mark.kernel, pytest.mark.root]

NOBODY = "setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all"


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the observer publishes, and its programs ask."""
    with tempfile.TemporaryDirectory(prefix="hw") as path:
        os.chmod(path, 0o755)
        monkeypatch.setenv(SOCKET, f"{path}/progress")
        yield Path(path)


def test_a_program_reads_its_states_its_threads_and_no_time_that_goes_back(compile_c: Compile, folder: Path) -> None:
    ledger, words = measure(compile_c("own_states"), "0.5", options=MeasureOptions(publish=True))
    lines = " ".join(words).replace(" state ", "\nstate ").replace(" thread ", "\nthread ").splitlines()
    assert words[:4] == ["back", "0", "wrong", "0"]
    told = {
        name: (int(time), int(count)) for _, name, time, count in (x.split() for x in lines if x.startswith("state"))
    }
    threads = [line.split()[1:] for line in lines if line.startswith("thread")]
    main = next(thread for thread in ledger.threads if thread.tid == thread.pid)
    for name in ("wait.sleep", "kernel.getppid", "user.render", "noneffective.gc", "poll.ring"):
        said = main.states[name]
        assert said.count is not None
        assert told[name][1] <= said.count
        assert told[name][0] <= said.time, f"{name}: what it read is not more than it was"
        assert told[name][0] > said.time * 0.8, name
    assert told["wait.sleep"] == (main.states["wait.sleep"].time, main.states["wait.sleep"].count), "exact"
    assert {name for _, _, name, *_ in threads} == {"own_states", "sleeper"}
    assert {int(tid) for _, tid, *_ in threads} == {thread.tid for thread in ledger.threads}
    for _, tid, name, running, rpi, wait in threads:
        whole = next(thread for thread in ledger.threads if thread.tid == int(tid))
        assert whole.span is not None
        assert 0 < int(rpi) <= whole.span
        assert 0 < int(wait) <= whole.span
        assert name != "own_states" or running == "1"


@pytest.mark.parametrize("everybody", [False, True])
def test_a_process_reads_those_of_its_user_and_all_only_by_right(
    compile_c: Compile, folder: Path, everybody: bool
) -> None:
    program = folder / "program"
    program.write_bytes(compile_c("own_states").read_bytes())
    program.chmod(0o755)
    mine, theirs = f"{program} 0.3 mine 0.5", f"{NOBODY} {program} 0.3 theirs 0.5 | sed 's/^/-/'"
    options = MeasureOptions(publish=True, publish_all=everybody)
    _, words = measure("sh", "-c", f"{mine} & {theirs} & wait", options=options)
    found = [words[i : i + 4] for i, word in enumerate(words) if word in ("thread", "-thread")]
    mine_reads = {name for who, _, _, name in found if who == "thread"} - {"sleeper"}
    theirs_reads = {name for who, _, _, name in found if who == "-thread"} - {"sleeper"}
    if everybody:
        assert {"mine", "theirs"} <= mine_reads & theirs_reads
    else:
        assert "mine" in mine_reads
        assert "theirs" not in mine_reads
        assert theirs_reads == {"theirs"}
    assert any(own == "0" for _, own, _, _ in found), "threads of other processes are read too"


EXAMPLES = Path(__file__).parents[2] / "examples" / "progress"


def test_the_example_reports_progress_instead_of_time(tmp_path: Path, folder: Path) -> None:
    harness = tmp_path / "harness.py"
    shutil.copy(EXAMPLES / "harness.py", harness)
    _, words = measure(sys.executable, harness, "0.3", options=MeasureOptions(publish=True))
    figures = re.findall(r"(\w+) EPI ([0-9.]+) µs RPI ([0-9.]+) µs time ([0-9.]+) µs", " ".join(words))
    assert [name for name, *_ in figures] == ["parse", "look_at_files", "wait_a_little"]
    for _, epi, rpi, took in figures:
        assert 0 < float(epi) < float(rpi) < float(took) + 0.02
    alone = subprocess.run([sys.executable, harness, "0"], capture_output=True, text=True, check=True, timeout=100)
    assert alone.stdout.count("nobody tells its progress") == 3
    tests: list[str | Path] = [sys.executable, "-m", "pytest", "--headway", "--headway-source", "proc", harness]
    tests += ["-p", "no:cacheprovider", "-c", os.devnull]
    done = subprocess.run(tests, capture_output=True, text=True, check=True, timeout=200, cwd=tmp_path)
    assert "harness.py::test_parse" in done.stdout.partition("effective progress")[2]


def built(name: str, folder: Path) -> Path:
    """An example, compiled as its first lines say."""
    include = f"-I{headway.get_include()}"
    source, program = EXAMPLES / f"{name}.c", folder / name
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-pthread", include, source, "-o", program], check=True)
    return program


def test_the_example_stands_back_while_others_are_ready(tmp_path: Path, folder: Path) -> None:
    _, words = measure(built("yielding", tmp_path), "0.4", options=MeasureOptions(publish=True))
    goes_on, stands_back = (float(n) for n in re.findall(r"the collector worked ([0-9.]+) %", " ".join(words)))
    assert stands_back < goes_on


def test_the_example_shares_time_by_progress(tmp_path: Path, folder: Path) -> None:
    _, words = measure(built("pool", tmp_path), "0.4", options=MeasureOptions(publish=True))
    by_turns, by_progress = (float(n) for n in re.findall(r"the most is ([0-9.]+) times", " ".join(words)))
    assert by_progress < by_turns
    assert by_progress < 1.2
