"""Lists of processors in the kernel's notation."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.errors import SelectionError
from headway.linux.processors import isolated, parse_list


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


@pytest.mark.parametrize("text", ["", ",", "a", "1-", "-1", "3-1", "1,,2", "0x1", "1;2", "٣", "1-2-3", "70000", "1 2"])
def test_nonsense_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(SelectionError, match="processors"):
        parse_list(text)


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
