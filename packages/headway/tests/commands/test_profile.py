"""``headway profile``, ``report`` and ``export``: bad input, faults, and what they print."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from headway.linux.perf.sampler import DEFAULT_POLICY, POLICIES
from headway.model import Ledger, Window
from headway.recording.document import Document
from headway.recording.profile import profile_settings, write_profile
from headway.recording.writer import RecordingWriter
from headway.views.schemas import schema_of

from ..effort import FEW
from ..profiles import small
from ..running import Done, headway

HEADWAY = [sys.executable, "-c", "from headway.commands import main; main()"]
WITHOUT_PRIVILEGES = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all"]
NOBODY = [*WITHOUT_PRIVILEGES, "--reuid=65534", "--regid=65534", "--clear-groups"]
SPIN = "n = 0\nfor i in range(1000000): n += i"


def run_without_privileges(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*WITHOUT_PRIVILEGES, *HEADWAY, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def refused(done: Done | subprocess.CompletedProcess[str], *words: str) -> None:
    """One sentence on standard error with these words, nothing else, and 125."""
    assert done.returncode == 125, done.stderr
    assert done.stderr.startswith("headway: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    path = tmp_path / "prof.hw"
    profile = small()
    writer = RecordingWriter(path, Document(Ledger("bpf", Window(0, 0)), settings=profile_settings(profile.period)))
    write_profile(writer, profile)
    return path


def test_a_report_fits_eighty_columns_and_says_what_is_sampled(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = headway("report", recorded, "--index", "processor")
    assert done.returncode == 0
    assert done.stderr == ""
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert "1,000 samples" in done.stdout
    assert "~70 %" in done.stdout


def test_a_report_as_json_fits_its_schema(recorded: Path, tmp_path: Path) -> None:
    done = headway("report", recorded, "--json", "--state", "wait", "-o", tmp_path / "report.json")
    assert (done.returncode, done.stdout) == (0, "")
    document = json.loads((tmp_path / "report.json").read_text())
    jsonschema.validate(document, schema_of("profile"))
    assert document["schema"] == "headway.profile/1"
    assert [state["state"] for state in document["states"]] == ["wait.sleep"]


def test_the_threads_of_a_profile_are_reported_as_of_any_recording(recorded: Path) -> None:
    done = headway("report", recorded, "-v")
    assert done.returncode == 0
    assert "waiting" in done.stdout


def test_exports_go_to_standard_output_or_a_file(recorded: Path, tmp_path: Path) -> None:
    folded = headway("export", recorded, "--to", "folded", "--index", "wait")
    assert folded.stdout.splitlines() == [
        "app;main;nanosleep;schedule;[wait.sleep] 700000000",
        "app;[stack not known];[wait.sleep] 300000000",
    ]
    assert headway("export", recorded, "--to", "speedscope", "-o", tmp_path / "s.json").returncode == 0
    assert json.loads((tmp_path / "s.json").read_text())["profiles"][0]["name"] == "app 7"
    assert headway("export", recorded, "--to", "pprof", "-o", tmp_path / "p.pb.gz").returncode == 0
    assert gzip.decompress((tmp_path / "p.pb.gz").read_bytes())[:2] != b"\x1f\x8b"  # compressed once


def test_what_is_no_profile_is_refused_in_a_sentence(recorded: Path, tmp_path: Path) -> None:
    refused(headway("export", tmp_path / "nothing.hw", "--to", "folded"), "nothing.hw")
    refused(headway("export", tmp_path, "--to", "folded"), "is not a recording")
    refused(headway("report", tmp_path, "--index", "wait"), "is not a recording")
    refused(headway("export", recorded, "--to", "folded", "-o", tmp_path / "no" / "file"), "cannot be written")
    refused(headway("export", recorded, "--to", "svg"), "svg")
    refused(headway("export", recorded, "--to", "perfetto"), "is a profile")
    refused(headway("export", recorded, "--to", "folded", "--from", "1s"), "leave out -p, -t")
    os.truncate(recorded / "samples" / "part-000000.parquet", 100)
    refused(headway("report", recorded), "damaged")


def test_a_part_that_there_is_nothing_of_says_so(recorded: Path) -> None:
    assert "nothing of that was seen" in headway("report", recorded, "--index", "poll").stdout
    assert headway("export", recorded, "--to", "folded", "--index", "poll").stdout == ""


def test_bad_options_are_refused() -> None:
    refused(headway("profile"), "say what to measure")
    refused(headway("profile", "-F", "0", "--", "true"), "-F")
    refused(headway("profile", "-F", "1000000", "--", "true"), "-F")
    refused(headway("profile", "-p", "4194304", "-d", "1"), "4194304")
    refused(headway("profile", "--why", "wait", "--", "true"), "--why")
    refused(headway("profile", "--spin", "--tasks", "--", "true"), "--spin")
    refused(headway("profile", "--policy", "now", "--", "true"), "--policy")
    refused(headway("profile", "--buffer", "100", "--", "true"), "--buffer", "4K to 64M")
    refused(headway("profile", "--buffer", "1G", "--", "true"), "--buffer", "4K to 64M")


@pytest.mark.root
def test_the_commands_output_and_exit_status_are_its_own_and_a_name_cannot_write_on_the_terminal(
    tmp_path: Path,
) -> None:
    path = tmp_path / "p\n\x1b[31m.hw"
    done = headway("profile", "-o", path, "--", sys.executable, "-c", f"{SPIN}\nprint('out')\nexit(7)")
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert "headway report" in done.stderr
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr
    report = headway("report", path, "--index", "effective", "--json")
    states = {state["state"]: state for state in json.loads(report.stdout)["states"]}
    assert states["user"]["rows"] > 10
    document = json.loads((path / "recording.json").read_text())
    assert document["exit_status"] == 7
    assert document["state"] == "closed"


@pytest.mark.root
def test_without_a_file_the_report_goes_to_standard_error() -> None:
    done = headway("profile", "--", sys.executable, "-c", SPIN)
    assert (done.returncode, done.stdout) == (0, "")
    assert "samples, one each 1.00 ms of processor" in done.stderr
    assert f"collected by {DEFAULT_POLICY} from buffers of 128 KiB" in done.stderr


@pytest.mark.root
@pytest.mark.parametrize("policy", sorted(POLICIES)[: 1 if FEW else None])
def test_every_policy_collects_the_samples_and_says_what_that_took(policy: str, tmp_path: Path) -> None:
    words = ["--policy", policy, "--buffer", "5000", "-F", "4999", "-o", str(tmp_path / "p.hw")]
    assert headway("profile", *words, "--", sys.executable, "-c", SPIN).returncode == 0
    document = json.loads(headway("report", tmp_path / "p.hw", "--index", "effective", "--json").stdout)
    jsonschema.validate(document, schema_of("profile"))
    collection = document["collection"]
    assert collection["policy"] == policy
    assert collection["capacity"] == 8192, "a power of two of pages"
    assert collection["looks"] >= collection["drains"] >= collection["useful"]
    assert collection["drains"] > 0
    assert collection["last_drains"] >= 1
    assert collection["collecting_ns"] > 0
    assert (collection["clock_reads"] > 0) == (policy == "cpu-time")
    assert (
        f"collected by {policy} from buffers of 8 KiB" in headway("report", tmp_path / "p.hw", "--index", "lost").stdout
    )


@pytest.mark.root
def test_nothing_that_is_there_is_overwritten_and_the_command_is_not_started(tmp_path: Path) -> None:
    (tmp_path / "p.hw").write_text("mine")
    done = headway("profile", "-o", tmp_path / "p.hw", "--", "touch", tmp_path / "ran")
    refused(done, "is there already")
    assert (tmp_path / "p.hw").read_text() == "mine"
    assert not (tmp_path / "ran").exists()


@pytest.mark.root
def test_a_command_that_is_not_there_leaves_nothing(tmp_path: Path) -> None:
    done = headway("profile", "-o", tmp_path / "p.hw", "--", tmp_path / "nothing")
    assert done.returncode == 127
    assert not (tmp_path / "p.hw").exists()


@pytest.mark.root
def test_a_process_of_another_user_may_not_be_sampled_and_that_is_said() -> None:
    with subprocess.Popen([*NOBODY, "sleep", "60"]) as other:
        try:
            done = run_without_privileges("profile", "-p", str(other.pid), "-d", "0.2")
        finally:
            other.kill()
    refused(done, "CAP_PERFMON")


@pytest.mark.root
def test_without_privileges_there_are_samples_of_user_code_and_it_is_said_what_is_missing(tmp_path: Path) -> None:
    words = "profile", "-o", tmp_path / "p.hw", "--", sys.executable, "-c", SPIN
    done = run_without_privileges(*words)
    if "CAP_PERFMON" in done.stderr:
        pytest.skip("this kernel lets nobody sample without CAP_PERFMON (kernel.perf_event_paranoid above 2)")
    assert done.returncode == 0
    document = json.loads(headway("report", tmp_path / "p.hw", "--json").stdout)
    assert {state["state"] for state in document["states"]} == {"user"}
    assert any("no eBPF" in note for note in document["notes"])
    assert any("kernel.perf_event_paranoid" in note for note in document["notes"])
