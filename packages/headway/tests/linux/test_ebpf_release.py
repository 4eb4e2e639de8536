"""Whatever fails while the eBPF source begins, nothing stays attached, loaded, mapped or open."""

from __future__ import annotations

import errno
import gc
import os
import re
from collections import Counter
from contextlib import suppress
from typing import NamedTuple

import pytest
from tests.effort import FEW

from headway.errors import HeadwayError
from headway.linux.bpf.costs.exercising import ExercisingProcess
from headway.linux.bpf.programs.libbpf import BpfError, Library
from headway.linux.options import MarkedFunctions, MeasureOptions, Selection
from headway.linux.perf import perf_event as perf
from headway.linux.sources.ebpf import BpfSource

pytestmark = pytest.mark.root

EVERYTHING = MeasureOptions(
    events=("context-switches",), functions=(MarkedFunctions("libc.so.6:tcdrain"),), why=True, stacks=True
)


def source() -> BpfSource:
    """With all that a source can have."""
    return BpfSource(Selection(pids=(os.getpid(),)), EVERYTHING, intervals=True, record=True, ring_words=64)


class Held(NamedTuple):
    """What this process has of the kernel's: open files by kind, mapped maps, children, and its priority."""

    files: Counter[str]
    maps: int
    children: str
    priority: int


def held() -> Held:
    gc.collect()
    files: Counter[str] = Counter()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            files[re.sub(r":\[\d+\]$", "", os.readlink(f"/proc/self/fd/{name}"))] += 1
    with open("/proc/self/maps") as lines:
        maps = sum("bpf" in line.split(maxsplit=5)[-1] for line in lines if "anon_inode" in line)
    with open("/proc/thread-self/children") as file:
        children = file.read()
    return Held(files, maps, children, os.getpriority(os.PRIO_PROCESS, 0))


STEPS = (
    "bpf_object__open_mem",
    "bpf_object__find_map_by_name",
    "bpf_map__set_initial_value",
    "bpf_object__load",
    "bpf_map_update_elem",
    "ring_buffer__new",
    "bpf_program__attach",
    "bpf_program__attach_perf_event_opts",
    "bpf_program__attach_iter",
    "bpf_iter_create",
    "bpf_program__attach_uprobe_opts",
)
"""Functions of libbpf that a beginning needs and that can fail, in about that order."""


@pytest.fixture(scope="module")
def calls() -> Counter[str]:
    """How often a beginning calls each."""
    found: Counter[str] = Counter()
    check = Library.check

    def count(self: Library, what: str, function: str, *arguments: object) -> int:
        found[function] += 1
        return check(self, what, function, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Library, "check", count)
        before = held()
        measuring = source()
        try:
            measuring.begin()
            assert held() != before
        finally:
            measuring.close()
    del measuring
    assert held() == before
    return found


@pytest.mark.parametrize("step", STEPS[3::3] if FEW else STEPS)
def test_a_step_of_libbpf_that_fails_the_last_time_leaves_nothing(
    calls: Counter[str], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    if not calls[step]:
        pytest.skip(f"{step} is not needed on this kernel")
    check, left = Library.check, calls[step]

    def fail(self: Library, what: str, function: str, *arguments: object) -> int:
        nonlocal left
        left -= function == step
        if function == step and not left:
            raise BpfError(what, errno.EIO)
        return check(self, what, function, *arguments)

    before = held()
    monkeypatch.setattr(Library, "check", fail)
    with pytest.raises(HeadwayError):
        source().begin()
    monkeypatch.undo()
    assert held() == before


@pytest.mark.parametrize("which", [1] if FEW else range(4))
def test_an_interrupt_while_costs_are_found_leaves_nothing(monkeypatch: pytest.MonkeyPatch, which: int) -> None:
    exercise, left = ExercisingProcess.exercise, which

    def interrupt(self: ExercisingProcess) -> object:
        nonlocal left
        left -= 1
        if left < 0:
            raise KeyboardInterrupt
        return exercise(self)

    before = held()
    monkeypatch.setattr(ExercisingProcess, "exercise", interrupt)
    with pytest.raises(KeyboardInterrupt):
        source().begin()
    monkeypatch.undo()
    assert held() == before


def test_a_counter_that_cannot_be_opened_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    open_counter, left = perf.open_counter, 3

    def refuse(event: perf.Event, *, pid: int = -1, cpu: int = -1) -> int:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return open_counter(event, pid=pid, cpu=cpu)

    before = held()
    monkeypatch.setattr(perf, "open_counter", refuse)
    with suppress(HeadwayError):
        measuring = source()
        measuring.begin()
        measuring.close()
        del measuring
    monkeypatch.undo()
    assert held() == before


def test_what_comes_before_the_beginning_or_after_the_end_is_an_error() -> None:
    measuring = source()
    for call in (measuring.service, measuring.read, measuring.end, measuring.take):
        with pytest.raises(RuntimeError, match="begin"):
            call()
    measuring.close()
    measuring.begin()
    measuring.close()
    measuring.close()
    with pytest.raises(RuntimeError, match=r"or close\(\)"):
        measuring.interval()
