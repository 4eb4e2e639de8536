"""The extras of pyproject.toml: packages that are installed only on request, and the errors for missing ones.

`EXTRAS` is the only table of headway's own extras; another distribution that has some gives them to `need` itself. A
command, option or module that needs an extra calls `need` first. `explained` turns a failed import of any other
optional module into the same error.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from headway.dataclass import dataclass

from .errors import HeadwayError

__all__ = ["EXTRAS", "Extra", "MissingExtraError", "explained", "install_line", "load", "missing", "need"]


@dataclass(frozen=True, slots=True)
class Extra:
    """One extra of a distribution."""

    what: str
    """What needs the extra; the plural subject of the error's sentence."""
    packages: Mapping[str, str]
    """The imported modules, each mapped to the package that provides it."""
    compiled: str = ""
    """A compiled module of headway that is needed too and that ``make demo`` does not build; empty if there is none."""


_RECORDING = {
    "duckdb": "duckdb",
    "google.protobuf": "protobuf",
    "itanium_demangler": "itanium-demangler",
    "numpy": "numpy",
    "pyarrow": "pyarrow",
}
_IBIS = {"ibis": "ibis-framework", "sqlglot": "sqlglot"}

EXTRAS: Mapping[str, Extra] = {
    "recording": Extra("recordings, profiles and queries", _RECORDING, compiled="headway.linux.bpf.rings._transitions"),
    "functions": Extra(
        "functions of C++ and Rust programs (--noneffective, --poll, --state)",
        {"capstone": "capstone", "itanium_demangler": "itanium-demangler"},
    ),
    "spin": Extra(
        "what finds spinning (--spin)",
        _RECORDING | {"capstone": "capstone"},
        compiled="headway.linux.bpf.rings._transitions",
    ),
    "otlp": Extra(
        "metrics sent by OTLP (--otlp)",
        {
            "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
            "opentelemetry.sdk": "opentelemetry-sdk",
        },
    ),
    "ibis": Extra("queries on another engine (--engine)", _RECORDING | _IBIS),
    "spark": Extra("queries on Spark (--engine spark://...)", _RECORDING | _IBIS | {"pyspark": "pyspark"}),
    "mcp": Extra(
        "questions that other programs ask",
        _RECORDING | {"mcp": "mcp"},
        compiled="headway.linux.bpf.rings._transitions",
    ),
    "pytest": Extra("tests measured by pytest --headway", {"pytest": "pytest"}),
}
"""The extras by name, as in ``pip install 'headway[name]'``. An extra comes before those that contain it."""


class MissingExtraError(HeadwayError, ImportError):
    """An extra that is needed is not installed. The message ends with the command that installs it."""

    def __init__(self, extra: str, packages: Mapping[str, str], about: Extra | None = None) -> None:
        """Make the message. ``packages`` holds the missing modules, in the form of `Extra.packages`."""
        what, verb = (about or EXTRAS[extra]).what, "is" if len(packages) == 1 else "are"
        super().__init__(
            f"{what} need {_listed(list(packages.values()))}, which {verb} not installed: {install_line(extra)}"
        )
        self.extra = extra
        """The name of the extra."""


def install_line(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'headway[{extra}]'"


def missing(extra: str, about: Extra | None = None) -> dict[str, str]:
    """Return the modules of an extra that cannot be imported here, each with its package. Imports none of them."""
    packages = (about or EXTRAS[extra]).packages
    return {module: package for module, package in packages.items() if not _is_there(module)}


def need(extra: str, about: Extra | None = None) -> None:
    """Check that an extra can be used. ``about``: what it is, where another distribution has it.

    Raises `MissingExtraError` if a package of the extra is not installed, and `HeadwayError` if a compiled module of
    headway is missing.
    """
    compiled = (about or EXTRAS[extra]).compiled
    if compiled and not _is_there(compiled):
        raise _not_built(compiled)
    lacking = missing(extra, about)
    if lacking:
        raise MissingExtraError(extra, lacking, about)


def load(extra: str, module: str) -> Any:
    """Import a module of an extra and return it. Raises `MissingExtraError` if the extra is not installed."""
    need(extra)
    return import_module(module)


def explained(error: ModuleNotFoundError) -> HeadwayError | None:
    """Return the user's error for a failed import, or None if the module is neither optional nor compiled."""
    name = error.name or ""
    for extra, about in EXTRAS.items():
        for module, package in about.packages.items():
            if name == module or name.startswith(f"{module}.") or module.startswith(f"{name}."):
                return MissingExtraError(extra, missing(extra) or {module: package})
    package, _, compiled = name.rpartition(".")
    if package.startswith("headway.") and compiled.startswith("_"):
        return _not_built(name)
    return None


def _not_built(module: str) -> HeadwayError:
    return HeadwayError(f"{module} was not built: make demo builds only what the demo needs, make install everything")


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # a package that it is in is missing
        return False


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
