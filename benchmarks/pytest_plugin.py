"""The variation of a test's effective progress and time from round to round beside noisy neighbours, and the cost.

A demo suite (`pytest_suite/`) runs under ``pytest --headway --headway-repeat`` while neighbours come and go at random
(`neighbours.py`). The variation of a figure is its coefficient of variation over the rounds of a test. After
that the suite runs alone, which shows how much of the variation comes from the machine itself. Many tests that do
nothing show how long measuring takes, and what it leaves in the figures.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

from headway.testing.record import Record, carried

from .common import compiled, heading, load, table
from .neighbours import coming_and_going

ROUNDS = int(os.environ.get("ROUNDS", "25"))
EMPTY = 100
"""The number of tests that do nothing."""
SUITE = Path(__file__).parent / "pytest_suite"
GOAL = 1 / 3


def _pytest(*arguments: str | Path) -> float:
    """Run pytest; return how long it took, in seconds."""
    before = time.monotonic()
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(SUITE)]
    done = subprocess.run([*words, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"pytest failed:\n{done.stdout}\n{done.stderr}")
    return time.monotonic() - before


def _measured(folder: Path, *arguments: str | Path) -> dict[str, Record]:
    """Return the record of each test, by its name."""
    report = folder / "report.xml"
    _pytest("--headway", f"--junit-xml={report}", "-o", "junit_family=xunit1", *arguments)
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        record = carried((one.attrib["name"], one.attrib["value"]) for one in case.iter("property"))
        if record is not None:
            found[case.attrib["name"]] = record
    return found


def _variation(values: list[int]) -> float:
    return statistics.stdev(values) / statistics.mean(values)


def _spreads(record: Record) -> tuple[float, float, float]:
    """Return the variation of EPI, RPI and wall time."""
    rounds = record.phases["call"]
    epi, rpi = ([value for one in rounds if (value := getattr(one, name)) is not None] for name in ("epi", "rpi"))
    return _variation(epi), _variation(rpi), _variation([one.wall for one in rounds])


def _percent(value: float) -> str:
    return f"{value * 100:.1f} %"


def _spread_table(noisy: dict[str, Record], alone: dict[str, Record]) -> str:
    rows, found = [], []
    for name, record in noisy.items():
        epi, rpi, wall = _spreads(record)
        found.append((epi, rpi, wall))
        quiet = _spreads(alone[name])
        ratio = f"{epi / wall:.2f} ({'yes' if epi <= wall * GOAL else 'no'})"
        rows.append([name, *map(_percent, (epi, rpi, wall)), ratio, *map(_percent, (quiet[0], quiet[2]))])
    epi, rpi, wall = (statistics.mean(column) for column in zip(*found, strict=True))
    middle = statistics.median(a / c for a, _, c in found)
    reached = "yes" if epi <= wall * GOAL else "no"
    rows.append(["mean of all", *map(_percent, (epi, rpi, wall)), f"{epi / wall:.2f} ({reached})", "", ""])
    titles = ["test", "EPI", "RPI", "wall time", "EPI ≤ ⅓ wall", "EPI, no noise", "wall, no noise"]
    return f"{table(titles, rows)}\n\nMedian of the tests' ratios: {middle:.2f}."


def _cost(folder: Path) -> str:
    """Return a table of the time that the plugin adds to each test."""
    many = folder / "test_many.py"
    many.write_text(f"import pytest\n@pytest.mark.parametrize('n', range({EMPTY}))\ndef test_it(n): pass\n")
    rows = []
    for source in ("proc", "bpf"):
        try:
            found = _measured(folder, many, f"--headway-source={source}")
        except SystemExit as error:
            rows.append([source, "–", "–", str(error).splitlines()[-1]])
            continue
        took = statistics.median(record.cost for record in found.values())
        calls = [record.phases["call"][0] for record in found.values()]
        floors = [record.floor.epi or 0 for record in found.values() if record.floor is not None]
        had = statistics.median(call.epi or 0 for call in calls)
        rows.append([source, f"{took / 1e6:.2f} ms", f"{floors[0] / 1e3:.0f} µs", f"{had / 1e3:.0f} µs"])
    return table(["source", "measuring a test", "EPI of nothing", "EPI of an empty test"], rows)


def main() -> None:
    """Print the tables."""
    print("\n## pytest --headway\n")
    with compiled("work") as program, tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        arguments = (SUITE, f"--headway-repeat={ROUNDS}")
        with coming_and_going(program):
            noisy = _measured(folder, *arguments)
        alone = _measured(folder, *arguments)
        print(f"Coefficients of variation over {ROUNDS} rounds of each test, neighbours coming and going.\n")
        print(_spread_table(noisy, alone))
        quality = next(iter(noisy.values())).phases["call"][0].quality
        print(f"\nQuality of EPI: {quality['epi'].value}, of RPI: {quality['rpi'].value}.\n")
        print(_cost(folder))
    print(f"\n({load()} at the end)", flush=True)


if __name__ == "__main__":
    print(heading())
    main()
