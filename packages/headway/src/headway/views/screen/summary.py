"""The lines above the list: what is measured, since when, the processors' time by kind, and the verdict."""

from __future__ import annotations

from collections.abc import Mapping

from headway.model import Kind, Ledger, Quality, indices_of, time_by_kind
from headway.views.figures import with_unit
from headway.views.lines import Line, cut
from headway.views.losses import named_losses
from headway.views.palette import ORDER, PALETTE
from headway.views.printable import clean, fit, width_of

from .bar import bar, ground
from .columns import per_cent
from .roster import Picture

__all__ = ["HEIGHT", "moment_of", "summary"]

HEIGHT = 4
"""The number of lines."""


def summary(
    picture: Picture, title: str, moment: str, width: int, *, note: str = "", letters: bool = False, work: str = ""
) -> list[Line]:
    """Return four lines of at most ``width`` columns.

    They say what and when; threads, quality and losses; the kinds of time; and where most of the work's time went,
    after when ``work`` will be done, if that is given.
    """
    lines = [
        _beside(
            [("headway top ", "title"), (clean(title, 400), "")], [(note, "bad" if note else ""), (moment, "")], width
        ),
        _threads(picture, width),
        _kinds(picture, width, letters),
        _verdict(picture, width, work),
    ]
    return [cut(line, width) for line in lines]


def _verdict(picture: Picture, width: int, before: str) -> Line:
    """Return a text, if one is given, and the verdict's sentences: the first one there is, and others as far as there
    is room for all of each.
    """
    line: Line = [(before, "")] if before else []
    width -= width_of(before)
    for one in picture.verdict:
        text = f" · {clean(one.text, 400)}" if line else clean(one.text, 400)
        width -= width_of(text)
        if line and width < 0:
            break
        line.append((text, "dim" if line else ""))
    return line or [("nothing stands out", "dim")]


def _beside(left: Line, right: Line, width: int) -> Line:
    """Return ``left`` and ``right`` at the two ends of a line. ``left`` is cut first."""
    right = [(text + " ", style) for text, style in right if text]
    taken = sum(width_of(text) for text, _ in right)
    room = max(width - taken - 1, 0)
    line: Line = []
    for text, style in left:
        part = fit(text, min(width_of(text), room))
        line.append((part, style))
        room -= width_of(part)
    return [*line, (" " * (room + 1), ""), *right]


def _threads(picture: Picture, width: int) -> Line:
    ledger = picture.ledger
    number, busy = len(picture.every), picture.busy
    text = f"{number:,} thread{'s' * (number != 1)}, {busy:,} busy"
    cost = ledger.overhead
    if cost.time is not None and ledger.processors:
        time = ledger.window.duration * len(ledger.processors)
        text += f" · cost {per_cent(cost.time / time if time else 0.0)}"
    lost = named_losses(ledger.losses)
    left: Line = [(text, "dim"), (" · ", "dim"), (f"lost {lost}" if lost else "lost 0", "bad" if lost else "dim")]
    quality = _quality(ledger)
    # If there is not room for both, the losses are shown.
    fits = sum(width_of(text) for text, _ in left) + width_of(quality) + 2 <= width
    return _beside(left, [(quality, "dim")] if fits or not lost else [], width)


def _quality(ledger: Ledger) -> str:
    """Return in few words how good the figures are. The help has it in sentences."""
    worth = indices_of({}, ledger.precision).quality["epi"]
    if ledger.divided:
        found = ledger.indices(*ledger.threads)
        worth, exact = found.quality["epi"], found.exact_share["epi"]
        if worth is Quality.SAMPLED and exact:
            return f"EPI {per_cent(exact)} exact, rest sampled (~), {ledger.source}"
    words = {
        Quality.EXACT: "exact",
        Quality.BOUND: "EPI at most (≤)",
        Quality.BY_MODE: "EPI by cycles (≈)",
        Quality.SAMPLED: "sampled (~)",
    }
    return f"{words.get(worth, 'EPI unavailable')}, {ledger.source}"


_OF_PROCESSORS = {Kind.WAIT: "idle", Kind.UNKNOWN: "others"}
"""Names for what a processor does besides measured threads: nothing, or threads that are not measured."""


def _kinds(picture: Picture, width: int, letters: bool) -> Line:
    """Return a bar of all processors' time and its shares in words. If that is not known, use the threads' time.

    The processors' shares are of all their time. Those of threads are of the interval, as each thread's are.
    """
    times, what = _whole(picture)
    whole = sum(times.values()) if picture.ledger.processors else picture.ledger.window.duration
    room = max(width // 4, 10)
    line: Line = [(what + " ", "dim"), *bar(times, max(room - len(what) - 1, 4), letters=letters), (" ", "")]
    taken = sum(width_of(text) for text, _ in line)
    for kind in sorted((kind for kind in ORDER if times.get(kind)), key=lambda kind: (-times[kind], ORDER.index(kind))):
        word = _OF_PROCESSORS.get(kind, kind.value)
        text = f" {word} {per_cent(times[kind] / whole if whole else 0.0)}  "
        if taken + 1 + width_of(text) > width:
            break
        line += [(PALETTE[kind].letter, ground(kind)), (text, "")]
        taken += 1 + width_of(text)
    return line


def _whole(picture: Picture) -> tuple[Mapping[Kind, int], str]:
    processors = picture.ledger.processors
    if processors:
        every = [time_by_kind(processor.states) for processor in processors]
        what = f"{len(processors)} cpu{'s' * (len(processors) != 1)}"
        return {kind: sum([times[kind] for times in every]) for kind in Kind}, what
    rows = picture.every
    return {kind: sum([row.times.get(kind, 0) for row in rows]) for kind in ORDER[:-2]}, "threads"


def moment_of(ledger: Ledger, began: int) -> str:
    """Return when an interval was, and how long."""
    if ledger.time_unit == "cycles":
        return f"until cycle {ledger.window.end - began:,} · {ledger.window.duration:,} cycles"
    after = with_unit(ledger.window.end - began, ledger.time_unit, 7, " ")
    return f"after {after} · {with_unit(ledger.window.duration, ledger.time_unit, 7, ' ')}"
