from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.linux.perf import perf_event as perf
from headway.processors import frequency
from headway.processors.frequency import MAX_HZ, Counter, Devices, by_chain, by_counter, find_counter, smi_of

TSC = 2.5e9
SECOND = 1_000_000_000
words = st.integers(0, 2**64 - 1)
spans = st.integers(1, 10**12)


def pair(width: int = 1) -> Counter:
    return Counter("pair", {0: [(-1, 0, width)] * 2}, reference=True, reference_hz={0: TSC})


CYCLES = Counter("cycles", {0: [(-1, -1, 3)]}, reference=False)


def test_of_a_processor_that_was_half_idle() -> None:
    found = by_counter(pair(), 0, (5, 7), (5 + 1_700_000_000, 7 + 1_250_000_000), SECOND, None)
    assert found.ticks == 1_700_000_000
    assert found.actual_hz == pytest.approx(3.4e9)
    assert found.broken is None


def test_without_a_reference_the_busy_time_is_one() -> None:
    before, after = (10, 0, 0), (10 + 1_700_000_000, SECOND, SECOND)
    assert by_counter(CYCLES, 0, before, after, SECOND, SECOND // 2).actual_hz == pytest.approx(3.4e9)
    assert by_counter(CYCLES, 0, before, after, SECOND, None).actual_hz is None


@given(st.tuples(words, words), st.tuples(words, words), spans)
def test_whatever_a_pair_says_no_frequency_is_one_that_no_clock_has(
    before: tuple[int, int], after: tuple[int, int], span: int
) -> None:
    found = by_counter(pair(), 0, before, after, span, None)
    if found.ticks is not None:
        assert 0 <= found.ticks <= MAX_HZ * span / SECOND
    if found.actual_hz is not None:
        assert 10e6 <= found.actual_hz <= 20e9
    if after[0] < before[0] or after[1] < before[1]:
        assert found.broken == "counter"
    if found.broken:
        assert found.ticks is None
        assert found.actual_hz is None


@given(st.lists(words, min_size=3, max_size=3), st.lists(words, min_size=3, max_size=3), spans, st.none() | spans)
def test_counts_of_perf_that_go_backwards_tell_no_frequency(
    before: list[int], after: list[int], span: int, busy: int | None
) -> None:
    found = by_counter(CYCLES, 0, before, after, span, busy)
    if after[2] - before[2] < after[1] - before[1]:
        assert found.ticks is None
    if found.actual_hz is not None:
        assert 10e6 <= found.actual_hz <= 20e9


@given(st.floats(0.1e9, 6e9), st.integers(1, 100), st.integers(10**7, 10**10))
def test_what_a_true_processor_counts_is_found_again(hz: float, per_cent: int, span: int) -> None:
    seconds = span / SECOND * per_cent / 100
    found = by_counter(pair(), 0, (0, 0), (round(hz * seconds), round(TSC * seconds)), span, None)
    assert found.actual_hz == pytest.approx(hz, rel=1e-3)
    assert found.ticks == pytest.approx(hz * seconds, rel=1e-3)


def test_a_counter_that_others_had_meanwhile_tells_nothing() -> None:
    found = by_counter(CYCLES, 0, (0, 0, 0), (10**9, SECOND, SECOND // 2), SECOND, SECOND)
    assert (found.ticks, found.actual_hz, found.broken) == (None, None, None)


def test_a_counter_whose_processor_was_off_tells_nothing() -> None:
    found = by_counter(CYCLES, 0, (0, 0, 0), (0, 0, 0), SECOND, SECOND)
    assert found.ticks is None


def test_an_idle_processor_has_no_busy_ticks_and_no_known_frequency() -> None:
    found = by_counter(pair(), 0, (5, 5), (5, 5), SECOND, None)
    assert (found.ticks, found.actual_hz) == (0, None)


def test_interrupts_of_the_firmware_are_what_their_count_grew_by() -> None:
    counter = Counter("pair", {0: [(-1, 0, 1)] * 3}, reference=True, smi=True)
    assert smi_of(counter, (0, 0, 5), (9, 9, 7)) == 2
    assert smi_of(counter, (0, 0, 7), (9, 9, 5)) is None
    assert smi_of(pair(), (0, 0), (9, 9)) is None
    assert smi_of(None, (), ()) is None


@given(st.lists(st.integers(-5, 10**7), max_size=4), st.integers(0, 20_000))
def test_chains_that_do_not_agree_tell_nothing(chains: list[int], length: int) -> None:
    hz = by_chain(chains, length)
    if hz is not None:
        assert min(chains) > 0
        assert max(chains) <= 1.021 * min(chains)
        assert hz == pytest.approx(length * 1e9 / min(chains))


def test_a_chain_of_one_cycle_an_instruction_tells_the_frequency() -> None:
    assert by_chain((2048, 2050), 8192) == pytest.approx(4.0e9)
    assert by_chain((2048, 2300), 8192) is None
    assert by_chain((), 8192) is None
    assert by_chain((5, 5), 0) is None


class Counting(Devices):
    """A machine whose counters count at these rates, Hz, while time passes: files that a thread would write to.

    Time passes when somebody asks for it.
    """

    now = 0

    def monotonic_ns(self) -> int:
        self.now += 100_000
        return self.now

    def __init__(self, rates: dict[str, float], folder: Path, refuse: dict[str, int] | None = None) -> None:
        super().__init__(folder)
        self.rates, self.refuse, self.fds = rates, refuse or {}, {}  # type: ignore[var-annotated]

    def event(self, name: str) -> perf.Event | None:
        return perf.Event(name, 99, 1) if name in self.rates else None

    def open_event(self, event: perf.Event, cpu: int) -> int:
        if event.name not in self.rates:
            raise OSError(self.refuse.get(event.name, errno.ENOENT), "no such counter")
        fd = os.open("/dev/null", os.O_RDONLY)
        self.fds[fd] = event.name
        return fd


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Counting]]:
    """Reading a counter of the machine under test gives what it would have counted by now."""
    machine: dict[str, Counting] = {}
    real = os.read

    def read(fd: int, size: int) -> bytes:
        devices = machine.get("devices")
        if devices is None or fd not in devices.fds:
            return real(fd, size)
        value = int(devices.now * devices.rates[devices.fds[fd]] / SECOND)
        return struct.pack("=3Q", value % 2**64, 1, 1)

    monkeypatch.setattr(os, "read", read)
    yield machine
    for fd in machine["devices"].fds if "devices" in machine else ():
        with pytest.raises(OSError, match="Bad file"):
            os.fstat(fd)


def find(machine: dict[str, Counting], devices: Counting) -> tuple[Counter | None, str]:
    machine["devices"] = devices
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frequency, "time", devices)
        counter, why = find_counter([0], devices)
    if counter is not None:
        counter.close()
    return counter, why


def test_the_pair_is_taken_where_it_is_and_its_reference_is_measured(
    reading: dict[str, Counting], tmp_path: Path
) -> None:
    counter, why = find(reading, Counting({"aperf": 3e9, "mperf": 2e9, "smi": 0.0}, tmp_path))
    assert counter is not None
    assert counter.name == "aperf/mperf by the msr PMU"
    assert counter.smi
    assert why == ""
    assert counter.reference_hz[0] == pytest.approx(2e9, rel=0.05)


@pytest.mark.parametrize("dead", ["aperf", "mperf"])
@pytest.mark.parametrize("rate", [0.0, 1.0, 1e15])
def test_a_counter_that_does_not_count_as_a_clock_is_not_taken(
    reading: dict[str, Counting], tmp_path: Path, dead: str, rate: float
) -> None:
    counter, why = find(reading, Counting({"aperf": 3e9, "mperf": 2e9, dead: rate, "cycles": 3e9}, tmp_path))
    assert counter is not None
    assert counter.name == "perf cycles"
    assert not counter.reference
    assert "they do not count on processor 0" in why


def test_the_msr_device_is_next(reading: dict[str, Counting], tmp_path: Path) -> None:
    """A register that is read as a constant does not count; the device is refused then, not believed."""
    device = tmp_path / "dev/cpu/0/msr"
    device.parent.mkdir(parents=True)
    device.write_bytes(struct.pack("=Q", 77) * 64)
    counter, why = find(reading, Counting({"cycles": 3e9, "ref-cycles": 2e9}, tmp_path))
    assert counter is not None
    assert counter.name == "perf cycles/ref-cycles"
    assert "/dev/cpu/*/msr: they do not count" in why


def test_without_any_there_is_none_and_it_is_said_why(reading: dict[str, Counting], tmp_path: Path) -> None:
    counter, why = find(reading, Counting({}, tmp_path, {"cycles": errno.EACCES}))
    assert counter is None
    for kind in ("msr PMU", "/dev/cpu/*/msr", "perf cycles"):
        assert kind in why
