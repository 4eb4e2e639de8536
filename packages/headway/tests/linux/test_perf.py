import errno
import os
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import HeadwayError
from headway.linux.perf.events import EventFinder
from headway.linux.perf.perf_event import (
    CounterReading,
    Event,
    close_all,
    open_counter,
    open_per_cpu,
    read_counter,
    why_not,
)
from headway.linux.procfs import processors

pytestmark = pytest.mark.kernel

times = st.integers(0, 2**40)


@given(st.integers(0, 2**63), times, times)
def test_a_counter_that_took_turns_is_scaled_and_one_that_never_ran_says_nothing(value: int, a: int, b: int) -> None:
    running, enabled = sorted((a, b))
    scaled = CounterReading(value, enabled, running).scaled
    if running == enabled:
        assert scaled == value
    elif running == 0:
        assert scaled is None
    else:
        assert scaled is not None
        assert scaled >= value


def test_a_software_event_of_this_thread_is_counted() -> None:
    fd = open_counter(replace(EventFinder().find("task-clock"), exclude_kernel=True), pid=0)
    try:
        began = time.monotonic_ns()
        before = read_counter(fd)
        end = time.thread_time_ns() + 5_000_000
        while time.thread_time_ns() < end:
            pass
        after = read_counter(fd)
        most = 1.001 * (
            time.monotonic_ns() - began
        )  # NTP corrects this clock by 500 ppm at most, not that of the event
    finally:
        os.close(fd)
    assert before is not None
    assert after is not None
    assert 0 < after.value - before.value <= most
    assert 0 < after.enabled - before.enabled <= most


@pytest.mark.root
def test_every_processor_gets_each_event_in_order() -> None:
    chosen = EventFinder().find_all(["context-switches,page-faults"])
    opened = open_per_cpu(chosen, processors.online())
    try:
        assert sorted(opened) == list(processors.online())
        assert all(len(fds) == 2 and read_counter(fds[0]) for fds in opened.values())
    finally:
        close_all(fd for fds in opened.values() for fd in fds)


@pytest.mark.root
def test_where_one_event_fails_nothing_is_left_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    nonsense = Event("nonsense", 0x7FFFFFF0, 1)
    with pytest.raises(HeadwayError, match="nonsense cannot be counted"):
        open_per_cpu([EventFinder().find("page-faults"), nonsense], processors.online())
    assert len(os.listdir("/proc/self/fd")) == before


def test_an_event_of_another_type_of_core_has_no_counter_there() -> None:
    elsewhere = replace(EventFinder().find("page-faults"), cpus=frozenset({4096}))
    assert open_per_cpu([elsewhere], [0]) == {0: [-1]}


@pytest.mark.parametrize(
    "number", [errno.EACCES, errno.EPERM, errno.ENOENT, errno.EINVAL, errno.EBUSY, errno.EMFILE, errno.ENOMEM, 0]
)
def test_whatever_fails_is_said_in_one_sentence(number: int) -> None:
    for name in ("cycles", "page-faults", "task-clock:u"):
        for cpu in (None, 0):
            text = why_not(EventFinder().find(name), number, cpu=cpu)
            assert text.startswith(f"{name} cannot be counted")
            assert "\n" not in text
