"""headway record keeps within its memory: in a control group that is small, and with --memory."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.effort import FEW
from tests.memory_group import memory_group, peak

from headway.linux.levels import Level
from headway.linux.options import MeasureOptions
from headway.linux.procfs.processors import possible
from headway.linux.sources.ebpf import footprint
from headway.linux.sources.ebpf.options import living_threads
from headway.model import KNOWN_LOSSES, violations
from headway.recording.reader import Recording
from headway.session.memory import Recorded, least_memory

from ..running import headway

pytestmark = [pytest.mark.root, pytest.mark.timeout(600)]

MIB = 1 << 20
SMALL = 220 * MIB
CALLS = f"head -c {50_000 if FEW else 200_000} /dev/zero | od -v -w1 | dd bs=1 of=/dev/null 2>/dev/null"
"""Two pipes, and a call or two for each byte."""
IN_GROUP = """
import sys
open(sys.argv[1] + "/cgroup.procs", "w").write("0")
del sys.argv[1]
from headway.commands import main
main()
"""


def least(*, flight: bool = False) -> int:
    """What recording needs here at least: less than a small group has only where there are few processors."""
    measure = MeasureOptions(level=Level.SWITCHES) if flight else MeasureOptions()
    counting, threads = footprint.counts_events(measure), living_threads() + 100
    return least_memory(Recorded(possible(), threads, measure, counting=counting, forget=flight, limited=flight))


@pytest.fixture
def small() -> Iterator[Path]:
    if max(least(), least(flight=True)) > SMALL * 7 // 8:
        pytest.skip("this machine has too many processors and threads to be recorded in so little memory")
    with memory_group(SMALL) as group:
        yield group


def recorded(group: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run headway record in a control group."""
    command = [sys.executable, "-c", IN_GROUP, str(group), "record", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=500)


def lost(done: subprocess.CompletedProcess[str]) -> bool:
    return "lost: 0" not in done.stderr


def assert_read(path: Path, done: subprocess.CompletedProcess[str]) -> None:
    """It can be read, its laws hold, and what it says is lost has a name in the table of losses."""
    with Recording(path) as recording:
        assert recording.closed
        assert recording.damaged == {}
        assert recording.rows > 0
        losses = {name: count for name, count in recording.losses().items() if count}
        assert violations(recording.ledger()) == []
    assert losses.keys() <= KNOWN_LOSSES.keys()
    assert bool(losses) == lost(done)


def test_a_small_control_group_is_enough_for_a_command_that_does_many_calls(small: Path, tmp_path: Path) -> None:
    """Each turn is several rows. A row that is lost is counted, and what the kernel counted is all there."""
    path = tmp_path / "a.hw"
    done = recorded(small, "-o", path, "--", "sh", "-c", f"{CALLS}; exit 3")
    assert done.returncode == 3, done.stderr
    assert peak(small) <= SMALL
    assert_read(path, done)
    assert "Traceback" not in done.stderr


def test_what_ends_is_added_up_and_counted_before_there_is_no_memory_for_it(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.hw"
    script = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done"
    done = recorded(small, "--memory", str(least()), "-o", path, "--", "sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert_read(path, done)
    with Recording(path) as recording:
        kept = recording.kept_ledger()
        assert kept is not None
        gone = sum(thread.end is not None for thread in kept.threads)
        assert gone + recording.losses().get("ended_threads_added_up", 0) >= 300


def test_the_flight_recorder_keeps_within_its_memory(small: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.hw"
    words = ("-a", "--flight-recorder", "1", "--level", "interrupts", "-o", path, "--", "sh", "-c", CALLS)
    done = recorded(small, *words)
    assert done.returncode == 0, done.stderr
    assert peak(small) <= SMALL
    assert_read(path, done)


def test_too_little_is_said_with_the_least_that_is_needed(tmp_path: Path) -> None:
    done = headway("record", "--memory", "20M", "-o", tmp_path / "a.hw", "--", "true")
    assert done.returncode == 125
    assert re.fullmatch(
        r"headway: recording needs \d+ MiB of memory here, and may take 20: give more with --memory, or raise the "
        r"limit of the control group\n",
        done.stderr,
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", ["0", "-1", "12Q", "1K", "\x1b[2J"])
def test_a_size_that_is_none_is_refused(tmp_path: Path, size: str) -> None:
    done = headway("record", "--memory", size, "-o", tmp_path / "a.hw", "--", "true")
    assert done.returncode == 125
    assert "give 1M or more" in done.stderr
    assert list(tmp_path.iterdir()) == []
