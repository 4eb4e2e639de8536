"""The targets by name."""

from __future__ import annotations

from importlib import import_module

from .target import Target

__all__ = ["NAMES", "target_of"]

NAMES: tuple[str, ...] = (
    "hwt",
    "etrace",
    "coresight",
    "etmv3",
    "ptm",
    "etmv4",
    "itm",
    "raw",
    "perfdata",
    "ete",
    "snapshot",
    "elf",
    "dwarf",
    "recording",
    "json",
    "toml",
    "perf_map",
    "call_frames",
    "procfs",
    "regions",
    "rings",
    "sql",
)


_FAULTY = "faulty"
"""The target with which the tests try the runner."""


def target_of(name: str) -> Target:
    """Return a target; its module is imported only now. Raises KeyError if there is none of this name."""
    if name not in (*NAMES, _FAULTY):
        raise KeyError(name)
    found = import_module(f"tests.fuzz.targets.{name}").TARGET()
    assert isinstance(found, Target)
    assert found.name == name
    return found
