"""``python -m tools.wheels``: see the command's help."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .debian import Debian
from .errors import ToolError
from .libraries import copy_sources
from .target import TARGETS
from .wheel import build_wheel
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
        for machine in given.machines or TARGETS:
            print(f"building the wheel for {machine} ...", file=sys.stderr, flush=True)
            print(build_wheel(workshop, debian, TARGETS[machine], given.output))
        copy_sources(debian, given.output / "sources")
    except ToolError as error:
        print(f"wheels: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
