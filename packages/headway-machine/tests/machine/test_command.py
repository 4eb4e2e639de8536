from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import jsonschema
import pytest
from tests import running
from tests.compiling import script
from tests.machine.elves import RAM, WFI, Elf, jump
from tests.machine.examples import EXAMPLES
from tests.machine.programs import leave, loop, program, receive, semihost, send, switch

from headway.views.json import schema
from headway.views.saved import from_documents

pytestmark = pytest.mark.end_to_end

TEXT = b"more than its queue has room for\n"
PROGRAM = program(*switch(0), *loop(500), *send(TEXT), *loop(3000), *leave(3))


def headway(*argv: str | Path, input: bytes = b"", cwd: Path | None = None) -> running.Written:
    return running.headway_bytes("machine", *argv, stdin=input, cwd=cwd)


@pytest.fixture
def elf(tmp_path: Path) -> Path:
    path = tmp_path / "prog.elf"
    path.write_bytes(PROGRAM)
    return path


def test_run_shows_the_threads_and_ends_as_the_program_does(elf: Path) -> None:
    done = headway("run", elf)
    assert done.returncode == 3
    assert done.stdout == TEXT
    lines = done.stderr.decode().splitlines()
    assert lines[0].split()[:6] == ["thread", "RPI", "EPI", "TE", "memory", "extern"]
    assert lines[1].startswith("first ")
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("in cycles, of ") for line in lines)


def test_json_is_what_the_schema_says_and_reads_back(elf: Path) -> None:
    done = headway("run", elf, "--json", "--cores", "2", "--issue", "skip", "--", "x", "-y")
    assert (done.returncode, done.stdout) == (3, TEXT)
    text = done.stderr.decode()
    document = json.loads(text)
    jsonschema.validate(document, schema())
    assert (document["source"], document["unit"], document["time_unit"]) == ("machine", "cycles", "cycles")
    assert (document["command"], document["exit_status"]) == ([str(elf), "x", "-y"], 3)
    assert len(document["processors"]) == 12
    saved = from_documents([text], "out.json")
    assert saved.unit == "cycles"
    assert [t.name for t in saved.threads] == [t["name"] for t in document["threads"]]


def test_verbose_lists_every_state_and_what_was_waited_for(elf: Path) -> None:
    text = headway("run", elf, "-v").stderr.decode()
    assert "poll.uart_tx" in text
    assert "stall.refill" in text
    assert "processor  measured" in text
    assert "stall.refill" not in headway("run", elf).stderr.decode()


def test_two_runs_print_the_same(elf: Path) -> None:
    assert headway("run", elf, "--json").stderr == headway("run", elf, "--json").stderr


@pytest.mark.parametrize(("status", "shown"), [(0, 0), (255, 255), (256, 255), (257, 1), (0x7FFF_FFFF, 255)])
def test_a_status_that_a_process_cannot_have_is_still_a_failure(tmp_path: Path, status: int, shown: int) -> None:
    (tmp_path / "p").write_bytes(program(*leave(status)))
    assert headway("run", tmp_path / "p").returncode == shown


def test_input_is_what_the_uart_receives_and_standard_input_what_the_host_reads(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"abc")
    (tmp_path / "p").write_bytes(program(*receive(3), *loop(1000), *leave(0)))
    assert headway("run", tmp_path / "p", "--input", tmp_path / "in").stdout == b"abc"
    (tmp_path / "q").write_bytes(program(*semihost(0x07, 0), *semihost(0x18, 0x20026)))
    assert headway("run", tmp_path / "q", input=b"x").returncode == 0


def test_the_limit_is_one_sentence_after_the_report(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(program(jump(0)))
    done = headway("run", tmp_path / "p", "--max-cycles", "1000")
    *report, sentence = done.stderr.decode().splitlines()
    assert done.returncode == 125
    assert sentence == f"headway: {tmp_path}/p had not ended after 1000 cycles: give it more with --max-cycles"
    assert report[0].startswith("thread ")


def test_a_standstill_is_one_sentence_after_the_report(tmp_path: Path) -> None:
    (tmp_path / "p").write_bytes(program(WFI, jump(-4)))
    done = headway("run", tmp_path / "p")
    assert done.returncode == 125
    assert b"every hart waits at cycle" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["run", "./missing.elf"], "'./missing.elf' cannot be opened (No such file or directory)"),
        (["run", "six-thread"], "'six-thread' is neither a file nor a program of the machine: give a name that"),
        (["run", "sort.elf"], "headway machine list shows, such as sort"),
        (["run", "\x1b[31m"], "'\\x1b[31m' is neither a file nor a program of the machine"),
        (["run", sys.executable], "is a 64-bit program: the machine has 32 bits"),
        (["run", "prog.elf", "--cores", "17"], "cores is 17: give a whole number from 1 to 16"),
        (
            ["run", "prog.elf", "--config", "missing.toml"],
            "'missing.toml' cannot be opened (No such file or directory): give a configuration",
        ),
        (["run", "prog.elf", "--config", "bad.toml"], "bad.toml: l1d.ways is 3: give a power of two from 1 to 32"),
        (
            ["run", "prog.elf", "--input", "missing"],
            "'missing' cannot be opened (No such file or directory): give a file for uart.input",
        ),
        (["run", "prog.elf", "-o", "/nowhere/x.hw"], "the recording '/nowhere/x.hw' cannot be made"),
        (["run", "prog.elf", "-o", "there.hw"], "the recording 'there.hw' is there already"),
        (["run", "prog.elf", "-o", "out.json"], "'out.json' is not named like one: give NAME.hw"),
        (["run", "prog.elf", "--max-cycles", "-1"], "not in the range"),
        (["run"], "Missing argument 'PROGRAM'"),
        (["show", "--threads", "0"], "threads is 0: give a whole number from 1 to 8"),
        (["walk"], "No such command 'walk'"),
    ],
)
def test_a_mistake_is_one_sentence(elf: Path, argv: list[str], words: str) -> None:
    (elf.parent / "bad.toml").write_text("[l1d]\nways = 3\n")
    (elf.parent / "there.hw").write_text("a file")
    done = headway(*argv, cwd=elf.parent)
    assert done.returncode == 125
    assert words in done.stderr.decode()
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == b""


def test_a_program_of_the_machine_runs_by_its_name_with_the_configuration_that_it_needs(tmp_path: Path) -> None:
    named = headway("run", "uart-interrupt", "--json", cwd=tmp_path)
    path, config = EXAMPLES / "uart-interrupt.elf", EXAMPLES / "uart.toml"
    given = headway("run", path, "--config", config, "--json")
    assert (named.returncode, named.stdout) == (0, given.stdout)
    first, second = json.loads(named.stderr), json.loads(given.stderr)
    assert (first.pop("command"), second.pop("command")) == (["uart-interrupt"], [str(path)])
    assert first == second
    assert named.stdout.endswith(b"uart-interrupt: 21 bytes, 0 wrong\n")


def test_options_change_the_configuration_that_a_program_needs_and_a_file_replaces_it(tmp_path: Path) -> None:
    changed = headway("run", "interrupt-storm", "--cores", "2", "--json")
    assert changed.returncode == 0  # all 500 interrupts came
    assert len(json.loads(changed.stderr)["processors"]) == 12
    (tmp_path / "quiet.toml").write_text("cores = 1\n")
    assert headway("run", "interrupt-storm", "--config", tmp_path / "quiet.toml").returncode == 1


def test_a_program_of_the_machine_comes_before_a_file_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "sort").write_bytes(program(*leave(3)))
    assert headway("run", "sort", cwd=tmp_path).returncode == 0
    assert headway("run", "./sort", cwd=tmp_path).returncode == 3


def test_list_has_every_program_in_80_columns() -> None:
    lines = headway("list").stdout.decode().splitlines()
    assert lines[0].split() == ["program", "threads", "harts", "shows"]
    assert max(map(len, lines)) <= 80
    rows = json.loads(headway("list", "--format", "json").stdout)
    assert [row["program"] for row in rows] == [line.split()[0] for line in lines[1:]]
    assert {(row["program"], row["threads"], row["harts"]) for row in rows} >= {
        ("mutex", 6, "all"),
        ("sort", None, "1"),
    }


def test_a_shell_completes_the_names_of_programs_and_then_files() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from headway.commands import main; main()"],
        env={
            **os.environ,
            "_HEADWAY_COMPLETE": "bash_complete",
            "COMP_WORDS": "headway machine run m",
            "COMP_CWORD": "3",
        },
        capture_output=True,
        check=True,
    )
    found = done.stdout.decode().split()
    assert {"plain,mix", "plain,mutex", "plain,matmul"} < set(found)
    assert found[-1] == "file,m"


def test_show_prints_a_configuration_that_reads_back_as_the_same(tmp_path: Path) -> None:
    first = headway("show", "--cores", "3", "--threads", "4")
    assert tomllib.loads(first.stdout.decode())["cores"] == 3
    (tmp_path / "my.toml").write_bytes(first.stdout)
    assert headway("show", "--config", tmp_path / "my.toml").stdout == first.stdout
    changed = headway("show", "--config", tmp_path / "my.toml", "--issue", "skip").stdout.decode()
    assert tomllib.loads(changed) == tomllib.loads(first.stdout.decode()) | {"issue": "skip"}


def test_a_long_run_shows_on_a_terminal_how_far_it_is_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes(Elf(code=PROGRAM_FOR_EVER, entry=RAM).build())
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*script("progress_shown_at_once"), "machine", "run", path, "--max-cycles", "60000000"],
        stderr=theirs,
        stdout=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(theirs)
    text = b""
    try:
        while piece := os.read(ours, 65536):
            text += piece
    except OSError:  # the terminal's other end was closed
        pass
    os.close(ours)
    assert process.stdout is not None
    process.stdout.close()
    assert process.wait() == 125
    assert b"instructions a second" in text
    assert text.rindex(b"thread") > text.rindex(b"instructions a second")


def test_an_interrupt_ends_the_run_and_not_the_report(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes(program(*send(b"x"), *loop(500), jump(0)))
    process = subprocess.Popen(
        [sys.executable, "-c", "from headway.commands import main; main()", "machine", "run", path],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == b"x"  # it runs
    process.send_signal(signal.SIGINT)
    _, report = process.communicate()
    assert process.returncode == 130
    assert report.startswith(b"thread ")


def test_an_interrupt_ends_a_run_that_waits_for_its_input(tmp_path: Path) -> None:
    path = tmp_path / "p"
    path.write_bytes(program(*send(b"x"), *loop(2_000), *semihost(7, 0), jump(0)))
    process = subprocess.Popen(
        [sys.executable, "-c", "from headway.commands import main; main()", "machine", "run", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == b"x"
    wait_until_it_sleeps(process.pid)
    process.send_signal(signal.SIGINT)
    _, report = process.communicate()
    assert process.returncode == 130
    assert report.startswith(b"thread ")


def wait_until_it_sleeps(pid: int) -> None:
    """Until it waits for its standard input, a pipe that nobody writes to: asleep whenever it is looked at."""
    asleep = 0
    while asleep < 20:
        asleep = asleep + 1 if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S" else 0
        time.sleep(0.01)


PROGRAM_FOR_EVER = b"\x6f\x00\x00\x00"
