"""What each version of Linux has (kernel_features.toml), and what eBPF objects use that is newer than they may."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .bpf_objects import BpfObject, Function, Place
from .bpf_reach import reached_by_program
from .bpf_uses import Feature, Use, attachment, uses

__all__ = ["Need", "Optional", "Table", "objections", "stale", "version"]

SETTINGS = "settings"
"""The read-only variable whose members switch parts of the programs off."""

_MAX_SHOWN = 4
"""Programs that a sentence names."""

_KINDS = {
    "attach": "the type of program",
    "instructions": "the instruction",
    "programs": "the construct",
    "kernel_functions": "the kernel function",
    "types": "the BTF kind",
    "type_tags": "the BTF tag",
    "map_types": "the map type",
    "map_flags": "the map flag",
    "helpers": "the helper",
}
"""Tables of features, and what to call what is in them."""

Version = tuple[int, ...]


class Need(NamedTuple):
    """Since when a kernel has a feature."""

    since: Version
    commit: str
    reached: bool
    """A kernel without it refuses it only where the verifier gets to."""


@dataclass(frozen=True, slots=True)
class Optional:
    """A feature that objects use only on kernels which have it."""

    feature: Feature
    architectures: tuple[str, ...]
    """Where it is newer than the floor."""
    probe: str
    """What finds out whether the running kernel has it, as ``module:attribute``."""
    why: str
    off: Mapping[str, int] = field(default_factory=dict)
    """The settings that switch it off."""
    programs: tuple[str, ...] = ()
    """The programs that are left out."""


class Table:
    """What each version of Linux has, the oldest that objects must load on, and what of newer ones is optional."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self._content = content
        self.floor: dict[str, Version] = {name: version(text) for name, text in content["floor"].items()}
        """The oldest kernel that every object must load on, by architecture as in ``uname -m``."""
        self.optional = [_optional(each) for each in content.get("optional", ())]

    @staticmethod
    def read() -> Table:
        """Return the one beside this file."""
        return Table(tomllib.loads(Path(__file__).with_name("kernel_features.toml").read_text()))

    def features(self) -> Iterator[Feature]:
        """Yield all that is listed."""
        for table in _KINDS:
            yield from (Feature(table, key) for key in self._content[table])

    def _entry(self, feature: Feature) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = self._content[feature.table].get(feature.key)
        return found

    def name(self, feature: Feature) -> str:
        """Return what to call a feature in a sentence."""
        name = (self._entry(feature) or {}).get("name", feature.key)
        return f"{_KINDS[feature.table]} “{name}”"

    def needs(self, feature: Feature, architecture: str, program: Function | None = None) -> list[Need] | None:
        """Return all that a kernel must have for a feature in a program; None if the feature is not listed."""
        entry = self._entry(feature)
        if entry is None:
            return None
        if entry.get("sanitised"):
            return []
        later = entry.get("in", {}).get(attachment(program)) if program else None
        # A helper's number is looked up when the verifier gets to its call.
        reached = feature.table == "helpers"
        return [
            Need(version(each["since"]), each["commit"], each.get("reached", reached))
            for each in (entry, entry.get(architecture), later)
            if each is not None
        ]


def _optional(content: Mapping[str, Any]) -> Optional:
    table, _, key = content["feature"].partition(".")
    return Optional(
        feature=Feature(table, key),
        architectures=tuple(content["architectures"]),
        probe=content["probe"],
        why=content["why"],
        off=content.get("off", {}),
        programs=tuple(content.get("programs", ())),
    )


def version(text: str) -> Version:
    """Return a version as numbers, so that 5.15 is later than 5.9."""
    return tuple(int(number) for number in text.split("."))


def objections(of: BpfObject, architecture: str, table: Table, floor: Version | None = None) -> list[str]:
    """Say what an object uses that is newer than the floor, or not listed: one sentence for each feature.

    ``floor``: another version than the table's.
    """
    floor = table.floor[architecture] if floor is None else floor
    optional = {each.feature: each for each in table.optional if architecture in each.architectures}
    reached = _Reached(of)
    needed: dict[tuple[Feature, Function | None], list[Need] | None] = {}
    found: dict[tuple[Feature, str], list[Use]] = {}
    for use in uses(of):
        key = use.feature, use.program
        if key not in needed:
            needed[key] = table.needs(use.feature, architecture, use.program)
        needs = needed[key]
        if needs is None:
            words = "is not in kernel_features.toml: add it, with the version that brought it"
        elif newer := [need for need in needs if need.since > floor]:
            complaint = _complaint(use, newer, optional.get(use.feature), reached)
            if complaint is None:
                continue
            last = max(newer)
            words = f"is in Linux since {_text(last.since)} (commit {last.commit}), not in {_text(floor)}{complaint}"
        else:
            continue
        found.setdefault((use.feature, words), []).append(use)
    return [
        f"{architecture}: {table.name(feature)} {words}; it is used {_places(of, where)}"
        for (feature, words), where in found.items()
    ]


class _Reached:
    """What the verifier gets to of an object's programs with settings off; each is worked out once."""

    def __init__(self, of: BpfObject) -> None:
        self._of = of
        self._found: dict[tuple[Place, tuple[tuple[str, int], ...]], set[Place]] = {}

    def __call__(self, use: Use, off: Mapping[str, int]) -> bool:
        """Whether a use is reached. Raises KeyError if there are no such settings."""
        assert use.program is not None
        key = use.program.place, tuple(sorted(off.items()))
        if key not in self._found:
            self._found[key] = reached_by_program(self._of, use.program, self._of.constants(SETTINGS, off))
        return use.place in self._found[key]


def _complaint(use: Use, newer: Iterable[Need], optional: Optional | None, reached: _Reached) -> str | None:
    """Return what is wrong with a use of what is newer than the floor; None: it is optional, as it should be."""
    if optional is None:
        return ""
    if use.program and use.program.name in optional.programs:
        return None
    if not optional.off:
        return f", by a program that is not among those left out ({', '.join(optional.programs)})"
    settings = ", ".join(f"{name} = {value}" for name, value in optional.off.items())
    if use.program is None or use.place is None or not all(need.reached for need in newer):
        return f", and a kernel without it refuses it even in code that {settings} switches off"
    try:
        return f", and is not switched off by {settings}" if reached(use, optional.off) else None
    except KeyError as error:
        return f", and there is no setting {error.args[0]} to switch it off"


def _places(of: BpfObject, found: Iterable[Use]) -> str:
    """Say where a feature is used: programs, and lines."""
    programs = list(dict.fromkeys(use.program.name for use in found if use.program))
    lines = list(dict.fromkeys(of.line(use.place) for use in found if use.place))
    if not programs:
        return "by the object as a whole"
    shown = ", ".join(programs[:_MAX_SHOWN]) + (f" and {more} more" if (more := len(programs) - _MAX_SHOWN) > 0 else "")
    return f"by {shown}" + (f" ({', '.join(lines)})" if lines else "")


def stale(objects: Mapping[str, Iterable[BpfObject]], table: Table) -> list[str]:
    """Say which optional features need not be listed: none of the objects of an architecture uses them, or all may."""
    said = []
    for each in table.optional:
        for architecture in each.architectures:
            used = {
                use.program
                for one in objects[architecture]
                for use in uses(one)
                if use.feature == each.feature
                and any(
                    n.since > table.floor[architecture]
                    for n in table.needs(use.feature, architecture, use.program) or ()
                )
            }
            if not used:
                said.append(f"{architecture}: nothing uses {'.'.join(each.feature)}, or the floor has it: drop it")
    return said


def _text(numbers: Version) -> str:
    return ".".join(map(str, numbers))
