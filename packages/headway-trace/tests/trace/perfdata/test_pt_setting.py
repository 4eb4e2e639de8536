"""What AUXTRACE_INFO says of a trace unit of Intel PT: its clocks, and the code to which it was limited."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headway_trace.memory import Files, Part, ProcessMemory
from headway_trace.pt.filters import AddressFilter, filters_in, located
from headway_trace.pt.setting import PtSetting
from headway_trace.pt.threads import setting_of

PMU, MTC_FREQUENCY = 8, 0xF << 14


def recorded(words: list[int], config: int) -> Any:
    attributes = [SimpleNamespace(type=PMU, config=config)]
    return SimpleNamespace(
        info=SimpleNamespace(words=tuple(words)),
        conversion=None,
        processor="GenuineIntel,6,158,10",
        file=SimpleNamespace(attributes=attributes),
    )


def test_every_word_is_what_perf_writes_there() -> None:
    """The order is that of the enum in tools/perf/util/intel-pt.h, from INTEL_PT_PMU_TYPE on."""
    words = [PMU, 5, 7, 11, 1, 1 << 10, 1 << 11, 3, 0, 1, 1 << 9, MTC_FREQUENCY, 250, 2, 1 << 1, 36, 0]
    found = setting_of(recorded(words, 1 << 10 | 1 << 9 | 6 << 14))
    assert found.crystal == (250, 2)
    assert found.mtc_period == 6
    assert found.nominal == 36
    assert found.cycle_accurate
    assert found.ticks is not None
    assert (found.ticks.shift, found.ticks.multiplier, found.ticks.zero) == (5, 7, 11)
    assert (found.family, found.model, found.stepping) == (6, 158, 10)
    assert not setting_of(recorded(words, 0)).cycle_accurate


@given(st.one_of(st.text(), st.from_regex(r"GenuineIntel([,-][0-9a-fA-F]{1,5}){3}")))
def test_any_name_of_a_processor_is_read(words: str) -> None:
    assert all(0 <= number < 1000 for number in PtSetting.of_processor(words))


def test_a_processor_is_named_with_decimal_or_with_hexadecimal_numbers() -> None:
    assert PtSetting.of_processor("GenuineIntel,6,158,10") == (6, 158, 10)
    assert PtSetting.of_processor("GenuineIntel-6-9E-A") == (6, 158, 10)
    assert PtSetting.of_processor("GenuineIntel,6,9E,10") == (0, 0, 0)


def words_of(text: bytes) -> list[int]:
    data = text + bytes(-len(text) % 8)
    return [len(text), *struct.unpack(f"<{len(data) // 8}Q", data)]


def test_filters_are_read_as_perf_writes_them() -> None:
    text = b"filter 0x1040/0x80@/usr/bin/program,stop 4096/16@/usr/lib/some.so,filter 0xffffffff81000000/0x10"
    assert filters_in(words_of(text)) == [
        AddressFilter(1, 0x1040, 0x80, "/usr/bin/program"),
        AddressFilter(2, 4096, 16, "/usr/lib/some.so"),
        AddressFilter(1, 0xFFFFFFFF81000000, 0x10, ""),
    ]
    assert filters_in([]) == []
    assert filters_in([1 << 60]) == []


@given(st.binary(max_size=200), st.integers(0, 1 << 64))
def test_any_text_is_read(text: bytes, length: int) -> None:
    for one in filters_in([length, *words_of(b"filter 0x" + text)[1:]]):
        assert 0 < one.size <= 1 << 64


def test_filters_are_where_their_files_are_mapped() -> None:
    memory = ProcessMemory(Files())
    memory.add(Part(0x400000, 0x2000, "/usr/bin/program", 0x1000))
    filters = [
        AddressFilter(1, 0x1040, 0x80, "/usr/bin/program"),
        AddressFilter(1, 0x2FF0, 0x80, "/usr/bin/program"),
        AddressFilter(2, 0x40, 0x80, "/usr/bin/program"),
        AddressFilter(1, 0x40, 0x80, "/usr/bin/other"),
        AddressFilter(2, 0xFFFF0000, 0x10, ""),
    ]
    assert located(filters, memory) == (
        (1, 0x400040, 0x4000BF),
        (1, 0x401FF0, 0x401FFF),
        (2, 0xFFFF0000, 0xFFFF000F),
    )
