"""Processors that are turned off and on again while something is measured. They are on again afterwards in any case."""

from __future__ import annotations

import mmap
import os
import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.linux.measuring import check, disturbed, time_in

from headway.linux.bpf.programs.hotplug import Hotplug, parse_event
from headway.linux.options import Selection
from headway.linux.procfs.processors import online
from headway.linux.sources.ebpf import BpfSource

FOLDER = Path("/sys/devices/system/cpu")


@pytest.fixture
def spare() -> Iterator[tuple[int, Path]]:
    """A processor that can be turned off, and the file that does."""
    cpu = online()[-1]
    switch = FOLDER / f"cpu{cpu}" / "online"
    allowed = os.sched_getaffinity(0)
    if len(online()) < 2 or not os.access(switch, os.W_OK):
        pytest.skip("no processor can be turned off here")
    try:
        yield cpu, switch
    finally:
        turn_on(switch)
        os.sched_setaffinity(0, allowed)


def turn_on(switch: Path) -> None:
    """A processor of a virtual machine may not answer in time at once."""
    for _ in range(9):
        with suppress(OSError):
            switch.write_text("1")
            return
        time.sleep(0.2)
    switch.write_text("1")


def turn_off_and_on(switch: Path) -> None:
    try:
        switch.write_text("0")
    except OSError as error:
        pytest.skip(f"this processor cannot be turned off ({error.strerror})")
    turn_on(switch)


def touch_and_work(cpu: int) -> int:
    """On this processor, page faults, and after each of them much work; return the time of work without one, ns."""
    worked = 0
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        with mmap.mmap(-1, 30 * mmap.PAGESIZE) as pages:
            for page in range(30):
                pages[page * mmap.PAGESIZE] = 1
                faults, start = resource.getrusage(resource.RUSAGE_THREAD).ru_minflt, time.monotonic_ns()
                sum(range(100_000))
                took = time.monotonic_ns() - start
                worked += took if resource.getrusage(resource.RUSAGE_THREAD).ru_minflt == faults else 0
    finally:
        os.sched_setaffinity(0, allowed)
    return worked


@given(st.binary(max_size=200))
def test_a_message_is_about_a_processor_or_about_something_else(message: bytes) -> None:
    assert parse_event(message) is None or message.startswith(b"online@/devices/system/cpu/cpu")


@pytest.mark.parametrize(
    ("message", "cpu"),
    [
        (b"online@/devices/system/cpu/cpu12\0ACTION=online\0SUBSYSTEM=cpu\0", 12),
        (b"offline@/devices/system/cpu/cpu12\0ACTION=offline\0", None),
        (b"online@/devices/system/cpu/cpufreq\0", None),
        (b"online@/devices/system/memory/memory3\0", None),
    ],
)
def test_what_the_kernel_says_of_a_processor(message: bytes, cpu: int | None) -> None:
    assert parse_event(message) == cpu


@pytest.mark.root
@pytest.mark.alone  # the machine has one processor less meanwhile
def test_a_processor_that_was_off_has_come_back_once(spare: tuple[int, Path]) -> None:
    cpu, switch = spare
    hotplug = Hotplug()
    try:
        assert hotplug.came_back() == set()
        turn_off_and_on(switch)
        limit = time.monotonic() + 10
        while not (found := hotplug.came_back()) and time.monotonic() < limit:
            time.sleep(0.01)
        if not found:
            pytest.skip("the kernel's messages do not come here, and it was too short to be seen otherwise")
        assert found == {cpu}
        assert hotplug.came_back() == set()
    finally:
        hotplug.close()


@pytest.mark.root
@pytest.mark.alone  # the machine has one processor less meanwhile
def test_page_faults_end_on_a_processor_that_was_off(spare: tuple[int, Path]) -> None:
    """Where the end of a fault is not seen, what comes after it is charged to the fault."""
    cpu, switch = spare
    source = BpfSource(Selection(pids=(os.getpid(),)), intervals=True)
    try:
        source.begin()
        turn_off_and_on(switch)
        limit = time.monotonic() + 2
        while time.monotonic() < limit:
            source.service()
            time.sleep(0.05)
        source.interval()
        worked = touch_and_work(cpu)
        ledger = source.interval()
        check(ledger)
        (thread,) = [thread for thread in ledger.threads if thread.tid == os.getpid()]
        if "kernel.fault.minor" not in thread.states:
            pytest.skip("page faults are not seen on this kernel")
        others = disturbed(thread) - time_in(thread, "kernel.fault") - time_in(thread, "wait.")
        assert time_in(thread, "user") >= worked - others, "the work between two faults is no part of one"
    finally:
        source.close()
