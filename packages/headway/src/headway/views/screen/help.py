"""The help: what the keys do and what the signs mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from headway.model import Ledger
from headway.views.lines import Line, cut, indented
from headway.views.palette import ORDER, PALETTE

from .bar import ground

__all__ = ["KEYS", "TIME_KEYS", "help_lines"]

KEYS: Sequence[tuple[str, str]] = (
    ("↑ ↓ PgUp PgDn Home End", "choose a thread; so does a click"),
    ("Enter", "the chosen thread: all states, system calls, waits, advice"),
    ("Tab", "to the panel and back, to scroll it"),
    ("< >", "order by the previous or next column; so does a click on its title"),
    ("r", "order the other way round"),
    ("/", "only threads with these words in their name, tid or pid; Esc: all again, in order"),
    ("i", "only threads that had a processor, or all"),
    (
        "t",
        "a line for each process, name, pod, control group or thread; it begins with names where there are more "
        "threads than lines",
    ),
    ("- +", "fold or unfold the chosen process or name; so does a click on ▾"),
    ("Space", "pause the picture; measuring continues"),
    ("l", "light or dark"),
    ("? h", "this"),
    ("Ctrl-Z", "stop for a while, as a shell does; fg goes on"),
    ("q", "quit; a running command continues"),
)
"""The keys that are always available."""
TIME_KEYS: Sequence[tuple[str, str]] = (
    ("← →", "one interval back, forth; [ ]: ten"),
    ("g G", "to the beginning, to the end"),
    ("z Z", "intervals half as long, twice as long"),
    ("Space", "go through time, stop"),
)
"""The keys for moving through time."""
_COLUMNS = (
    ("RPI", "processor time, in per cent of the interval; 100 % is one processor, a group may have more"),
    (
        "EPI",
        "of it in its own code: progress; ≤: at most, ≈: by cycles, ~: sampled, ≥: at least, –: not available here",
    ),
    ("TE", "EPI / RPI"),
    ("mem kern poll stall", "what it lost on the processor: to memory, kernel, polling, other stalls"),
    ("stoln ready wait", "stolen by the hypervisor; able to run, without a processor; waiting"),
    ("bar", "all of its time: on the processor │ off it, each kind with its letter"),
    ("history", "EPI of the intervals before, the newest at the right; █: a processor or more, ·: none"),
    ("waits for", "what it waited for most"),
)


def help_lines(ledger: Ledger, width: int, *, time: bool) -> list[Line]:
    """Return the help in lines of at most ``width`` columns. ``time``: the user can move through time."""
    keys = [(key, words) for key, words in KEYS if not (time and key == "Space")]
    lines: list[Line] = [[("keys", "title")]]
    lines += _pairs([*keys[:-1], *(TIME_KEYS if time else ()), keys[-1]], width)
    lines += [[], [("kinds of time", "title")]]
    for kind in ORDER:
        look = PALETTE[kind]
        lines.append(cut([(f" {look.letter} ", ground(kind)), (f" {kind.value:<10}", ""), (look.words, "dim")], width))
    lines += [[], [("columns", "title")], *_pairs(_COLUMNS, width)]
    lines += [[], [("how good the figures are", "title")], *_quality(ledger.reasons, width)]
    return lines


def _pairs(rows: Sequence[tuple[str, str]], width: int) -> Iterator[Line]:
    column = max(len(key) for key, _ in rows)
    beside = width - column - 2 >= 24
    for key, words in rows:
        style = "" if rows is _COLUMNS else "key"
        lines = list(indented(words, width - column - 2 if beside else width - 2, "", ""))
        if not beside:
            yield cut([(key, style)], width)
            yield from ([("  " + line, "dim")] for line in lines)
            continue
        yield [(key, style), (" " * (column - len(key) + 2) + lines[0], "dim")]
        yield from ([(" " * (column + 2) + line, "dim")] for line in lines[1:])


def _quality(reasons: Mapping[str, str], width: int) -> Iterator[Line]:
    for name, reason in reasons.items():
        yield from ([(line, "dim")] for line in indented(f"{name}: {reason}", width, "", "  "))
    if not reasons:
        yield [("exact", "dim")]
