"""``headway stat``: bad input, faults, and that the command measured does not notice it."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.compiling import Compile, script
from tests.effort import FEW
from tests.running import Done, headway

from headway.linux.sources.choose import may_use_bpf
from headway.session import measure
from headway.views.json import schema

HEADWAY = [sys.executable, "-c", "from headway.commands import main; main()"]
STAT = [*HEADWAY, "stat"]
SOURCES = [pytest.param("bpf", marks=pytest.mark.root), "proc"]
"""Each test with one of them runs with both, where that is possible."""
WITHOUT_PRIVILEGES = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"]
each_source = pytest.mark.parametrize("source", SOURCES)
rather_proc = pytest.mark.parametrize(
    "source", [pytest.param("bpf", marks=[pytest.mark.root, pytest.mark.exhaustive]), "proc"]
)
"""What the source is has little to do with it."""


def run(*words: str | Path) -> Done:
    return headway("stat", *words)


def run_process(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """The same in a process of its own, where the end of the process is the subject."""
    done = subprocess.run([*STAT, *map(str, words)], capture_output=True, text=True, timeout=120, **options)
    assert "Traceback" not in done.stderr
    return done


def refused(done: Done | subprocess.CompletedProcess[str], status: int, *words: str) -> None:
    """One sentence on standard error with these words, nothing else, and this exit status."""
    assert done.returncode == status, done.stderr
    assert done.stderr.startswith("headway: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


@cache
def validator() -> Any:
    """Of the schema, which is checked itself, and compiled, once."""
    jsonschema.Draft202012Validator.check_schema(schema())
    return jsonschema.Draft202012Validator(schema())


def checked(report: Path | str) -> list[dict[str, Any]]:
    """The documents of a report: each valid, each with times that add up."""
    text = report.read_text() if isinstance(report, Path) else report
    documents = [json.loads(line) for line in text.splitlines()]
    for document in documents:
        validator().validate(document)
        for thread in document["threads"]:
            end = document["window"]["end"] if thread["end"] is None else thread["end"]
            total = sum(state["time"] for state in thread["states"])
            assert total == end - thread["start"] or document["source"] == "proc"
        for processor in document["processors"]:
            assert sum(state["time"] for state in processor["states"]) == document["window"]["duration"]
    assert documents
    return documents


def names(document: dict[str, Any]) -> list[str]:
    return sorted(thread["name"] for thread in document["threads"])


def wait_for(path: Path, process: subprocess.Popen[str] | None = None) -> None:
    """Until a file is there, which this process makes."""
    deadline = time.monotonic() + 200
    while not path.exists():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"{path.name} never came"
        time.sleep(0.02)


# ---- bad input ----


@pytest.mark.parametrize(
    ("option", "values", "words"),
    [
        ("-I", ("x", "-5", "0", "9", "1e3", "nan", "inf", ""), "no length of time"),
        ("-d", ("x", "-1", "0", "0.0000001", "nan", "99999999999", ""), "no length of time"),
        ("-C", ("x", "0-", "-1", "0,,1", "1-0", "99999", ""), "processors"),
        ("-p", ("x", "0", "-1", "1,", "99999999999", "1 2", ""), "no list of ids"),
        ("-p", ("4194305", "4294967297"), "they go up to"),
        ("-t", ("x", "0", "1,,2", ""), "no list of ids"),
        ("--name", ("", "*", "a*b", "1234567890123456"), "no thread's name"),
        ("-n", ("0", "x"), "Invalid value"),
        ("--source", ("x",), "Invalid value"),
    ],
)
def test_nonsense_is_refused_in_one_sentence(option: str, values: tuple[str, ...], words: str) -> None:
    for value in values:
        refused(run("-d", "0.1", option, value, *([] if option in ("-p", "-t") else ["--", "true"])), 125, words)


def test_contradictions_and_nothing_to_measure_are_refused() -> None:
    refused(run(), 125, "say what to measure")
    refused(run("-p", str(os.getpid()), "--", "true"), 125, "not both")
    refused(run("--bogus"), 125, "--bogus")


@each_source
def test_what_is_not_there_is_said(source: str) -> None:
    refused(run("--source", source, "-p", "4194303", "-d", "1"), 125, "no process 4194303")
    refused(run("--source", source, "-t", "4194303", "-d", "1"), 125, "no thread 4194303")
    refused(run("--source", source, "--cgroup", "/no/such/group", "-d", "1"), 125, "no cgroup")


@pytest.mark.root
def test_processors_and_cgroups_that_do_not_exist_are_refused() -> None:
    refused(run("--source", "bpf", "-C", "4095", "-d", "1"), 125, "no processor 4095")
    refused(run("--source", "bpf", "--cgroup", "/proc", "-d", "1"), 125, "cgroup v2")


@rather_proc
def test_every_id_that_was_given_is_measured(source: str, tmp_path: Path) -> None:
    sleeps = [subprocess.Popen(["sleep", "600"]) for _ in range(3)]
    try:
        first, second, third = (str(sleep.pid) for sleep in sleeps)
        ids = ["-p", first, "-p", f"{second},{third}", "-p", first]
        done = run("--source", source, *ids, "-d", "0.1", "--json", "-o", tmp_path / "out")
    finally:
        for sleep in sleeps:
            sleep.kill()
            sleep.wait()
    assert done.returncode == 0
    (document,) = checked(tmp_path / "out")
    measured = sorted(thread["tid"] for thread in document["threads"])
    assert measured == sorted(sleep.pid for sleep in sleeps)


@each_source
def test_a_threads_id_is_no_processs_id(source: str) -> None:
    code = "import threading,time\nt=threading.Thread(target=time.sleep,args=(600,)); t.start(); print(t.native_id)"
    target = subprocess.Popen([sys.executable, "-uc", code], stdout=subprocess.PIPE, text=True)
    try:
        assert target.stdout is not None
        tid = target.stdout.readline().strip()
        done = run("--source", source, "-p", tid, "-d", "0.1")
    finally:
        target.kill()
        target.wait()
    refused(done, 125, f"{tid} is a thread of process {target.pid}", f"-t {tid}")


@rather_proc
def test_names_may_be_any_bytes(source: str, tmp_path: Path) -> None:
    code = "import ctypes,time; ctypes.CDLL(None).prctl(15, b'\\xff\\x1b[31m\\n', 0, 0, 0); print(); time.sleep(600)"
    target = subprocess.Popen([sys.executable, "-uc", code], stdout=subprocess.PIPE)
    try:
        assert target.stdout is not None
        target.stdout.readline()
        report = tmp_path / "report"
        done = run("--source", source, "--name", b"\xff*".decode(errors="surrogateescape"), "-d", "0.3", "-o", report)
        assert run("--source", source, "--json", "-p", str(target.pid), "-d", "0.1", "-o", report).returncode == 0
        (document,) = checked(report)
        assert run("--source", source, "-p", str(target.pid), "-d", "0.1", "-v", "-o", report).returncode == 0
    finally:
        target.kill()
        target.wait()
    assert done.returncode == 0
    assert names(document) == ["\\xff\x1b[31m\n"]
    assert "\x1b" not in report.read_text()


# ---- no privileges ----


@pytest.mark.libbpf
@pytest.mark.skipif(may_use_bpf() and shutil.which("setpriv") is None, reason="needs setpriv")
def test_without_privileges_it_says_so_and_measures_with_proc(tmp_path: Path) -> None:
    wrapper = WITHOUT_PRIVILEGES if may_use_bpf() else []

    def unprivileged(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*wrapper, *STAT, *words], capture_output=True, text=True)

    refused(unprivileged("--source", "bpf", "--", "true"), 125, "CAP_BPF", "--source proc")
    refused(unprivileged("-C", "0", "-d", "0.1"), 125, "root") if os.path.exists("/proc/self/schedstat") else None
    done = unprivileged("--", "sh", "-c", "exit 3")
    assert done.returncode == 3
    assert done.stderr.startswith("headway: measuring with /proc, sampled: eBPF needs CAP_BPF")
    done = unprivileged("--json", "--", "sh", "-c", "exit 3")
    assert done.returncode == 3
    (document,) = checked(done.stderr)
    assert document["source"] == "proc"
    done = unprivileged("-a", "-d", "0.2", "--json", "-o", str(tmp_path / "all"))
    assert done.returncode == 0
    checked(tmp_path / "all")


# ---- commands that cannot be started ----


@rather_proc
def test_commands_that_cannot_be_executed(source: str, tmp_path: Path) -> None:
    def start(*command: str | Path) -> Done:
        return run("--source", source, "--", *command)

    text, script = tmp_path / "text", tmp_path / "script"
    text.write_text("words\n")
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    refused(start("/no/such/program"), 127, "/no/such/program", "not found")
    refused(start("no-such-program-anywhere"), 127, "not found")
    refused(start(""), 127, "''", "not found")
    refused(start(text / "beyond"), 127, "not found")
    refused(start(text), 126, "cannot be executed")
    refused(start(tmp_path), 126, "is a directory")
    refused(start(script), 127, "interpreter")


# ---- output ----


@rather_proc
@pytest.mark.parametrize("form", [["-I", "50"], ["--json"], [], ["-v"]][: 1 if FEW else None])
def test_a_full_disk_leaves_the_command_alone(source: str, form: list[str]) -> None:
    done = run("--source", source, "-q", *form, "-o", "/dev/full", "--", "sh", "-c", "sleep 0.2; echo done")
    assert done.stdout == "done\n"
    assert done.returncode == 125
    assert done.stderr == (
        "headway: the report cannot be written to '/dev/full' (No space left on device): make room there, or name "
        "another file with -o\n"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small file system")
@pytest.mark.parametrize("form", [["--json"], []])
def test_a_full_disk_has_no_file_afterwards_and_what_was_there_stays(form: list[str], tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", tmp_path], check=True)
    try:
        (tmp_path / "before").write_bytes(b"before")
        with suppress(OSError), (tmp_path / "rest").open("wb", buffering=0) as rest:
            while rest.write(b"x" * 4096):
                pass
        for name in ("before", "new"):
            done = run("--source", "proc", "-q", *form, "-o", tmp_path / name, "--", "sh", "-c", "echo done; exit 3")
            assert (done.returncode, done.stdout) == (125, "done\n")
            assert done.stderr == (
                f"headway: the report cannot be written to '{tmp_path / name}' (No space left on device): make room "
                "there, or name another file with -o\n"
            )
        assert (tmp_path / "before").read_bytes() == b"before"
        assert {path.name for path in tmp_path.iterdir()} == {"before", "rest"}
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_file_that_cannot_be_opened_costs_nothing(tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    refused(run("-o", "/no/such/folder/report", "--", "touch", touched), 125, "cannot be written")
    refused(run("-o", tmp_path, "--", "touch", touched), 125, "cannot be written")
    assert not touched.exists()


@rather_proc
def test_standard_error_closed_full_or_without_a_reader_harms_nothing(source: str) -> None:
    stat = " ".join(f"'{word}'" for word in STAT) + f" --source {source} -q"
    inner = '-- sh -c "echo out; exit 3"'

    def sh(script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["sh", "-c", script], capture_output=True, text=True)

    full = sh(f"{stat} {inner} 2>/dev/full")
    assert (full.returncode, full.stdout) == (125, "out\n")
    assert sh(f"{stat} {inner} <&- >&- 2>&-").returncode == 3
    if not FEW:
        closed = sh(f"{stat} {inner} 2>&-")
        assert (closed.returncode, closed.stdout) == (3, "out\n")
        assert sh(f"{stat} -p 4194303 2>/dev/full").returncode == 125
        assert sh(f"{stat} -p 4194303 2>&-").returncode == 125
    # a reader that has gone away
    done = sh(f"{{ {stat} -I 20 -- sh -c 'sleep 0.3; exit 3' 2>&1; echo $? >&2; }} | head -n 1")
    assert done.stderr == "3\n"


@each_source
def test_json_is_valid_in_every_mode(source: str, tmp_path: Path) -> None:
    report = tmp_path / "report"
    base = ["--source", source, "--json", "-o", str(report)]

    def documents(*words: str) -> list[dict[str, Any]]:
        done = run(*base, *words)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return checked(report)

    (document,) = documents("--", "sh", "-c", "sleep 0.1")
    assert document["command"] == ["sh", "-c", "sleep 0.1"]
    assert document["exit_status"] == 0
    assert document["source"] == source
    wait = f"until [ $(wc -l < {report}) -ge 3 ]; do sleep 0.05; done"
    assert len(documents("-I", "50", "--", "sh", "-c", wait)) > 3
    with subprocess.Popen(["sleep", "600"]) as sleep:
        windows = [document["window"] for document in documents("-I", "50", "-d", "0.5", "-p", str(sleep.pid))]
        assert windows[-1]["end"] - windows[0]["start"] >= 500_000_000
        assert all(one["end"] == other["start"] for one, other in pairwise(windows))
        if source == "proc" or not FEW:
            assert documents("-t", str(sleep.pid), "-d", "0.1")[0]["exit_status"] is None
        sleep.kill()
    documents("-a", "-d", "0.1")
    if source == "proc" or not FEW:
        documents("--no-follow", "--", "sh", "-c", "true; true")
        documents("--name", "nobody-has-this", "-d", "0.1")
    if source == "bpf":
        documents("-C", "0", "--", "true")


# ---- the command does not notice ----


KILLING = [signal.SIGKILL, signal.SIGINT, signal.SIGSEGV, signal.SIGPIPE, signal.SIGUSR1, signal.SIGXFSZ][
    : 2 if FEW else 6
]


@rather_proc
@pytest.mark.parametrize("locale", [{}, {"LC_CTYPE": "C"}, {"LC_ALL": "C"}, {"LC_CTYPE": "C.UTF-8"}, {"LANG": "C"}])
def test_the_command_has_the_locale_that_headway_was_started_with(
    source: str, locale: dict[str, str], tmp_path: Path
) -> None:
    names = ("LC_ALL", "LC_CTYPE", "LANG", "LANGUAGE", "PYTHONCOERCECLOCALE", "PYTHONUTF8")
    environment = {name: value for name, value in os.environ.items() if name not in names} | locale
    done = run_process("--source", source, "-o", tmp_path / "report", "--", "env", env=environment)
    assert done.returncode == 0, done.stderr
    said = dict(line.partition("=")[::2] for line in done.stdout.splitlines())
    assert {name: said[name] for name in names if name in said} == locale


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make a time namespace")
@each_source
def test_in_a_time_namespace_times_are_right_and_the_command_stays_in_it(source: str, tmp_path: Path) -> None:
    report, offsets = tmp_path / "report", tmp_path / "offsets"
    inside = [*STAT, "--source", source, "--json", "-o", str(report), "--"]
    command = ["sh", "-c", f"cat /proc/self/timens_offsets > {offsets}; sleep 0.2"]
    done = subprocess.run(
        [*script("in_time_namespace"), *inside, *command], capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode == 77:
        pytest.skip(f"this kernel makes no time namespace ({done.stderr.strip()})")
    assert done.returncode == 0, done.stderr
    assert offsets.read_text().split() == ["monotonic", "86400", "0", "boottime", "86400", "0"]
    document = json.loads(report.read_text())
    assert document["source"] == source
    for thread in document["threads"]:
        assert sum(state["time"] for state in thread["states"]) <= document["window"]["duration"]
    assert document["losses"].get("unseen_ns", 0) <= document["window"]["duration"]
    assert document["window"]["duration"] < 3600 * 10**9


@rather_proc
def test_the_exit_status_is_the_commands(source: str) -> None:
    for status in (0, 125, 255) if FEW else (0, 1, 125, 126, 127, 128, 255):
        assert run("--source", source, "--", "sh", "-c", f"exit {status}").returncode == status
    for number in KILLING:
        done = run_process("--source", source, "--", "sh", "-c", f"kill -{number.name[3:]} $$")
        assert done.returncode == -number


@rather_proc
def test_input_and_output_are_the_commands_own(source: str, tmp_path: Path) -> None:
    data = os.urandom(300_000)
    done = subprocess.run(
        [*STAT, "--source", source, "-o", tmp_path / "report", "--", "sh", "-c", "tee /dev/stderr"],
        input=data,
        capture_output=True,
    )
    assert done.returncode == 0
    assert done.stdout == data
    assert done.stderr == data


@each_source
def test_a_terminal_stays_one_and_its_interrupt_ends_the_command_with_a_report(source: str, tmp_path: Path) -> None:
    report, ready = tmp_path / "report", tmp_path / "ready"
    command = f"test -t 0 && test -t 1 && test -t 2 && : > {ready}; exec sleep 600"
    child, terminal = pty.fork()
    if child == 0:
        os.execv(sys.executable, [*STAT, "--source", source, "--json", "-o", str(report), "--", "sh", "-c", command])
    wait_for(ready)
    os.write(terminal, b"\x03")
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGINT
    (document,) = checked(report)
    assert set(names(document)) <= {"sh", "sleep"}
    assert document["exit_status"] == -signal.SIGINT


@rather_proc
def test_a_command_that_handles_the_interrupt_decides(source: str, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    script = f"trap 'exit 7' INT; touch {ready}; while :; do sleep 0.1; done"
    process = subprocess.Popen(
        [*STAT, "--source", source, "--", "sh", "-c", script], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    wait_for(ready)
    os.killpg(process.pid, signal.SIGINT)
    _, report = process.communicate(timeout=200)
    assert process.returncode == 7
    assert "sh" in report


@rather_proc
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.exhaustive)])
def test_termination_is_passed_on(source: str, number: signal.Signals, tmp_path: Path) -> None:
    ready, got = tmp_path / "ready", tmp_path / "got"
    script = f"trap 'touch {got}; exit 9' {number.name[3:]}; touch {ready}; while :; do sleep 0.05; done"
    process = subprocess.Popen([*STAT, "--source", source, "--", "sh", "-c", script], stderr=subprocess.DEVNULL)
    wait_for(ready)
    process.send_signal(number)
    assert process.wait(200) == 9
    assert got.exists()


@each_source
def test_an_interrupt_at_any_moment_of_the_start_ends_it(source: str, tmp_path: Path) -> None:
    code = f"import sys; from headway.commands import main; open({str(tmp_path / 'ready')!r},'w'); main()"
    for delay in (0.0, 0.1, 0.3) if FEW else (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7):
        (tmp_path / "ready").unlink(missing_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-c", code, "stat", "--source", source, "--", "sleep", "5"],
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        wait_for(tmp_path / "ready")
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=200)
        assert process.returncode in (-signal.SIGINT, 128 + signal.SIGINT), said
        assert not re.search(r'File ".*headway', said), said  # the test's own line may be interrupted, too


@rather_proc
def test_a_killed_headway_leaves_the_command_running(source: str, tmp_path: Path) -> None:
    ready, done = tmp_path / "ready", tmp_path / "done"
    script = f"touch {ready}; sleep 0.5; touch {done}"
    process = subprocess.Popen([*STAT, "--source", source, "--", "sh", "-c", script], stderr=subprocess.DEVNULL)
    wait_for(ready)
    process.kill()
    process.wait()
    wait_for(done)


INHERITED = r"""
exec 3>&-
ls -l /proc/self/fd | sed 's/.* \([0-9]* ->\)/\1/; s/[0-9]*\/fd$//; /total/d'
grep -E '^(Sig(Blk|Ign)|Umask|Cap|NoNewPrivs|Seccomp|Cpus_allowed):' /proc/self/status
cat /proc/self/oom_score_adj /proc/self/limits
nice
pwd
env | sort
cut -d' ' -f5,6 /proc/self/stat
"""


@each_source
def test_the_command_inherits_what_headway_was_given(source: str, tmp_path: Path) -> None:
    read, write = os.pipe()  # a descriptor that is meant to be inherited

    def change() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGTERM, signal.SIGINT})
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR2, signal.SIGTSTP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        os.umask(0o027)
        os.nice(3)
        os.chdir("/usr")
        resource.setrlimit(resource.RLIMIT_NOFILE, (277, 299))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 4096))

    def plain() -> None:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)

    for before in (plain, change):
        outputs = []
        for wrapper in ([], [*STAT, "--source", source, "-o", str(tmp_path / "report"), "--"]):
            done = subprocess.run(
                [*wrapper, "sh", "-c", INHERITED],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                preexec_fn=before,
                start_new_session=False,
                pass_fds=(read,),
            )
            assert done.returncode == 0
            outputs.append(done.stdout.replace(str(write), str(write)))
        without, with_headway = (
            [line for line in output.splitlines() if "pipe:" not in line or f"{read} ->" in line] for output in outputs
        )
        assert with_headway == without
    os.close(read)
    os.close(write)


@rather_proc
def test_nohup_holds_for_the_command(source: str, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    process = subprocess.Popen(
        ["nohup", *STAT, "--source", source, "--", "sh", "-c", f"touch {ready}; sleep 0.5; exit 6"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for(ready)
    os.killpg(process.pid, signal.SIGHUP)
    assert process.wait(200) == 6


@rather_proc
def test_a_parent_that_ignores_its_children_changes_nothing(source: str) -> None:
    words = ["--source", source, "--", "sh", "-c", "exit 3"]
    done = run_process(*words, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert done.returncode == 3


@rather_proc
def test_a_daemon_that_the_command_leaves_behind_goes_on(source: str, tmp_path: Path) -> None:
    done = tmp_path / "done"
    script = f"(setsid sh -c 'sleep 0.6; touch {done}' >/dev/null 2>&1 </dev/null &); exec 2>&-; exit 4"
    began = time.monotonic()
    report = tmp_path / "report"
    assert run("--source", source, "--json", "-o", report, "--", "sh", "-c", script).returncode == 4
    assert not done.exists() or time.monotonic() - began > 0.6
    checked(report)
    wait_for(done)


@rather_proc
def test_a_duration_may_be_shorter_than_the_command_and_an_interval_longer(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, over = tmp_path / "report", tmp_path / "over"

    def when_it_is_over(*words: Any) -> int:
        over.touch()
        return until_the_end(*words)

    until_the_end = measure.wait_for
    monkeypatch.setattr(measure, "wait_for", when_it_is_over)
    script = f"until [ -e {over} ]; do sleep 0.05; done; exit 6"
    done = run("--source", source, "--json", "-o", report, "-d", "0.2", "--", "sh", "-c", script)
    assert done.returncode == 6
    (document,) = checked(report)
    assert document["window"]["duration"] >= 200_000_000
    assert all(thread["end"] is None for thread in document["threads"] if thread["name"] == "sh")
    done = run("--source", source, "--json", "-o", report, "-I", "60000", "--", "sh", "-c", "exit 6")
    assert done.returncode == 6
    (document,) = checked(report)
    assert document["exit_status"] == 6
    assert names(document) == ["sh"]


@rather_proc
def test_measuring_ends_with_the_processes_chosen(source: str, tmp_path: Path) -> None:
    report = tmp_path / "report"
    for option in ("-p", "-t"):
        target = subprocess.Popen(["sleep", "600"])
        report.unlink(missing_ok=True)
        process = subprocess.Popen(
            [*STAT, "--source", source, "--json", "-I", "50", "-o", str(report), option, str(target.pid)],
            stderr=subprocess.PIPE,
        )
        wait_for(report)
        deadline = time.monotonic() + 200
        while not report.read_text().count("\n") and time.monotonic() < deadline:
            time.sleep(0.02)
        target.kill()
        target.wait()  # reaped at once: it vanishes
        assert process.wait(200) == 0
        documents = checked(report)
        assert {name for document in documents for name in names(document)} == {"sleep"}
        ends = [thread["end"] for document in documents for thread in document["threads"]]
        assert ends[-1] is not None


@rather_proc
def test_an_interrupt_ends_measuring_others_with_a_report(source: str, tmp_path: Path) -> None:
    report = tmp_path / "report"
    process = subprocess.Popen(
        [*STAT, "--source", source, "--json", "-I", "50", "-o", str(report), "-p", str(os.getpid())]
    )
    wait_for(report)
    deadline = time.monotonic() + 200
    while not report.read_text().count("\n") and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(200) == 0
    assert len(checked(report)) > 1


def test_a_setuid_command_keeps_its_rights_and_cannot_be_terminated(compile_c: Compile) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root to make a setuid program")
    nobody: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []}
    try:
        subprocess.run([sys.executable, "-c", "import headway.commands"], check=True, capture_output=True, **nobody)
    except (OSError, LookupError, subprocess.CalledProcessError):
        pytest.skip("needs a user nobody who can read this installation")
    with tempfile.TemporaryDirectory() as open_to_all:
        folder = Path(open_to_all)
        folder.chmod(0o755)
        program, ready = folder / "setuid", folder / "ready"
        shutil.copy(compile_c("setuid"), program)
        program.chmod(0o4755)
        process = subprocess.Popen([*STAT, "-q", "--", program, ready], stderr=subprocess.PIPE, text=True, **nobody)
        wait_for(ready, process)
        process.terminate()  # which it may not pass on
        _, said = process.communicate(timeout=200)
    assert process.returncode == 5, said
    assert "Traceback" not in said


# ---- namespaces ----


def namespaced(*words: str, nested: bool = False) -> subprocess.CompletedProcess[str]:
    unshare = ["unshare", "--pid", "--fork", "--mount-proc"]
    try:
        subprocess.run([*unshare, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs unshare and permission to make a pid namespace")
    return subprocess.run([*unshare, *(unshare if nested else []), *words], capture_output=True, text=True, timeout=200)


@each_source
@pytest.mark.parametrize("nested", [pytest.param(False, marks=pytest.mark.exhaustive), True])
def test_in_a_pid_namespace_ids_are_those_of_the_namespace(source: str, nested: bool, tmp_path: Path) -> None:
    report = tmp_path / "report"
    stat = [*STAT, "--source", source, "--json", "-o", str(report)]
    done = namespaced(*stat, "--", "sh", "-c", "echo $$; sleep 0.1; exit 3", nested=nested)
    assert done.returncode == 3, done.stderr
    (document,) = checked(report)
    assert {t["tid"] for t in document["threads"] if t["name"] == "sh"} == {int(done.stdout)}
    assert int(done.stdout) < 100
    quoted = " ".join(f"'{word}'" for word in stat)
    script = f"sleep 600 & {quoted} -p $! -d 0.2; echo $?; kill $!"
    done = namespaced("sh", "-c", script, nested=nested)
    assert done.stdout == "0\n", done.stderr
    (document,) = checked(report)
    assert names(document) == ["sleep"]
    assert document["threads"][0]["tid"] < 100


# ---- several at once ----


@each_source
def test_two_may_run_at_the_same_time_and_one_measure_the_other(source: str, tmp_path: Path) -> None:
    stat = [*STAT, "--source", source, "--json", "-o"]
    pair = [
        subprocess.Popen([*stat, str(tmp_path / f"report{i}"), "--", "sh", "-c", f"sleep 0.5; exit {i}"])
        for i in (5, 6)
    ]
    assert [process.wait(200) for process in pair] == [5, 6]
    for i in (5, 6):
        (document,) = checked(tmp_path / f"report{i}")
        assert names(document) == ["sh", "sleep"] or (source == "proc" and "sh" in names(document))  # it may miss one
    inner = [*stat, str(tmp_path / "inner"), "--", "sh", "-c", "exit 7"]
    done = subprocess.run([*stat, str(tmp_path / "outer"), "--", *inner])
    assert done.returncode == 7
    (document,) = checked(tmp_path / "inner")
    assert names(document) == ["sh"]
    checked(tmp_path / "outer")


@pytest.mark.root
def test_a_headway_that_is_suspended_for_a_while_loses_nothing(tmp_path: Path) -> None:
    ready, over, report = tmp_path / "ready", tmp_path / "over", tmp_path / "report"
    count = 100 if FEW else 1500
    script = f"touch {ready}; i=0; while [ $i -lt {count} ]; do /bin/true; i=$((i+1)); done; touch {over}"
    process = subprocess.Popen([*STAT, "--source", "bpf", "--json", "-o", str(report), "--", "sh", "-c", script])
    wait_for(ready)
    process.send_signal(signal.SIGSTOP)
    wait_for(over)
    process.send_signal(signal.SIGCONT)
    assert process.wait(120) == 0
    (document,) = checked(report)
    assert len(document["threads"]) == count + 3  # two are touch
    assert not any(lost for name, lost in document["losses"].items() if name != "stolen_ns_unplaced")
