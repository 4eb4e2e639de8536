"""Whether EPI and MPI can be believed on this machine, with the figures that say so, as lines and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table
from rich.text import Text

from headway.model.verification import LOOPS, FigureVerdict, LoopRun, Verification

__all__ = ["SCHEMA", "answers", "document", "render"]

SCHEMA = "headway.verify/1"
_SAYS = {
    FigureVerdict.YES: "can be believed on this machine",
    FigureVerdict.NO: "cannot be believed on this machine",
    FigureVerdict.UNKNOWN: "cannot be verified on this machine",
}
_COLOURS = {FigureVerdict.YES: "green", FigureVerdict.NO: "red", FigureVerdict.UNKNOWN: "yellow"}
_MARKS = {True: ("✓ ", "green"), False: ("✗ ", "red"), None: ("– ", "yellow")}


def answers(verification: Verification) -> dict[str, FigureVerdict]:
    """Return whether each of EPI and MPI can be believed, by the name of the index."""
    return {index: verification.answer(index) for index in ("epi", "mpi")}


def document(verification: Verification, processors: Sequence[str]) -> dict[str, object]:
    """The verification as plain values, for JSON (headway.verify/1)."""
    return {
        "schema": SCHEMA,
        "processors": list(processors),
        "believed": {index: answer.value for index, answer in answers(verification).items()},
        "findings": [
            {"index": f.index, "expected": f.expected, "found": f.found, "kept": f.kept} for f in verification.findings
        ],
        "runs": [_run_document(run) for run in verification.runs],
        "reasons": dict(verification.reasons),
    }


def _run_document(run: LoopRun) -> dict[str, object]:
    return {
        "loop": run.loop,
        "neighbours": run.neighbours,
        "unit": run.unit,
        "own": run.own,
        "epi": run.epi,
        "mpi": run.mpi,
        "stall": run.stall,
        "instructions": run.instructions,
        "epi_per_instruction": run.per_instruction,
        "quality": {name: quality.value for name, quality in run.quality.items()},
        "counted": dict(run.counted),
    }


def render(verification: Verification, processors: Sequence[str]) -> Iterator[Text | Table]:
    """The answers, the figures of each run, and every expectation with what was found."""
    for index, answer in answers(verification).items():
        yield Text.assemble((f"{index.upper()} ", "bold"), (_SAYS[answer], _COLOURS[answer]))
    yield Text(f"processor: {' and '.join(processors)}")
    yield Text()
    yield _table(verification.runs)
    yield Text()
    for finding in verification.findings:
        yield Text.assemble(_MARKS[finding.kept], f"{finding.expected}: {finding.found}")
    for run in verification.runs:
        for name, share in run.counted.items():
            yield Text(f"  {LOOPS[run.loop]}: {name} was counted {share:.0%} of the time and scaled up", style="yellow")


def _table(runs: Sequence[LoopRun]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="")
    for title in ("run", "own code", "EPI", "MPI", "stall", "instructions", "EPI/instr."):
        table.add_column(title, justify="left" if title == "run" else "right", no_wrap=title != "run")
    for run in runs:
        per = run.per_instruction
        table.add_row(
            LOOPS[run.loop] + (f" beside {run.neighbours}" if run.neighbours else ""),
            _figure(run.own, run.unit),
            f"{'' if run.progress is not None else '≤'}{_share(run.epi, run)}",
            "–" if run.mpi is None else _share(run.mpi, run),
            "–" if run.stall is None else _share(run.stall, run),
            "–" if run.instructions is None else _figure(run.instructions, ""),
            "–" if per is None else f"{per:.3f}",
        )
    return table


def _share(part: int, run: LoopRun) -> str:
    return f"{part / run.own:.1%}" if run.own else "–"


def _figure(number: int, unit: str) -> str:
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.2f}{letter} {unit}".strip()
    return f"{number} {unit}".strip()
