"""The systemd unit: systemd accepts it, and what it allows is what ``headway serve`` needs, and no more."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.deploy.deployed import UNIT, serve_options, unit_settings, unit_words

pytestmark = pytest.mark.end_to_end

HEADWAY = [sys.executable, "-c", "from headway.commands import main; main()"]
SETTINGS = unit_settings(UNIT.read_text())
CAPABILITIES = ["CAP_BPF", "CAP_PERFMON"]
NOBODY = 65534

needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze (systemd)")


@needs_systemd
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """``verify`` wants the program to be there, so a copy of the unit starts one that is."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/headway/bin/headway", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, said) == (0, []), done.stderr
    copy.write_text(copy.read_text() + "\n[Service]\nTypo=yes\n")
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert "Typo" in done.stderr


@needs_systemd
def test_systemd_calls_its_exposure_low() -> None:
    words = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=25", str(UNIT)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if "offline" in done.stderr:
        pytest.skip("this systemd-analyze cannot look at units that are not loaded (before 250)")
    assert done.returncode == 0, done.stdout


def test_the_unit_starts_headway_with_options_that_exist() -> None:
    (line,) = SETTINGS["Service.ExecStart"]
    program, *words = line.split()
    assert program == "/opt/headway/bin/headway"
    assert words.pop() == "$HEADWAY_OPTIONS"
    values = serve_options(words)
    assert values["everything"] is True
    assert values["by"] == "container"


def test_the_capabilities_of_the_unit_are_those_that_were_tried() -> None:
    for name in ("AmbientCapabilities", "CapabilityBoundingSet"):
        assert unit_words(SETTINGS, f"Service.{name}") == CAPABILITIES


def listing(line: str) -> set[str]:
    """The system calls that words of SystemCallFilter stand for."""
    found = set()
    for word in line.split():
        if word.startswith("@"):
            done = subprocess.run(
                ["systemd-analyze", "syscall-filter", word], capture_output=True, text=True, check=True
            )
            inside = [text.strip() for text in done.stdout.splitlines()[1:] if text.startswith(" ")]
            found |= listing(" ".join(text for text in inside if not text.startswith("#")))
        else:
            found.add(word)
    return found


def allowed_calls() -> set[str]:
    """The system calls that the unit allows (systemd.exec(5))."""
    allowed: set[str] = set()
    for line in SETTINGS["Service.SystemCallFilter"]:
        if line.startswith("~"):
            allowed -= listing(line[1:])
        else:
            allowed |= listing(line)
    return allowed | listing("@default")


@needs_systemd
@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.parametrize("source", [pytest.param("bpf", marks=[pytest.mark.root, pytest.mark.exhaustive]), "proc"])
def test_the_unit_allows_every_system_call_that_headway_makes(source: str, tmp_path: Path) -> None:
    said = tmp_path / "calls"
    words = ["strace", "-f", "-qq", "-o", str(said), *HEADWAY, "serve", "--listen", "127.0.0.1:0", "--source", source]
    children = ["-p", str(os.getpid()), "--counts"]
    with started([*words, *children]) as port:
        for path in ("/metrics", "/", "/live.json", "/-/healthy"):
            assert get(port, path)[0] == 200
    calls = {found[1] for line in said.read_text().splitlines() if (found := re.match(r"\d+ +(\w+)\(", line))}
    assert {"read", "accept4", "capset"} <= calls
    # An editable installation looks for what has changed, as root: that is not what the unit starts.
    ours = {"setgroups", "setresuid", "setresgid"}  # an ordinary user does not become another
    assert calls - ours - allowed_calls() == set()
    assert not allowed_calls() & {"ptrace", "mount", "init_module", "reboot", "kexec_load", "setuid", "chroot"}


@contextmanager
def started(words: Sequence[str], *, seconds: float = 250) -> Iterator[int]:
    """A server that runs; its port. It is ended with SIGTERM, as systemd does, and ends well."""
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, process_group=0)
    assert process.stderr is not None
    said = ""
    try:
        while not (found := re.search(r"serving http://127\.0\.0\.1:(\d+)/", said)):
            line = process.stderr.readline()
            if not line:
                pytest.skip("other users cannot read this Python") if "ermission" in said else pytest.fail(said)
            said += line
        yield int(found[1])
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise


def get(port: int, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=250)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def as_an_ordinary_user(capabilities: Sequence[str]) -> list[str]:
    """A prefix that starts a program as systemd would with these capabilities."""
    names = ",".join(["-all", *(f"+{name.removeprefix('CAP_').lower()}" for name in capabilities)])
    words = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
    return [*words, f"--inh-caps={names}", f"--ambient-caps={names}", f"--bounding-set={names}"]


with_setpriv = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv, to have some capabilities only"
)


@with_setpriv
@pytest.mark.root
def test_with_its_capabilities_an_ordinary_user_measures_exactly() -> None:
    # Without a level it would follow from the load.
    measure = ["serve", "-a", "--level", "interrupts", "--listen", "127.0.0.1:0"]
    words = [*as_an_ordinary_user(CAPABILITIES), *HEADWAY, *measure]
    with started(words) as port:
        status, text = get(port, "/metrics")
    assert status == 200
    assert re.search(r'^headway_build_info\{.*source="bpf"\} 1', text, re.MULTILINE)
    for index in ("rpi", "kpi", "iopi"):
        # Where a busy machine does not let the cost of events be known, what rests on it is estimated.
        quality = rf'^headway_index_quality\{{index="{index}",quality="(exact|estimated)"\}} 1'
        assert re.search(quality, text, re.MULTILINE)
    lost = {
        name: int(number) for name, number in re.findall(r'^headway_losses_total\{loss="(\w+)"\} (\d+)', text, re.M)
    }
    assert lost["threads_unmeasured"] == lost["exits_lost"] == 0


@with_setpriv
@pytest.mark.root
@pytest.mark.parametrize("left", CAPABILITIES)
def test_none_of_its_capabilities_is_more_than_is_needed(left: str) -> None:
    words = [*as_an_ordinary_user([left]), *HEADWAY, "serve", "-a", "--source", "bpf", "--listen", "127.0.0.1:0"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=250, check=False)
    if "Traceback" in done.stderr and "Permission" in done.stderr:
        pytest.skip("other users cannot read this Python")
    assert done.returncode == 125
    assert "eBPF needs CAP_BPF and CAP_PERFMON" in done.stderr
