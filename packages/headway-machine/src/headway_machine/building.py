"""Building programs for the machine: a RISC-V compiler, and what it must be told.

A program stands on the guest kernel (threads), on picolibc (ordinary C, one hart), or on nothing but the start-up code
of ``guest/bare.S``. The compilers of distributions are for 64 bits and have libraries for some other architectures too.
They choose these by ``-march`` and ``-mabi``, and compare ``-march`` literally. They have none for
``rv32imac_zicsr_zifencei``, and then link those for 64 bits. So ``-march`` is ``rv32imac``, in version 2.2 of the
instruction set, in which that has the instructions of Zicsr and Zifencei (GCC, "RISC-V Options", ``-misa-spec``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from enum import Enum
from importlib.resources import files
from pathlib import Path

from headway.errors import HeadwayError
from headway.files import open_regular

from .config import RAM

__all__ = ["Base", "Compiler", "base_of", "build", "find_compiler", "new_program"]

_COMPILERS = ("riscv64-unknown-elf-gcc", "riscv32-unknown-elf-gcc", "riscv-none-elf-gcc", "riscv64-elf-gcc")
_INSTALL = "install one: Debian and Ubuntu have it in gcc-riscv64-unknown-elf, Arch Linux in riscv64-elf-gcc"
_ARCHITECTURE = ("-march=rv32imac", "-mabi=ilp32", "-misa-spec=2.2")
_KERNEL = ("entry.S", "harts.c", "schedule.c", "trap.c", "threads.c", "locks.c", "devices.c", "malloc.c", "print.c")
_PROFILES = ("profiles.c",)
_BARE = ("bare.S", "bare.c")
_BOTH = ("text.c", "arguments.c")
_FREESTANDING = (
    *("-ffreestanding", "-fno-builtin", "-fno-pic", "-fno-common", "-ffunction-sections", "-fdata-sections"),
    *("-fno-asynchronous-unwind-tables", "-msmall-data-limit=0", "-nostdlib", "-static"),
    *("-Wl,--gc-sections", "-Wl,-z,max-page-size=64"),
)
_FLASH, _FLASH_SIZE, _DATA_SIZE = RAM, 2 << 20, 4 << 20
_LONGEST = 1 << 20


class Base(Enum):
    """What a program stands on."""

    KERNEL = "kernel"
    BARE = "bare"
    PICOLIBC = "picolibc"


class Compiler:
    """A RISC-V compiler that is installed."""

    def __init__(self, path: str) -> None:
        self.path = path

    def has_picolibc(self) -> bool:
        """Return whether picolibc is there, with libraries for 32 bits."""
        return bool(self._ask("-print-file-name=picolibc.specs", "picolibc.specs"))

    def _ask(self, question: str, nothing: str) -> str:
        done = subprocess.run([self.path, *_ARCHITECTURE[:2], question], capture_output=True, text=True, check=False)
        answer = done.stdout.strip()
        return "" if done.returncode or answer == nothing else answer

    def command(self, sources: Sequence[str], output: str, base: Base, more: Sequence[str] = ()) -> list[str]:
        """Return the command that builds a program. ``more`` are options of the compiler, after all others."""
        common = [self.path, *_ARCHITECTURE, "-O2", "-g", "-Wall", "-Wextra"]
        guest = str(_guest())
        if base is Base.PICOLIBC:
            data = _FLASH + _FLASH_SIZE
            places = {
                "__flash": _FLASH,
                "__flash_size": _FLASH_SIZE,
                "__ram": data,
                "__ram_size": _DATA_SIZE,
            }
            linked = [f"-Wl,--defsym={name}={value:#x}" for name, value in places.items()]
            return [
                *(*common, "--specs=picolibc.specs", "--oslib=semihost", "--crt0=semihost"),
                *(f"-I{guest}", *sources, *more, "-o", output, *linked),
            ]
        profiled = base is Base.KERNEL and _includes(sources, b'"profiles.h"')
        parts = (*(_KERNEL if base is Base.KERNEL else _BARE), *_BOTH, *(_PROFILES if profiled else ()))
        own = [os.path.join(guest, name) for name in parts]
        wrapped = ["-Wl,--wrap=choose,--wrap=trap"] if profiled else []
        return [
            *(*common, *_FREESTANDING, *wrapped, f"-I{guest}", "-T", os.path.join(guest, "link.ld")),
            *(*own, *sources, *more, "-lgcc", "-o", output),
        ]


def _guest() -> Path:
    return Path(__file__).with_name("guest")


def find_compiler() -> Compiler:
    """Return the RISC-V compiler: that of the environment variable RISCV_CC, or the first that is known and installed.

    Raises HeadwayError, with what to install, if there is none.
    """
    named = os.environ.get("RISCV_CC")
    for name in (named,) if named else _COMPILERS:
        found = shutil.which(name)
        if found:
            return Compiler(found)
    if named:
        raise HeadwayError(f"RISCV_CC is {named!a}, which is no program", "name a RISC-V gcc, or unset it")
    raise HeadwayError("there is no RISC-V compiler", _INSTALL)


def base_of(sources: Sequence[str]) -> Base:
    """Return what programs of these sources stand on, by the header that they include.

    Raises HeadwayError if one cannot be read.
    """
    if _includes(sources, b'"headway_guest.h"', b'"profiles.h"'):
        return Base.KERNEL
    if _includes(sources, b'"bare.h"'):
        return Base.BARE
    return Base.PICOLIBC


def _includes(sources: Sequence[str], *headers: bytes) -> bool:
    """Return whether a source names one of these headers. Raises HeadwayError if one cannot be read."""
    for source in sources:
        try:
            with open_regular(source) as stream:
                text = stream.read(_LONGEST)
        except OSError as error:
            raise HeadwayError(f"{source!a} cannot be read ({error.strerror})") from None
        if any(header in text for header in headers):
            return True
    return False


def build(sources: Sequence[str], output: str, base: Base, more: Sequence[str] = ()) -> int:
    """Build a program; the compiler writes its messages to standard error. Return its exit status.

    Raises HeadwayError if there is no compiler, or no picolibc where that is needed.
    """
    compiler = find_compiler()
    if base is Base.PICOLIBC and not compiler.has_picolibc():
        raise HeadwayError(
            f"{compiler.path} has no C library for programs without headway_guest.h or bare.h",
            "install picolibc (Debian and Ubuntu: picolibc-riscv64-unknown-elf), or build with --on kernel or bare",
        )
    return subprocess.run(compiler.command(sources, output, base, more), check=False).returncode


def new_program(folder: str) -> list[str]:
    """Write a first program with threads and its Makefile into a folder, which may exist. Return the files' paths.

    Raises HeadwayError if a file of that name is there already, or if it cannot be written.
    """
    template = files(__package__).joinpath("template")
    contents = {name: template.joinpath(name).read_text(encoding="utf-8") for name in ("main.c", "Makefile")}
    written = []
    try:
        os.makedirs(folder, exist_ok=True)
        for name, text in contents.items():
            path = os.path.join(folder, name)
            with open(path, "x", encoding="utf-8") as stream:
                stream.write(text)
            written.append(path)
    except FileExistsError as error:
        raise HeadwayError(f"{error.filename!a} exists: name another folder") from None
    except OSError as error:
        raise HeadwayError(f"{folder!a} cannot be written ({error.strerror}): name another folder") from None
    return written
