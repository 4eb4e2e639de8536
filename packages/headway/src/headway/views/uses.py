"""Tables of what threads used: system calls, files, sockets and locks. One line each, most time first."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from headway.dataclass import dataclass
from headway.model import Behind, Ledger
from headway.model.calls import CALLS_THAT_READ, CALLS_THAT_WRITE
from headway.model.uses import CallUse, LockUse, UsedFile, Uses, add_call_uses
from headway.verdict.holders import in_a_word

from .figures import NOTHING, share, with_unit
from .lines import Line, cut
from .printable import clean, fit, fit_name, width_of, wrap

__all__ = ["TABLES", "doing_in_words", "error_name", "received_and_sent", "use_tables"]

TABLES = ("calls", "files", "sockets", "locks")
"""The tables that can be asked for."""

_HEAD, _DIM, _UNKNOWN = "bold", "dim", "yellow"
_LINES = 20
"""Lines of a table, where no number was asked for."""
_NOTABLE = 0.1
"""A file is listed with a call if it has this share of the call's time, and the call of all time; who ended waits for a
lock, if it ended this share of the waiting. Others may have timed out."""
_FILES_OF_A_CALL = 3
_RECEIVE = frozenset({"recvfrom", "recvmsg", "recvmmsg"})
_SEND = frozenset({"sendto", "sendmsg", "sendmmsg"})
_TO_SECOND = frozenset({"splice", "tee", "copy_file_range"})
"""Calls that write to their second file. `sendfile` writes to its first."""
_NOT_KNOWN = {
    "calls": "which system calls there were is not known: ",
    "files": "which files were used is not known: ",
    "sockets": "which sockets were used is not known: ",
    "locks": "which locks threads waited for is not known: ",
}


@dataclass(frozen=True, slots=True)
class _Row:
    """A line before layout: its label, and its figures as texts."""

    label: str
    figures: tuple[str, ...]
    depth: int = 0
    style: str = ""
    note: str = ""


def use_tables(
    ledger: Ledger,
    which: Iterable[str],
    *,
    width: int = 80,
    limit: int | None = _LINES,
    verbose: bool = False,
) -> Iterator[Line]:
    """Yield the tables of `TABLES` that are asked for, in lines of at most ``width`` columns.

    Each has at most ``limit`` lines and the sum of the others (None: all lines). ``verbose``: the files of each call
    are listed, too.
    """
    uses = ledger.uses or Uses()
    for at, name in enumerate(which):
        if at:
            yield []
        if (uses.locks if name == "locks" else uses.calls) is None:
            source = "/proc" if ledger.source == "proc" else "the source"
            yield from _sentence(f"{_NOT_KNOWN[name]}{source} does not tell", width)
        else:
            yield from _MAKERS[name](ledger, uses, width, limit, verbose)


def received_and_sent(use: CallUse) -> tuple[int, int]:
    """Return the bytes that calls took out of their file, and those that they put into it."""
    into = use.call in CALLS_THAT_WRITE or use.call in _SEND or (use.call == "sendfile" and not use.second)
    into = into or (use.call in _TO_SECOND and use.second) or use.call == "vmsplice"
    return (0, use.bytes) if into else (use.bytes, 0)


# --- calls ------------------------------------------------------------------------------------------------------------


def _calls(ledger: Ledger, uses: Uses, width: int, limit: int | None, verbose: bool) -> Iterator[Line]:
    calls = [use for use in uses.calls or () if not use.second]
    by_call = sorted(add_call_uses(calls, "call").values(), key=lambda use: (-use.time, -use.count, use.call))
    whole = sum(use.time for use in by_call)
    errors: dict[str, dict[int, int]] = {}
    for (_, call, error), n in uses.errors.items():
        of = errors.setdefault(call, {})
        of[error] = of.get(error, 0) + n
    rows = []
    listed = by_call if limit is None else by_call[:limit]
    for use in listed:
        rows.append(_call_row(ledger, use, clean(use.call, 64), whole, _errors(errors.get(use.call, {}))))
        notable = whole and use.time >= _NOTABLE * whole
        if verbose or notable:
            rows += _files_of(ledger, [one for one in calls if one.call == use.call], use, verbose)
    rest = by_call[len(listed) :]
    if rest:
        rows.append(replace(_call_row(ledger, _sum(rest), f"… {len(rest):,} more", whole), style=_DIM))
    titles = ("time", 8), ("share", 6), ("processor", 10), ("waiting", 8), ("ready", 8), ("count", 9)
    yield from _table("system calls", rows, titles, width, "errors")
    yield from _about_calls(uses, width)


def _call_row(ledger: Ledger, use: CallUse, label: str, whole: int, note: str = "") -> _Row:
    unit = ledger.time_unit
    figures = (
        with_unit(use.time, unit, 7, " "),
        share(use.time / whole) if whole else "",
        with_unit(use.on, unit, 7, " "),
        with_unit(use.waited, unit, 7, " "),
        with_unit(use.ready, unit, 7, " "),
        _counted(use),
    )
    return _Row(label, figures, note=note)


def _counted(use: CallUse) -> str:
    return with_unit(use.count, "", 7) + ("+" if use.going_on else "")


def _errors(errors: Mapping[int, int]) -> str:
    """Return how many errors there were, and which was most frequent."""
    if not errors:
        return ""
    most = max(errors, key=lambda error: (errors[error], -error))
    others = "…" if len(errors) > 1 else ""
    return f"{sum(errors.values()):,} {error_name(most)}{others}"


def error_name(number: int) -> str:
    """Return the name of an error (errno(3)). The kernel's own, by which a call begins again, has none."""
    return errno.errorcode.get(number, "restart" if 512 <= number <= 516 else str(number))


def _files_of(ledger: Ledger, uses: Sequence[CallUse], of: CallUse, verbose: bool) -> Iterator[_Row]:
    """Yield the lines of the files that calls were about, those with a notable share of their time."""
    by_name: dict[str, CallUse] = {}
    for use in uses:
        if use.file is not None:  # a file that was written anew has another inode and the same name
            name = _name(use.file)
            by_name[name] = by_name[name] + use if name in by_name else use
    listed = sorted(by_name, key=lambda name: (-by_name[name].time, -by_name[name].count, name))
    notable = [name for name in listed if verbose or by_name[name].time >= _NOTABLE * of.time]
    for name in notable[: None if verbose else _FILES_OF_A_CALL]:
        errors = by_name[name].errors
        row = _call_row(ledger, by_name[name], name, of.time, f"{errors:,}" if errors else "")
        yield replace(row, depth=1, style=_DIM)


def _about_calls(uses: Uses, width: int) -> Iterator[Line]:
    if any(use.going_on for use in uses.calls or ()):
        yield from _sentence("+ calls that still go on: their time is in it, and they are not counted", width)
    if uses.without_place:
        n = f"{uses.without_place:,} calls"
        yield from _sentence(f"for the files of {n} there was no room: they are in their call's line only", width)


# --- files and sockets ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _OfFile:
    """What calls did with one file, or with several together."""

    time: int = 0
    waited: int = 0
    calls: int = 0
    reads: int = 0
    read: int = 0
    writes: int = 0
    written: int = 0
    awaited: int = 0
    """The time of waits for any of several files that this one ended."""

    def __add__(self, other: _OfFile) -> _OfFile:
        return _OfFile(
            self.time + other.time,
            self.waited + other.waited,
            self.calls + other.calls,
            self.reads + other.reads,
            self.read + other.read,
            self.writes + other.writes,
            self.written + other.written,
            self.awaited + other.awaited,
        )


def _of_files(uses: Uses, kinds: Callable[[str], bool]) -> dict[UsedFile, _OfFile]:
    found: dict[UsedFile, _OfFile] = {}
    for use in uses.calls or ():
        if use.file is None or not kinds(use.file.kind):
            continue
        read, written = received_and_sent(use)
        reads = use.count if use.call in CALLS_THAT_READ or use.call in _RECEIVE else 0
        writes = use.count if use.call in CALLS_THAT_WRITE or use.call in _SEND else 0
        if use.second or use.call == "sendfile":
            reads, writes = (use.count, 0) if read else (0, use.count)
        time, waited = (0, 0) if use.second else (use.time, use.waited)
        one = _OfFile(time, waited, use.count, reads, read, writes, written)
        found[use.file] = found.get(use.file, _OfFile()) + one
    return found


def _files(ledger: Ledger, uses: Uses, width: int, limit: int | None, verbose: bool) -> Iterator[Line]:
    found = _of_files(uses, lambda kind: kind != "socket")
    by_name: dict[str, _OfFile] = {}
    for file, used in found.items():  # a file that was written anew has another inode and the same name
        name = "pipes" if file.kind == "pipe" and not verbose else _name(file)
        by_name[name] = by_name.get(name, _OfFile()) + used
    unit = ledger.time_unit

    def row(label: str, used: _OfFile) -> _Row:
        figures = (
            with_unit(used.time, unit, 7, " "),
            with_unit(used.waited, unit, 7, " "),
            with_unit(used.reads, "", 7),
            _bytes(used.read),
            with_unit(used.writes, "", 7),
            _bytes(used.written),
        )
        return _Row(label, figures)

    titles = ("time", 8), ("waiting", 8), ("reads", 7), ("bytes", 8), ("writes", 7), ("bytes", 8)
    yield from _table("files", _limited(by_name, row, limit), titles, width)
    yield from _about_calls(replace(uses, calls=()), width)


def _sockets(ledger: Ledger, uses: Uses, width: int, limit: int | None, verbose: bool) -> Iterator[Line]:
    found = _of_files(uses, lambda kind: kind == "socket")
    awaited = _awaited(ledger)
    for file in found:
        if file.name in awaited:
            found[file] += _OfFile(awaited=awaited[file.name])
    names = {file: _ends(file) for file in found}
    if len(found) > (limit or len(found)) and not verbose:
        names = _by_service(found)
    by_name: dict[str, _OfFile] = {}
    for file, used in found.items():
        by_name[names[file]] = by_name.get(names[file], _OfFile()) + used
    unit = ledger.time_unit

    def row(label: str, used: _OfFile) -> _Row:
        figures = (
            with_unit(used.time, unit, 7, " "),
            with_unit(used.waited, unit, 7, " "),
            with_unit(used.awaited, unit, 7, " "),
            _bytes(used.read),
            _bytes(used.written),
        )
        return _Row(label, figures)

    titles = ("time", 8), ("waiting", 8), ("epoll", 8), ("in", 8), ("out", 8)
    rows = _limited(by_name, row, limit, lambda used: used.time + used.awaited)
    yield from _table("sockets", rows, titles, width)
    yield from _about_calls(replace(uses, calls=()), width)


def _awaited(ledger: Ledger) -> dict[str, int]:
    """Return how long threads waited for any of several files, by the socket that ended the wait."""
    found: dict[str, int] = {}
    for thread in ledger.threads:
        for cause in thread.causes:
            if cause.behind is Behind.OBJECT and cause.state == "wait.epoll" and cause.name.startswith("socket:"):
                name = cause.name.partition(" ")[0]
                found[name] = found.get(name, 0) + cause.time
    return found


def _by_service(files: Iterable[UsedFile]) -> dict[UsedFile, str]:
    """Return what each of many sockets is listed as: the end that it has in common with most others."""
    files = list(files)
    shared: dict[str, int] = {}
    for file in files:
        for end in (file.local, file.peer):
            if end:
                shared[end] = shared.get(end, 0) + 1
    groups: dict[str, list[UsedFile]] = {}
    for file in files:
        if not file.local and not file.peer:
            group = ""
        elif shared.get(file.local, 0) >= shared.get(file.peer, 0):
            group = f"at {file.local}"
        else:
            group = f"to {file.peer}"
        groups.setdefault(group, []).append(file)
    found = {}
    for group, members in groups.items():
        for file in members:
            if not group:
                found[file] = "sockets without a known address"
            else:
                found[file] = f"{group} ({len(members):,} sockets)" if len(members) > 1 else _ends(file)
    return found


def _ends(file: UsedFile) -> str:
    """Return the two ends of a socket."""
    if file.local and file.peer:
        return f"{file.local} – {file.peer}"
    return file.local or file.peer or file.name


def _name(file: UsedFile | None) -> str:
    if file is None:
        return ""
    return _ends(file) if file.kind == "socket" else file.name


def _limited(
    by_name: Mapping[str, _OfFile],
    row: Callable[[str, _OfFile], _Row],
    limit: int | None,
    size: Callable[[_OfFile], int] = lambda used: used.time,
) -> list[_Row]:
    """Return the rows of those with most time, and of the others together."""
    names = sorted(by_name, key=lambda name: (-size(by_name[name]), -by_name[name].calls, name))
    listed = names if limit is None else names[:limit]
    rows = [row(name, by_name[name]) for name in listed]
    rest = names[len(listed) :]
    if rest:
        total = sum((by_name[name] for name in rest), _OfFile())
        rows.append(replace(row(f"… {len(rest):,} more", total), style=_DIM))
    return rows


def _bytes(number: int) -> str:
    return with_unit(number, "bytes", 6)


def _sum(uses: Iterable[CallUse]) -> CallUse:
    total = CallUse(0, "")
    for use in uses:
        total += use
    return total


# --- locks ------------------------------------------------------------------------------------------------------------


def _locks(ledger: Ledger, uses: Uses, width: int, limit: int | None, verbose: bool) -> Iterator[Line]:
    locks = uses.locks or ()
    of_recording = any(waker.doing for lock in locks for waker in lock.wakers)
    apart = [lock for lock in locks if lock.is_lock or of_recording or verbose]
    listed = apart if limit is None else apart[:limit]
    rows = []
    unit = ledger.time_unit
    for lock in listed:
        rows.append(_lock_row(lock, unit))
        for holder in (lock.holders or lock.wakers)[: None if verbose else 1]:
            if said := doing_in_words(holder.doing, verbose):
                rows.append(_Row(f"{holder.name} meanwhile: {said}", (), depth=1, style=_DIM))
    rest = apart[len(listed) :]
    if rest:
        waited, waits = sum(one.waited for one in rest), sum(one.waits for one in rest)
        figures = with_unit(waits, "", 7), with_unit(waited, unit, 7, " "), ""
        rows.append(_Row(f"… {len(rest):,} more", figures, style=_DIM))
    others = [lock for lock in locks if lock not in apart]
    if others:
        waited, waits = sum(one.waited for one in others), sum(one.waits for one in others)
        figures = with_unit(waits, "", 7), with_unit(waited, unit, 7, " "), ""
        label = f"{len(others):,} without a known holder" if apart else f"{len(others):,} futexes, of no known holder"
        rows.append(_Row(label, figures, style=_DIM, note="conditions, or rests"))
    titles = ("waits", 8), ("waiting", 9), ("held", 9)
    yield from _table("locks", rows, titles, width, "held by")


def _lock_row(lock: LockUse, unit: str) -> _Row:
    held = "–" if lock.held is None else with_unit(lock.held, unit, 7, " ")
    figures = with_unit(lock.waits, "", 7), with_unit(lock.waited, unit, 7, " "), held
    threads = lock.holders or [one for one in lock.wakers if one.waited >= _NOTABLE * lock.waited]
    if not threads:
        return _Row(lock.name, figures, note="not known")
    first, others = threads[0], len(threads) - 1
    part = f" {share(first.waited / lock.waited)}" if lock.waited else ""
    note = f"{first.name} {first.tid}{part}" + (f" +{others}" if others else "")
    return _Row(lock.name, figures, note=note if lock.holders else f"woken by {note}")


def doing_in_words(doing: Mapping[str, int], verbose: bool = False) -> str:
    """Return what a thread did, as in ``disk 80 %, own code 15 %``; empty: that is not known."""
    whole = sum(doing.values())
    if whole <= 0:
        return ""
    by_word: dict[str, int] = {}
    for state, time in doing.items():
        word = state if verbose else in_a_word(state)
        by_word[word] = by_word.get(word, 0) + time
    words = sorted(by_word.items(), key=lambda item: (-item[1], item[0]))
    listed = [(word, time) for word, time in words if time >= 0.05 * whole][: None if verbose else 3]
    return ", ".join(f"{word} {share(time / whole)}" for word, time in listed)


# --- layout -----------------------------------------------------------------------------------------------------------

_LEAST_LABEL = 17
_END_OF_A_PATH = 0.75
"""The part of a label that is cut: a path is told by its end."""


def _table(
    title: str, rows: Sequence[_Row], columns: Sequence[tuple[str, int]], width: int, note: str = ""
) -> Iterator[Line]:
    """Yield a table: the label, the columns, and a note to their right. Columns are dropped from the right for room."""
    if not rows:
        yield from _sentence(f"no {title} were used" if title != "locks" else "no thread waited for a lock", width)
        return
    columns = list(columns)
    while columns and width - sum(w for _, w in columns) < _LEAST_LABEL:
        columns.pop()
    taken = sum(w for _, w in columns)
    longest = max([width_of(title), *(2 * row.depth + width_of(row.label) for row in rows if row.figures)])
    notes = max([width_of(note), *(width_of(row.note) for row in rows)]) + 2 if note else 0
    room = width - taken
    label = max(min(longest, max(room - notes, min(_LEAST_LABEL, room))), 1)
    head = "".join(name.rjust(w) for name, w in columns)
    left = width - label - taken
    line = [(fit(title, label), _HEAD), (head, _DIM), (f"  {note}"[: max(left, 0)] if note else "", _DIM)]
    yield cut(line, width)
    for row in rows:
        yield cut(_row(row, columns, label, left, width), width)


def _row(row: _Row, columns: Sequence[tuple[str, int]], label: int, left: int, width: int) -> Line:
    indent = "  " * row.depth if label > _LEAST_LABEL // 2 else ""
    if not row.figures:
        return [(fit(indent + clean(row.label, 1024), width).rstrip(), row.style)]
    line: Line = [(indent + fit_name(clean(row.label, 1024), label - len(indent), _END_OF_A_PATH), row.style)]
    for text, (name, w) in zip(row.figures, columns, strict=False):
        style = row.style or (_DIM if name == "share" or text == NOTHING else "")
        line.append((text.rjust(w), style))
    if row.note and left > 3:
        line.append((fit("  " + clean(row.note, 256), left).rstrip(), row.style))
    return line


def _sentence(text: str, width: int) -> Iterator[Line]:
    yield from ([(line, _DIM)] for line in wrap(clean(text, 1000), max(width, 1)))


_MAKERS: Mapping[str, Callable[[Ledger, Uses, int, int | None, bool], Iterator[Line]]] = {
    "calls": _calls,
    "files": _files,
    "sockets": _sockets,
    "locks": _locks,
}
