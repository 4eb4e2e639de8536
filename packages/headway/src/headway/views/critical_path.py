"""The critical path as a table, as rows of its pieces, and as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, TextIO

from headway.dataclass import dataclass
from headway.model import Kind, kind_of
from headway.replay.path import CriticalPath, Piece, PieceKind
from headway.text import valid

from .figures import with_unit
from .printable import clean, wrap
from .rows import Cell, write_rows

__all__ = ["PIECE_COLUMNS", "document_of_path", "lines_of", "piece_rows", "write_path"]

SCHEMA = "headway.critical-path/1"
PIECE_COLUMNS = ("start", "end", "duration", "tid", "pid", "name", "state", "kind", "what")
_WHAT = {
    PieceKind.THREAD: "thread",
    PieceKind.OUTSIDE: "outside",
    PieceKind.WAKING: "waking",
    PieceKind.BEFORE: "before",
}
_OUTSIDE = {
    "wait.disk": "a disk",
    "wait.net": "the network",
    "wait.sleep": "a timer",
    "wait.signal": "a signal",
    "wait.fault": "a page",
    "wait.reclaim": "free memory",
    "stopped": "SIGCONT",
}
_WIDTH = 80


@dataclass(frozen=True, slots=True)
class Line:
    """The time of threads of one name in one state on the critical path."""

    name: str
    state: str
    what: PieceKind
    threads: int
    time: int

    @property
    def kind(self) -> Kind:
        """The kind of the state."""
        return kind_of(self.state)


def lines_of(path: CriticalPath) -> list[Line]:
    """Return what is on the path by name of the threads, state and what it is. The times add up to the wall time."""
    times: defaultdict[tuple[str, str, PieceKind], int] = defaultdict(int)
    places: defaultdict[tuple[str, str, PieceKind], set[int]] = defaultdict(set)
    for (place, state, what), time in path.times().items():
        key = path.rows.threads[place].name, state, what
        times[key] += time
        places[key].add(place)
    found = [Line(*key, len(places[key]), time) for key, time in times.items()]
    return sorted(found, key=lambda line: (-line.time, line.name, line.state, line.what))


def piece_rows(path: CriticalPath) -> Iterator[tuple[Cell, ...]]:
    """Yield the pieces as rows of `PIECE_COLUMNS`."""
    for piece in path.pieces():
        thread = piece.thread
        yield (
            piece.start,
            piece.end,
            piece.end - piece.start,
            thread.tid,
            thread.pid,
            valid(thread.name),
            piece.state,
            kind_of(piece.state).value,
            _WHAT[piece.kind],
        )


def document_of_path(path: CriticalPath, recording: str) -> dict[str, Any]:
    """Return the document ``headway.critical-path/1``."""
    end = path.end
    thread = path.rows.threads[end.thread]

    def piece(one: Piece) -> dict[str, Any]:
        return {
            "start": one.start,
            "end": one.end,
            "tid": one.thread.tid,
            "pid": one.thread.pid,
            "name": valid(one.thread.name),
            "state": one.state,
            "what": _WHAT[one.kind],
        }

    return {
        "schema": SCHEMA,
        "recording": valid(recording),
        "time_unit": path.rows.time_unit,
        "start": end.start,
        "end": end.end,
        "thread": {"tid": thread.tid, "pid": thread.pid, "name": valid(thread.name)},
        "lines": [
            {
                "name": valid(line.name),
                "threads": line.threads,
                "state": line.state,
                "kind": line.kind.value,
                "what": _WHAT[line.what],
                "time": line.time,
            }
            for line in lines_of(path)
        ],
        "pieces": [piece(one) for one in path.pieces()],
        "notes": notes_of(path),
    }


def notes_of(path: CriticalPath) -> list[str]:
    """Return what is to be known about the path, in words."""
    return [f"{count:,} {what}" for what, count in path.rows.dropped.items()]


def write_path(stream: TextIO, path: CriticalPath, limit: int | None) -> None:
    """Write the table: what is on the path, at most ``limit`` lines and a sum of the rest."""
    rows, end = path.rows, path.end
    thread = rows.threads[end.thread]
    unit = rows.time_unit
    title = (
        f"{with_unit(end.duration, unit, 7, ' ')} from the start to the end of {clean(thread.name)} {thread.tid}, "
        f"in {len(path):,} pieces"
    )
    stream.write("\n".join(wrap(title, _WIDTH)) + "\n\n")
    lines = lines_of(path)
    shown = lines if limit is None else lines[:limit]
    table: list[tuple[Cell, ...]] = [(_who(line), _doing(line), line.time, line.time / end.duration) for line in shown]
    rest = lines[len(shown) :]
    if rest:
        time = sum(line.time for line in rest)
        table.append((f"… {len(rest)} more", "", time, time / end.duration))
    write_rows(
        stream,
        ("on the path", "state", "time", "share"),
        table,
        "table",
        width=_WIDTH,
        units={"time": unit, "share": "1"},
    )
    for note in notes_of(path):
        stream.write(f"{clean(note)}\n")


def _who(line: Line) -> str:
    name = f"{line.name} ({line.threads} threads)" if line.threads > 1 else line.name
    return f"outside, for {name}" if line.what is PieceKind.OUTSIDE else name


def _doing(line: Line) -> str:
    if line.what is PieceKind.WAKING:
        return f"{line.state}: being woken"
    if line.what is PieceKind.BEFORE:
        return "not seen yet"
    what = _OUTSIDE.get(line.state) if line.what is PieceKind.OUTSIDE else None
    return f"{line.state}: {what}" if what else line.state
