"""The programs that come with the machine, by name: what each shows, what it runs on, and its configuration.

They are in ``examples/`` of the sources, and in ``headway_machine/programs/`` once installed. ``programs.toml`` beside
them lists them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from headway.errors import HeadwayError

from .config import Config

if TYPE_CHECKING:
    from .image import MachineImage

__all__ = ["Program", "contents", "program_of", "programs"]

_NEAREST = 3


@dataclass(frozen=True, slots=True)
class Program:
    """A program that comes with the machine."""

    name: str
    shows: str
    """What can be seen in its report, in a few words."""
    threads: int | None
    """How many threads of the guest kernel it has. None: it runs without a kernel."""
    harts: int | None
    """How many harts run it. None: all that the machine has."""
    configuration: str | None
    """The name of the file with the configuration that it needs. None: it runs on the machine's defaults."""

    def read(self) -> bytes:
        """Return its ELF file."""
        return _folder().joinpath(f"{self.name}.elf").read_bytes()

    @property
    def path(self) -> str:
        """The path of its ELF file."""
        return str(_folder().joinpath(f"{self.name}.elf"))

    def image(self) -> MachineImage:
        """Return its image, built."""
        from .image import MachineImage

        return MachineImage.of(self.read(), f"{self.name}.elf")

    def config(self) -> Config:
        """Return the configuration that it needs."""
        if self.configuration is None:
            return Config()
        text = _folder().joinpath(self.configuration).read_text(encoding="utf-8")
        return Config.from_text(text, self.configuration)


def _folder() -> Traversable:
    return files(__package__).joinpath("programs")


@cache
def programs() -> Mapping[str, Program]:
    """Return all programs by name, in the order in which they are listed."""
    listed = tomllib.loads(_folder().joinpath("programs.toml").read_text(encoding="utf-8"))
    return {
        name: Program(name, entry["shows"], entry.get("threads"), entry["harts"] or None, entry.get("config"))
        for name, entry in listed.items()
    }


def contents() -> Mapping[str, Callable[[], bytes]]:
    """Return what reads the ELF file of each program, by name. It is an entry point of the group headway.programs."""
    return {name: program.read for name, program in programs().items()}


def program_of(name: str) -> Program:
    """Return the program of this name. Raises HeadwayError, with the nearest names, if there is none."""
    known = programs()
    if name in known:
        return known[name]
    near = get_close_matches(name[:40].removesuffix(".elf"), known, _NEAREST)
    means = f", such as {', '.join(near)}" if near else ""
    raise HeadwayError(
        f"{name!a} is neither a file nor a program of the machine",
        f"give a name that headway machine list shows{means}",
    )
