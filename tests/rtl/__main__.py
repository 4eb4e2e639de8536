"""``python -m tests.rtl``: synthesise the progress unit, and write the table of docs/rtl.md (``make rtl``)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import click

from headway.rtl.progress import ProgressUnit
from headway.rtl.synthesis import Cost, cost_of

DOCUMENT = Path(__file__).parents[2] / "docs/rtl.md"
KEPT = Path(__file__).parent / "costs.json"
BEGIN, END = "<!-- made by make rtl: begin -->", "<!-- made by make rtl: end -->"
THREADS = (1, 2, 6, 8)
WIDTHS = (64, 44)


@click.command()
@click.option("--threads", "-t", multiple=True, type=click.IntRange(1, 8), help="Only so many; may be repeated.")
@click.option("--width", "-w", multiple=True, type=click.IntRange(8, 64), help="Only this width; may be repeated.")
@click.option("--place", is_flag=True, help="Place and route too, for the highest clock: minutes to an hour.")
def main(threads: tuple[int, ...], width: tuple[int, ...], place: bool) -> None:
    """Synthesise the unit, keep what it costs, and write the table of docs/rtl.md."""
    costs = load()
    for many in threads or THREADS:
        for bits in width or WIDTHS:
            click.echo(f"{many} threads, {bits} bits ...", err=True)
            found = cost_of(ProgressUnit(many, bits, many), place=place)
            before = costs.get((many, bits))
            if before is not None and found == replace(before, megahertz=None):
                found = before  # the same unit, which was placed already
            costs[many, bits] = found
            save(costs)
    write(costs)


def load() -> dict[tuple[int, int], Cost]:
    """What was measured before, by threads and width."""
    rows = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else []
    return {(row.pop("threads"), row.pop("width")): Cost(**row) for row in rows}


def save(costs: Mapping[tuple[int, int], Cost]) -> None:
    rows = [{"threads": many, "width": bits, **asdict(cost)} for (many, bits), cost in sorted(costs.items())]
    KEPT.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


def rendered(costs: Mapping[tuple[int, int], Cost]) -> Iterable[str]:
    yield "| threads | bits | LUT4 | carry cells | flip-flops | highest clock |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for (many, bits), cost in sorted(costs.items(), key=lambda one: (one[0][0], -one[0][1])):
        clock = "not placed" if cost.megahertz is None else f"{cost.megahertz:.0f} MHz"
        yield f"| {many} | {bits} | {cost.luts:,} | {cost.carries:,} | {cost.flip_flops:,} | {clock} |"


def write(costs: Mapping[tuple[int, int], Cost]) -> None:
    """Put the table into the document, between its marks."""
    text = DOCUMENT.read_text(encoding="utf-8")
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    DOCUMENT.write_text("\n".join([before, *rendered(costs), after]), encoding="utf-8")


if __name__ == "__main__":
    main()
