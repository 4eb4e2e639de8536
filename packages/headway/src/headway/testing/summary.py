"""The table at the end of a test run: every test's progress beside its time, the largest slowdown first.

Lines fit the terminal's width, for which 80 columns are enough. Tests without room are counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headway.model import Quality
from headway.views.figures import MARKS, NOTHING, with_unit
from headway.views.printable import clean, fit, width_of

from .comparison import Verdict
from .levels import FigureLevel, level
from .progress import PhaseProgress

__all__ = ["SLOWER", "UNSURE", "SummaryRow", "table"]

SLOWER, UNSURE, HEAD = "slower", "unsure", "head"
"""The styles of lines that stand out."""
_FIGURE = 7
_WIDE = 100
"""The width from which on there is room for more columns."""
MAX_ROWS = 20


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A test, or a part of it."""

    name: str
    rounds: Sequence[PhaseProgress]
    verdict: Verdict | None = None
    parts: Sequence[SummaryRow] = field(default_factory=tuple)

    @property
    def change(self) -> float | None:
        """The largest increase of the test and its parts."""
        changes = [row.verdict.change for row in (self, *self.parts) if row.verdict is not None]
        return max((change for change in changes if change is not None), default=None)

    def order(self) -> tuple[float, int]:
        """Return the sort key."""
        figure = _level(self.rounds, "epi") or _level(self.rounds, "rpi")
        change = self.change
        return -(change if change is not None else float("-inf")), -(figure.median if figure is not None else 0)


def _level(rounds: Sequence[PhaseProgress], figure: str) -> FigureLevel | None:
    return level([getattr(one, figure) for one in rounds])


def table(rows: Iterable[SummaryRow], width: int, *, most: int | None = MAX_ROWS) -> list[tuple[str, str]]:
    """Return lines and their styles (empty: none). ``most`` limits the number of tests; None: all."""
    ordered = sorted(rows, key=SummaryRow.order)
    shown = ordered[:most]
    compared = any(row.change is not None for row in ordered)
    repeated = any(len(row.rounds) > 1 for row in ordered)
    columns = ["EPI", "RPI"]
    columns += ["spread"] if repeated else []
    columns += (["before"] if width >= _WIDE else []) + ["change"] if compared else []
    columns += (["kernel", "poll"] if width >= _WIDE else []) + ["ready", "time"]
    room = max(width - len(columns) * (_FIGURE + 1) - 1, 12)
    longest = max((width_of(clean(row.name)) for row in shown), default=0)
    room = min(room, max(longest, 12))
    lines = [(_line("test", dict(zip(columns, columns, strict=True)), room, columns), HEAD)]
    for row in shown:
        lines.append((_line(row.name, _cells(row), room, columns), _style(row.verdict)))
        for part in row.parts:
            lines.append((_line(f"  {part.name}", _cells(part), room, columns), _style(part.verdict)))
    if len(ordered) > len(shown):
        lines.append((f"… and {len(ordered) - len(shown):,} more: -v shows all", ""))
    return lines


def _line(name: str, cells: Mapping[str, str], room: int, columns: Sequence[str]) -> str:
    text = clean(name, 10_000)
    if width_of(text) > room:  # the end of a node id is more specific than its beginning
        kept = text
        while width_of(kept) > room - 1:
            kept = kept[max((width_of(kept) - room + 1) // 2, 1) :]
        text = "…" + kept
    # The text is clean: it has no tabs and no control characters.
    return " ".join([fit(text, room), *(fit(cells.get(name, ""), _FIGURE, right=True) for name in columns)]).rstrip()


def _cells(row: SummaryRow) -> dict[str, str]:
    first = row.rounds[0]
    unit = first.unit
    found = {name: _figure(row.rounds, name, unit) for name in ("epi", "rpi", "kpi", "iopi")}
    verdict = row.verdict
    compared = _level(row.rounds, verdict.figure if verdict is not None and verdict.figure else "epi")
    compared = compared or _level(row.rounds, "rpi")
    cells = {
        "EPI": found["epi"],
        "RPI": found["rpi"],
        "kernel": found["kpi"],
        "poll": found["iopi"],
        "spread": _spread(compared),
        "ready": _time(row.rounds, "ready"),
        "time": _time(row.rounds, "wall"),
    }
    if verdict is not None:
        cells["change"] = _change(verdict)
        cells["before"] = with_unit(verdict.before, unit, _FIGURE) if verdict.figure else "–"
    return cells


def _figure(rounds: Sequence[PhaseProgress], name: str, unit: str) -> str:
    had = _level(rounds, name)
    if had is None:
        return "–"
    quality = rounds[0].quality.get(name, Quality.EXACT)
    text = with_unit(had.median, unit, _FIGURE - 1)
    return text if text == NOTHING else MARKS[quality] + text


def _time(rounds: Sequence[PhaseProgress], name: str) -> str:
    had = _level(rounds, name)
    return "–" if had is None else with_unit(had.median, "ns", _FIGURE)


def _spread(had: FigureLevel | None) -> str:
    if had is None or had.spread is None or not had.median:
        return "–"
    return f"{had.spread / had.median * 100:.1f} %"


def _change(verdict: Verdict) -> str:
    change = verdict.change
    if change is None:
        return "–" if verdict.why_not != "not in the baseline" else "new"
    text = f"{change * 100:+.0f} %" if abs(change) < 10 else f"×{verdict.now / verdict.before:.0f}"
    return text + ("?" if verdict.above and not verdict.slower else "")


def _style(verdict: Verdict | None) -> str:
    if verdict is None or not verdict.above:
        return ""
    return SLOWER if verdict.slower else UNSURE
