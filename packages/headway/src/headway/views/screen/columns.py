"""The columns of the screen's list, and the text of a row in each.

Figures are shares of the interval: 100 % is one processor, or off it one thread, for all of the interval. So those of a
group are the sums of its threads' figures, and may be larger. A narrow terminal shows few columns, a wider one more;
the bar, the history and the reason of waiting grow with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field

from headway.dataclass import dataclass
from headway.model import Amounts, GroupBy, Kind, Ledger, Precision, Quality, indices_of
from headway.views.figures import MARKS, NOTHING
from headway.views.lines import Line
from headway.views.printable import clean, fit, fit_name, width_of

from .bar import bar, spark
from .roster import KEPT, GroupRow, Key, Order, ThreadRow, waits_most_for

__all__ = ["Column", "ColumnLayout", "line_of", "per_cent", "titles"]

_NOTABLE = 0.10
"""A loss of this share of the time in which a thread was able to run is highlighted."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name here and in `roster.ORDERS`, its title, and its width."""

    name: str
    title: str
    width: int


_FIGURES: Mapping[str, tuple[str, str]] = {
    "rpi": ("RPI", "rpi"),
    "epi": ("EPI", "epi"),
    "te": ("TE", "te"),
    "memory": ("mem", "mpi"),
    "kernel": ("kern", "kpi"),
    "poll": ("poll", "iopi"),
    "stall": ("stall", "mpi"),
    "stolen": ("stoln", ""),
    "ready": ("ready", ""),
    "wait": ("wait", ""),
}
"""The title, and the index whose quality the column has."""
_BY_SAMPLES = frozenset({"epi", "te", "memory", "kernel", "poll", "stall"})
"""The columns whose figures are marked where samples or cycles divided them."""
_ORDER = ("name", "tid", "pid", *_FIGURES, "bar", "history", "for")
_MORE = (
    ("kernel", 96),
    ("ready", 96),
    ("wait", 112),
    ("poll", 120),
    ("memory", 128),
    ("pid", 136),
    ("stolen", 144),
    ("stall", 160),
)
"""Columns that need a wide screen, and the width from which on they are shown."""
_LESS = (("te", 64), ("for", 72), ("history", 56), ("rpi", 48), ("tid", 40))
"""Columns that are dropped on a narrow screen, and the width below which."""
_WORDS = {"name": "thread", "tid": "tid", "pid": "pid", "bar": "", "history": "history", "for": "waits for"}
_STRETCH = (("bar", 16, 48, 4), ("history", 7, KEPT, 3), ("for", 9, 22, 1), ("name", 15, 28, 1))
"""Name, smallest and largest width, and the part of the remaining room that the column gets."""


@dataclass(frozen=True, slots=True)
class ColumnLayout:
    """The columns in their order, for one width and one type of ledger."""

    columns: tuple[Column, ...]
    marks: Mapping[str, str]
    """The mark before the figures of a column: ≤, ~ or nothing."""
    hidden: frozenset[str]
    """The columns whose figures are not available."""
    precision: Precision
    letters: bool = False
    """Draw bars with letters, for screens without colour."""
    divided: Ledger | None = None
    """The ledger, if samples or cycles divided time of it. Then each row has its own precision."""
    _known: dict[Key, Mapping[str, Quality]] = field(default_factory=dict)
    """The qualities of rows whose time was divided."""

    @staticmethod
    def of(ledger: Ledger, width: int, *, digits: int = 7, letters: bool = False) -> ColumnLayout:
        """Return the layout for a screen of ``width`` columns. ``digits`` is the length of the largest id."""
        divided = ledger.divided
        of_column = _qualities(ledger.worth() if divided else ledger.precision)
        # where time was divided by samples, that a figure of all is not known does not mean that none of a row is
        of_source = {**_qualities(ledger.precision), "poll": of_column["poll"]} if divided else of_column
        hidden = frozenset(name for name, worth in of_source.items() if worth is Quality.UNAVAILABLE)
        names = [name for name in _ORDER if name not in {more for more, least in _MORE if width < least}]
        names = [name for name in names if name not in {less for less, least in _LESS if width < least}]
        # columns that can never have a figure on this machine or kernel leave their room to others
        names = [name for name in names if name not in hidden or name in ("rpi", "epi", "te")]
        widths = {name: least for name, least, _, _ in _STRETCH if name in names}
        for name in names:
            if name in ("tid", "pid"):
                widths[name] = digits
            elif name in _FIGURES:
                # where hardware counts, EPI and TE may be bounds for some threads only
                mark = "≤" if ledger.counted and name in ("epi", "te") else MARKS[of_column[name]]
                widths[name] = 5 + len("~" if divided and name in _BY_SAMPLES else mark)
        _stretch(widths, width - len(names) + 1)
        columns = tuple(Column(name, _title(name), widths[name]) for name in names if widths[name] > 0)
        marks = {name: MARKS[worth] for name, worth in of_column.items()}
        return ColumnLayout(columns, marks, hidden, ledger.precision, letters, ledger if divided else None)

    def quality(self, row: ThreadRow, name: str) -> tuple[str, bool]:
        """Return the mark of a figure, and whether it is unavailable: as in its column, or worse if less was seen."""
        if self.divided is not None:
            if row.key not in self._known:
                had = self.divided.amounts(*row.threads)
                self._known[row.key] = _qualities(had.worth(self.precision))
            worth = self._known[row.key][name]
            return MARKS[worth], worth is Quality.UNAVAILABLE
        if row.seen == (True, True):
            return self.marks[name], name in self.hidden
        memory, stall = row.seen
        worth = _qualities(Amounts({}, None, memory, stall).worth(self.precision))[name]
        return MARKS[worth], worth is Quality.UNAVAILABLE

    def at(self, x: int) -> str | None:
        """Return the column at position ``x`` of the screen, or None."""
        end = 0
        for column in self.columns:
            end += column.width + 1
            if x < end:
                return column.name
        return None


def _qualities(precision: Precision) -> dict[str, Quality]:
    quality = indices_of({}, precision).quality
    return {name: quality[index] if index else Quality.EXACT for name, (_, index) in _FIGURES.items()}


def _title(name: str) -> str:
    return _FIGURES[name][0] if name in _FIGURES else _WORDS[name]


def _stretch(widths: dict[str, int], room: int) -> None:
    """Distribute the remaining room to the columns that can use it, or take from them what is missing."""
    missing = sum(widths.values()) - room
    for name, _, _, _ in _STRETCH:
        if missing > 0 and name in widths:
            less = min(missing, max(widths[name] - 4, 0))
            widths[name] -= less
            missing -= less
    left = room - sum(widths.values())
    while left > 0:
        open_ = [(name, parts) for name, _, most, parts in _STRETCH if name in widths and widths[name] < most]
        if not open_:
            open_ = [("bar" if "bar" in widths else next(iter(widths)), 1)]
        for name, parts in open_:
            more = min(parts, left)
            widths[name] += more
            left -= more


def titles(layout: ColumnLayout, order: Order, width: int) -> Line:
    """Return the line above the list. The column that orders it is marked."""
    line: Line = []
    for column in layout.columns:
        title = layout.marks.get(column.name, "") + column.title
        style = "title"
        if column.name == order.column:
            arrow = "▴" if order.backwards else "▾"
            title, style = (title + arrow if len(title) < column.width else title), "sorted"
        text = fit(title, column.width, column.name in _FIGURES or column.name in ("tid", "pid"))
        line += [(text, style), (" ", "title")]
    return _padded(line, width, "title")


def line_of(row: ThreadRow, layout: ColumnLayout, width: int) -> Line:
    """Return a row in exactly ``width`` columns."""
    line: Line = []
    for column in layout.columns:
        line += _CELLS[column.name](row, column, layout) if column.name in _CELLS else _figure(row, column, layout)
        line.append((" ", ""))
    return _padded(line, width, "")


def _padded(line: Line, width: int, style: str) -> Line:
    """Replace the space after the last column by padding. What is too wide is cut at the edge of the screen."""
    line.pop()
    line.append((" " * width, style))
    return line


def per_cent(part: float) -> str:
    """Return a share of one in at most five columns. Exactly zero is a dot.

    >>> per_cent(1.0), per_cent(0.431), per_cent(0.0042), per_cent(0.00001), per_cent(0.0)
    ('100%', '43%', '0.4%', '<.1%', '·')
    >>> per_cent(38.6), per_cent(812.4)
    ('3860%', '81k%')
    """
    if part == 0:
        return NOTHING
    if part < 0.0005:
        return "<.1%"
    if part >= 99.995:
        return f"{part / 10:.0f}k%" if part < 9995 else f"{part / 10_000:.0f}M%"
    return f"{part * 100:.1f}%" if part < 0.0995 else f"{part * 100:.0f}%"


_KINDS = {
    "epi": Kind.EFFECTIVE,
    "memory": Kind.MEMORY,
    "kernel": Kind.KERNEL,
    "poll": Kind.POLL,
    "stall": Kind.STALL,
    "stolen": Kind.STOLEN,
    "ready": Kind.READY,
    "wait": Kind.WAIT,
}


def _figure(row: ThreadRow, column: Column, layout: ColumnLayout) -> Line:
    name = column.name
    mark, hidden = layout.quality(row, name)
    if hidden:
        return [("–".rjust(column.width), "dim")]
    style, rpi = "", row.rpi
    if name == "te":
        if not rpi:
            return [(NOTHING.rjust(column.width), "dim")]
        part = row.times.get(Kind.EFFECTIVE, 0) / rpi
        style = "good" if part >= 0.9 else "fair" if part >= 0.6 else "bad"
    elif name == "rpi":
        part = row.share(rpi)
    else:
        part = row.share(row.times.get(_KINDS[name], 0))
        able = rpi + row.times.get(Kind.READY, 0) + row.times.get(Kind.STOLEN, 0)
        if name not in ("epi", "wait") and row.times.get(_KINDS[name], 0) > _NOTABLE * able:
            style = "fair"
    text = per_cent(part)
    if text == NOTHING:
        return [(NOTHING.rjust(column.width), "dim")]
    return [((mark + text).rjust(column.width), style)]


def _cell_name(row: ThreadRow, column: Column, layout: ColumnLayout) -> Line:
    name = clean(row.name, 64)
    if not isinstance(row, GroupRow):
        return [(fit("  " * row.inside + fit_name(name, max(column.width - 2 * row.inside, 0)), column.width), "")]
    mark, count = "▸ " if row.folded else "▾ ", f" × {row.members:,}"
    room = column.width - len(mark) - len(count)
    if room < 4:
        return [(fit(mark + name, column.width), "title")]
    name = fit_name(name, min(room, width_of(name)))
    return [(mark, "dim"), (name, "title"), (count + " " * (room - width_of(name)), "dim")]


def _cell_tid(row: ThreadRow, column: Column, layout: ColumnLayout) -> Line:
    several = isinstance(row, GroupRow) and row.group.by is not GroupBy.PROCESS
    return [(fit("" if several else str(row.tid), column.width, True), "dim")]


def _cell_pid(row: ThreadRow, column: Column, layout: ColumnLayout) -> Line:
    return [(fit("" if row.pid is None else str(row.pid), column.width, True), "dim")]


def _cell_bar(row: ThreadRow, column: Column, layout: ColumnLayout) -> Line:
    return bar(row.times, column.width, letters=layout.letters)


def _cell_history(row: ThreadRow, column: Column, layout: ColumnLayout) -> Line:
    return [(spark(row.history, column.width), Kind.EFFECTIVE.value)]


def _cell_for(row: ThreadRow, column: Column, layout: ColumnLayout) -> Line:
    return [(fit(clean(waits_most_for(row), 256), column.width), "dim")]


_CELLS: Mapping[str, Callable[[ThreadRow, Column, ColumnLayout], Line]] = {
    "name": _cell_name,
    "tid": _cell_tid,
    "pid": _cell_pid,
    "bar": _cell_bar,
    "history": _cell_history,
    "for": _cell_for,
}
