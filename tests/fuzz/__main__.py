"""Fuzzing: ``python -m tests.fuzz [TARGET …] [--inputs N] [--seed S] [--first N]``, or one input: ``--only N``.

Findings are printed with the seed and number of their input, by which it can be made again: as a file by ``--save``,
and read again by ``--only``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .registry import NAMES, target_of
from .runner import run
from .target import outcome


def main() -> int:
    """Run what the command line says. Return how many findings there are, up to 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("targets", nargs="*", choices=[*NAMES, []], metavar="TARGET")
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="read this input in this process")
    parser.add_argument("--save", type=Path, metavar="FILE", help="with --only: write the input to a file")
    given = parser.parse_args()
    if given.only is not None:
        return _once(given.targets[0], given.seed, given.only, given.save)
    failed = 0
    for name in given.targets or NAMES:
        result = run(name, given.seed, given.first, given.inputs)
        words = ", ".join(f"{count} {what}" for what, count in sorted(result.outcomes.items()))
        rate = result.inputs / max(result.seconds, 1e-9)
        slowest = f"the slowest, number {result.slowest_number}, took {result.slowest:.2f} s of processor time"
        print(
            f"{name}: {result.inputs} inputs in {result.seconds:.0f} s ({rate:.0f}/s): {words}; {slowest}", flush=True
        )
        for found in result.findings:
            print(f"  seed {given.seed}, number {found.number}: {found.what}\n{found.report}", flush=True)
        failed |= bool(result.findings)
    return int(failed)


def _once(name: str, seed: int, number: int, save: Path | None) -> int:
    target = target_of(name)
    data = target.input(seed, number)
    if save is not None:
        save.write_bytes(data)
    print(outcome(target, data, number))
    target.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
