"""``python -m tools.wheels``: see the command's help."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from pathlib import Path

from .debian import Debian
from .errors import ToolError
from .libraries import copy_sources
from .profile import find_llvm
from .target import TARGETS
from .wheel import build_wheels, count
from .workshop import Workshop


def main() -> int:
    """Build the requested wheels. Return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.wheels", description="Build headway's wheels.")
    parser.add_argument("machines", nargs="*", choices=[*TARGETS, []], default=[], help="unless told: all")
    parser.add_argument("-o", "--output", type=Path, default=Path("dist"), help="the folder for the wheels (dist)")
    given = parser.parse_args()
    try:
        workshop = Workshop()
        workshop.install()
        debian = Debian(workshop.path / "debian")
        with tempfile.TemporaryDirectory(prefix="headway-counts-") as scratch:
            counts = _count(workshop, debian, Path(scratch))
            for machine in given.machines or TARGETS:
                print(f"building the wheels for {machine} ...", file=sys.stderr, flush=True)
                print(*build_wheels(workshop, debian, TARGETS[machine], given.output, counts), sep="\n")
        copy_sources(debian, given.output / "sources")
    except ToolError as error:
        print(f"wheels: {error}", file=sys.stderr)
        return 1
    return 0


def _count(workshop: Workshop, debian: Debian, scratch: Path) -> Path | None:
    """Return what the reference machine does most; None, with a sentence, if this system cannot count it."""
    llvm, target = find_llvm(workshop), TARGETS.get(platform.machine())
    if llvm is None or target is None:
        print(
            "wheels: the reference machine is built without counts of what it does, and is slower by a third: install "
            "clang, its runtime and llvm in one version of 14 or later (Debian: clang-19 libclang-rt-19-dev llvm-19)",
            file=sys.stderr,
        )
        return None
    print("counting what the reference machine does ...", file=sys.stderr, flush=True)
    return count(workshop, debian, llvm, target, scratch)


if __name__ == "__main__":
    sys.exit(main())
