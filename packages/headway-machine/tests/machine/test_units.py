"""The list of the machine's units in its docstring: it has them all, and each uses only those before it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import headway_machine

pytestmark = pytest.mark.unit

SOURCE = Path(__file__).parents[2] / "src" / "headway_machine"
WHOLE = {"burst_alone", "compute"}
"""The loop of usual turns and its choice between operations may be longer: in parts they were a fifth slower."""
LISTED = re.findall(r"^``(\w+)\.pxd``", headway_machine.__doc__ or "", re.MULTILINE)


def test_the_list_has_every_unit_and_meson_builds_it() -> None:
    assert sorted(LISTED) == sorted(path.stem for path in SOURCE.glob("*.pxd"))
    parts = re.findall(r"^  '(\w+)\.pxd',$", (SOURCE / "meson.build").read_text(encoding="utf-8"), re.MULTILINE)
    assert parts == sorted(LISTED)


@pytest.mark.parametrize("unit", LISTED)
def test_a_unit_uses_only_those_before_it(unit: str) -> None:
    text = (SOURCE / f"{unit}.pxd").read_text(encoding="utf-8")
    used = set(re.findall(r"^from \.(\w+) cimport", text, re.MULTILINE))
    assert used <= set(LISTED[: LISTED.index(unit)])


def test_what_the_way_of_a_cycle_names_is_there() -> None:
    named = re.findall(r"``(\w+\.p[xy][dx])``,\s+``(\w+)``", headway_machine.__doc__ or "")
    assert named
    for file, function in named:
        assert re.search(rf"\b{function}\(", (SOURCE / file).read_text(encoding="utf-8")), (file, function)


def test_hardly_a_function_of_a_unit_is_longer_than_80_lines() -> None:
    long = []
    for path in SOURCE.glob("*.p[xy][dx]"):
        for function in re.split(r"^(?=(?: {4})?c?p?def .*\()", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            lines = function.rstrip().split("\n\n\n")[0].count("\n") + 1
            name = re.match(r" *c?p?def .*?(\w+)\(", function)
            if lines > 80 and name and name[1] not in WHOLE:
                long.append((path.name, function.split("\n")[0], lines))
    assert long == []
