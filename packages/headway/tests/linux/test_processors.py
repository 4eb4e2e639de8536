"""Lists of processors in the kernel's notation."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import SelectionError
from headway.linux.procfs.processors import OnlineList, isolated, online, parse_list, timer_line


def written(cpus: list[int]) -> str:
    """As the kernel writes them: ranges where they are consecutive."""
    parts: list[list[int]] = []
    for cpu in cpus:
        if parts and parts[-1][-1] == cpu - 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts)


@given(st.sets(st.integers(0, 4096), min_size=1))
def test_what_the_kernel_writes_is_read_back(cpus: set[int]) -> None:
    assert parse_list(written(sorted(cpus)) + "\n") == tuple(sorted(cpus))


@pytest.mark.parametrize(
    "text",
    ["", ",", "a", "1-", "-1", "3-1", "1,,2", "0x1", "1;2", "٣", "²", "1-2-3", "70000", "1 2", "9" * 5000, "x" * 5000],
)
def test_nonsense_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(SelectionError, match="processors") as refused:
        parse_list(text)
    assert len(str(refused.value)) < 300


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(SelectionError):
        assert parse_list(text)


def test_isolated_processors_are_those_of_either_file(tmp_path: Path) -> None:
    assert isolated(tmp_path) == frozenset()
    (tmp_path / "isolated").write_text("\n")
    (tmp_path / "nohz_full").write_text("2-3\n")
    assert isolated(tmp_path) == {2, 3}
    (tmp_path / "isolated").write_text("1,3\n")
    assert isolated(tmp_path) == {1, 2, 3}


ARM64 = """           CPU0       CPU1
 11:       3104       2950     GICv2  27 Level     arch_timer
 13:          0          0     GICv2  23 Level     arm-pmu
 47:         12          0     GICv2  79 Edge      virtio6
IPI0:       410        398       Rescheduling interrupts
Err:          0
"""


def test_the_timer_of_arm64_has_a_line_and_that_of_x86_has_none(tmp_path: Path) -> None:
    table = tmp_path / "interrupts"
    assert timer_line(table) == 0
    table.write_text(ARM64)
    assert timer_line(table) == 11
    table.write_text(ARM64.replace(" 11:", "\x1f11:"))
    assert timer_line(table) == 11
    table.write_text("  CPU0\n  0:  40  IO-APIC  2-edge  timer\nLOC:  9000  Local timer interrupts\n")
    assert timer_line(table) == 0


@given(st.text(max_size=200))
def test_any_table_of_interrupts_is_read(text: str) -> None:
    with tempfile.NamedTemporaryFile("w", errors="replace") as file:
        file.write(text)
        file.flush()
        assert timer_line(Path(file.name)) >= 0


def test_the_list_that_stays_open_is_what_the_file_says_now(tmp_path: Path) -> None:
    file = tmp_path / "online"
    file.write_text("0-3\n")
    listed = OnlineList(tmp_path)
    assert list(listed.processors) == list(online(tmp_path)) == [0, 1, 2, 3]
    file.write_text("0,2-3\n")
    assert list(listed.processors) == [0, 2, 3]
    listed.close()
    listed.close()
    assert list(listed.processors) == [0, 2, 3]
    missing = OnlineList(tmp_path / "nowhere")
    assert missing.processors == tuple(range(os.cpu_count() or 1))
