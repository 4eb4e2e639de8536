"""What the maps of the eBPF programs take is what is said beforehand."""

from __future__ import annotations

import os
import socket
from contextlib import closing
from pathlib import Path

import pytest
from tests.effort import exhaustive

from headway.linux.bpf.rings.transitions import words_of_rings
from headway.linux.options import MeasureOptions, Selection
from headway.linux.procfs import processors
from headway.linux.sources.ebpf import BpfSource, footprint
from headway.linux.sources.ebpf.publication import SOCKET

pytestmark = pytest.mark.root

THREADS, WORDS, EXITS = 3000, 1 << 16, 1 << 20


def _of_maps() -> int:
    """The bytes of this process's maps, as the kernel counts them (proc_pid_fdinfo(5), memlock)."""
    found: dict[str, int] = {}
    for file in Path("/proc/self/fdinfo").iterdir():
        try:
            fields = dict(line.split(":\t", 1) for line in file.read_text().splitlines() if ":\t" in line)
        except OSError:
            continue
        if "map_id" in fields:
            found[fields["map_id"]] = int(fields["memlock"])
    return sum(found.values())


@pytest.mark.parametrize("intervals", [True, *exhaustive(False)])
@pytest.mark.parametrize(
    "measure",
    [
        MeasureOptions(),
        MeasureOptions(tasks=True, publish=True),
        MeasureOptions(events=("page-faults",)),
        MeasureOptions(budget=0.01),
        MeasureOptions(stacks=True, unwind=os.uname().machine == "x86_64"),
    ],
    ids=["plain", "tasks", "events", "budget", "stacks"],
)
def test_the_maps_take_what_is_said(
    measure: MeasureOptions, intervals: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SOCKET, str(tmp_path / "progress"))
    selection, cpus = Selection(pids=(os.getpid(),)), processors.possible()
    before = _of_maps()
    source = BpfSource(
        selection,
        measure,
        intervals=intervals,
        record=True,
        max_threads=THREADS,
        ring_words=WORDS,
        exit_bytes=EXITS,
    )
    with closing(source):
        source.begin()
        if measure.publish:  # a user's map is made when one of its processes asks
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(os.environ[SOCKET])
                source.service()
        taken = _of_maps() - before
    of_rings = footprint.of_rings(cpus, words_of_rings(cpus, WORDS)) + EXITS
    counting = footprint.counts_events(measure)
    said = of_rings + footprint.of_threads(THREADS + 1, cpus, measure, intervals=intervals, counting=counting)
    said += footprint.of_stacks(measure)
    if not taken:
        pytest.skip("this kernel does not say how much memory a map takes")
    assert said - (2 << 20) <= taken <= said + footprint.PROGRAMS
