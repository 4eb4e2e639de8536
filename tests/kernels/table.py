"""The table of docs/headway/platforms.md: what came out on each kernel, architecture and number of processors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

__all__ = ["BEGIN", "END", "Run", "insert", "load", "render", "save"]

BEGIN, END = "<!-- made by make kernels: begin -->", "<!-- made by make kernels: end -->"
RESULTS = Path(__file__).parent / "results.json"
WORDS = {"exact": "exact", "proc": "by /proc", "refused": "refused", "skipped": "–", "wrong": "WRONG"}


@dataclass(frozen=True, slots=True)
class Run:
    """What one guest found."""

    release: str
    machine: str
    processors: int
    date: str
    finished: bool
    findings: tuple[Mapping[str, Any], ...]

    @property
    def key(self) -> tuple[str, str, int]:
        """What a later run takes the place of."""
        return self.machine, self.release, self.processors

    def renewed(self, earlier: Run | None) -> Run:
        """Return this run with what an earlier one on the same machine found beside it."""
        if earlier is None or not self.finished:
            return self
        fresh = {found["task"]: found for found in self.findings}
        tasks = dict.fromkeys((*(found["task"] for found in earlier.findings), *fresh))
        old = {found["task"]: found for found in earlier.findings}
        return replace(self, findings=tuple(fresh.get(task, old.get(task, {})) for task in tasks))

    @staticmethod
    def of(findings: Sequence[Mapping[str, Any]], finished: bool) -> Run:
        """Make one of a guest's findings, the first of which says what machine it is."""
        boot, *rest = findings
        today = datetime.now(UTC).date().isoformat()
        without = ("trace", "seconds", "reasons")
        kept = tuple({**{k: v for k, v in found.items() if k not in without}, "date": today} for found in rest)
        return Run(boot["release"], boot["machine"], boot["processors"], today, finished, kept)


def load(path: Path = RESULTS) -> dict[tuple[str, str, int], Run]:
    """Read the runs that are kept beside the code."""
    if not path.exists():
        return {}
    runs = [Run(**{**run, "findings": tuple(run["findings"])}) for run in json.loads(path.read_text())]
    return {run.key: run for run in runs}


def save(runs: Iterable[Run], path: Path = RESULTS) -> None:
    """Keep runs."""
    path.write_text(json.dumps([asdict(run) for run in sorted(runs, key=lambda r: r.key)], indent=1) + "\n")


def render(runs: Sequence[Run]) -> str:
    """Return the table in Markdown, then the reasons.

    A column is a guest. A row is for all shapes and programs of which the same was found in every guest.
    """
    runs = sorted(runs, key=lambda run: (run.machine, _version(run.release), run.processors))
    tasks = list(dict.fromkeys(found["task"] for run in runs for found in run.findings))
    lines = ["| | " + " | ".join(f"{run.release}<br>{run.machine} × {run.processors}" for run in runs) + " |"]
    lines.append("|---|" + "---|" * len(runs))
    notes: dict[str, int] = {}
    rows: dict[tuple[str, ...], list[str]] = {}
    for task in tasks:
        cells = []
        for run in runs:
            found = next((found for found in run.findings if found["task"] == task), None)
            cells.append(_cell(found, notes, finished=run.finished))
        rows.setdefault(tuple(cells), []).append(task)
    lines += [f"| {_title(same)} | " + " | ".join(cells) + " |" for cells, same in rows.items()]
    lines.append("| date | " + " | ".join(_dates(run) for run in runs) + " |")
    text = "\n".join(lines) + "\n"
    for why, number in notes.items():
        text += f"\n[{number}] {why}\n"
    return text


def _title(tasks: Iterable[str]) -> str:
    """Name the shapes, loads and programs of a row."""
    names: dict[str, list[str]] = {"": [], "load: ": [], "program: ": []}
    for task in tasks:
        kind, _, name = task.partition(": ")
        prefix = {"shape": "", "load": "load: "}.get(kind, "program: ")
        names[prefix].append(name if prefix == "program: " else f"`{name}`")
    return ", ".join(f"{prefix}{', '.join(some)}" for prefix, some in names.items() if some)


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("-")[0].split(".") if part.isdigit())


def _dates(run: Run) -> str:
    """When it was found: one day, or the first and the last."""
    dates = sorted({found.get("date", run.date) for found in run.findings}) or [run.date]
    return dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"


def _cell(found: Mapping[str, Any] | None, notes: dict[str, int], *, finished: bool) -> str:
    if found is None:
        return "not run" if finished else "the guest hung"
    word = WORDS[found["verdict"]]
    why = found.get("why")
    lost = ", ".join(f"{name.replace('_', ' ')} {number}" for name, number in (found.get("losses") or {}).items())
    if not why:
        return f"{word}, lost: {lost}" if lost else word
    why = " ".join(str(why).split())
    return f"{word} [{notes.setdefault(why, len(notes) + 1)}]"


def insert(document: Path, table: str) -> None:
    """Put the table into a document, between the marks."""
    text = document.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    document.write_text(f"{before}{BEGIN}\n\n{table}\n{END}{after}")
