"""The rooms of the code, from the foundation up: no import runs upwards, and none runs in a circle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

PACKAGES = Path(__file__).parent.parent / "packages"
SOURCE = PACKAGES / "headway/src/headway"
SOURCES = (SOURCE, PACKAGES / "headway-trace/src/headway_trace", PACKAGES / "headway-machine/src/headway_machine")

FLOORS = (
    {"_version", "dataclass", "errors", "lazy", "readable", "system_call", "text", "values", "when_imported"},
    {"exhaustion", "extras", "files"},
    {"other_root"},
    {"binary", "buffers", "headway_trace.riscv", "model", "regions"},
    {"web"},
    {"advice", "asyncio", "balance", "conditions", "demo", "verdict"},
    {"linux.levels"},
    {
        "linux.landlock",
        "linux.list_layout",
        "linux.options",
        "linux.privileges",
        "linux.procfs",
        "linux.structures",
        "linux.syscalls",
        "linux.time_namespace",
        "linux.toml_module",
    },
    {
        *("linux.confinement", "linux.contexts", "linux.perf", "linux.placement", "linux.regions", "linux.symbols"),
        "linux.unshared_user",
    },
    {"linux.probes"},
    {"linux.attachment", "linux.bpf"},
    {"linux.doctor", "linux.sources"},
    {"comparison", "processors", "recording"},
    {"headway_trace", "replay", "session"},
    {"headway_machine", "views"},
    {"headway_machine.rtl"},
    {"cli", "mcp", "serving", "testing"},
    {"commands", "headway_machine.commands", "headway_trace.commands"},
    {"__init__", "__main__"},
)
"""The floors, lowest first. A room may use the rooms of the floors below it."""

_CIMPORT = re.compile(r"^[ \t]*from[ \t]+([.\w]+)[ \t]+c?import[ \t]+([^\n(]+|\([^)]*\))", re.MULTILINE)


def _modules() -> dict[str, list[Path]]:
    """The modules by their names, without headway's: ``linux.bpf.programs.loading``; a package is its ``__init__``."""
    found: dict[str, list[Path]] = {}
    for path in sorted(path for source in SOURCES for path in source.rglob("*")):
        if path.suffix in (".py", ".pyx", ".pxd"):
            parts = _place(path.with_suffix(""))
            name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
            found.setdefault(name, []).append(path)
    return found


def _place(path: Path) -> tuple[str, ...]:
    """The parts of a path in the sources, from headway's own folder on, or from that of another distribution."""
    (source,) = (source for source in SOURCES if path.is_relative_to(source))
    return path.relative_to(source if source == SOURCE else source.parent).parts


MODULES = _modules()


def _absolute(path: Path, level: int, name: str) -> str:
    """The name within the package of what ``from ...name import`` names there; empty: it is not headway's."""
    if not level:
        if name.partition(".")[0] in ("headway_trace", "headway_machine"):
            return name
        return name.partition("headway.")[2] if name.startswith("headway.") else "__init__" if name == "headway" else ""
    folder = path.parent
    for _ in range(level - 1):
        folder = folder.parent
    return ".".join([*_place(folder), *([name] if name else [])]) or "__init__"


def _statements(inside: ast.AST) -> Iterator[ast.stmt]:
    """All statements, however deep; what only expressions have in them is not looked at, for it is most of the code."""
    for part in ("body", "orelse", "handlers", "finalbody", "cases"):
        for node in getattr(inside, part, ()):
            if isinstance(node, ast.stmt):
                yield node
            yield from _statements(node)


def _from_python(path: Path) -> Iterator[str]:
    for node in _statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (_absolute(path, 0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = _absolute(path, node.level, node.module or "")
            for alias in node.names:
                inner = alias.name if package == "__init__" else f"{package}.{alias.name}"
                yield inner if package and inner in MODULES else package


def _from_cython(path: Path) -> Iterator[str]:
    for module, names in _CIMPORT.findall(path.read_text(encoding="utf-8")):
        level = len(module) - len(module.lstrip("."))
        package = _absolute(path, level, module.lstrip("."))
        for name in re.findall(r"\w+", names):
            inner = f"{package}.{name}"
            yield inner if package and inner in MODULES else package


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    """What each module imports of the others."""
    found = {}
    for name, paths in MODULES.items():
        named = {other for path in paths for other in (_from_python if path.suffix == ".py" else _from_cython)(path)}
        found[name] = {other for other in named if other in MODULES} - {name}
    return found


def _room(module: str) -> str:
    first, _, rest = module.partition(".")
    within = f"{first}.{rest.partition('.')[0]}"
    return within if (first == "linux" and rest) or any(within in rooms for rooms in FLOORS) else first


def _floor(room: str) -> int:
    (floor,) = [number for number, rooms in enumerate(FLOORS) if room in rooms]
    return floor


@pytest.mark.parametrize("room", sorted({_room(module) for module in MODULES} - {"linux"}))
def test_a_room_stands_on_one_floor(room: str) -> None:
    assert sum(room in rooms for rooms in FLOORS) == 1, "name the new room in FLOORS"


def test_a_room_uses_only_what_is_below_it(imports: Mapping[str, Set[str]]) -> None:
    upwards = [
        f"{module} imports {used}"
        for module, others in imports.items()
        for used in others
        if _room(module) != _room(used) and used != "linux" and _floor(_room(used)) >= _floor(_room(module))
    ]
    assert upwards == []


HOUSES = ("headway", "headway_trace", "headway_machine")
"""The distributions, each after those that it may import. headway finds the commands of the others by entry points."""


def _house(module: str) -> int:
    first = module.partition(".")[0]
    return HOUSES.index(first) if first in HOUSES else 0


def test_no_distribution_imports_one_above_it(imports: Mapping[str, Set[str]]) -> None:
    wrong = [
        f"{module} imports {used}"
        for module, others in imports.items()
        for used in others
        if _house(used) > _house(module)
    ]
    assert wrong == []
    assert {_house(module) for module in imports} == {0, 1, 2}


def _circles(uses: Mapping[str, Set[str]]) -> list[tuple[str, ...]]:
    done: set[str] = set()

    def circle(one: str, way: tuple[str, ...]) -> tuple[str, ...]:
        if one in way:
            return (*way[way.index(one) :], one)
        if one in done:
            return ()
        for used in sorted(uses[one]):
            if found := circle(used, (*way, one)):
                return found
        done.add(one)
        return ()

    return [found for one in uses if (found := circle(one, ()))]


def test_no_module_imports_itself_by_way_of_others(imports: Mapping[str, Set[str]]) -> None:
    assert _circles(imports) == []


@pytest.mark.parametrize("folder", [SOURCE / "linux/bpf", SOURCES[2] / "guest"], ids=lambda folder: folder.name)
def test_no_header_includes_itself_by_way_of_others(folder: Path) -> None:
    """They are named from this folder on, in whichever of its folders they are."""
    paths = folder.rglob("*.h")
    headers = {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in paths}
    includes = {name: set(re.findall(r'^#include "(.+)"', text, re.MULTILINE)) for name, text in headers.items()}
    assert set().union(*includes.values()) <= set(headers)
    assert _circles(includes) == []


def test_no_header_of_the_programs_declares_what_another_one_defines() -> None:
    """Such a declaration would be an arrow that the includes do not show."""
    for path in sorted((SOURCE / "linux/bpf").rglob("*.h")):
        text = path.read_text(encoding="utf-8")
        declared = re.findall(r"^(?!static |const |_Static_assert)\w[\w *]*?(\w+)\([^;{]*\);$", text, re.MULTILINE)
        assert declared == [], path.name
