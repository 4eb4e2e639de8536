"""The report of a profile: where the time went, by state, with functions and stacks. Code that runs comes first.

A state's time comes from the ledger and has its quality. The functions in which it was spent are exact for time off the
processor, and a sampled share with its error for time on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headway.model import Collection, Frame, Kind, Profile, Quality, StateSummary, part_of, summaries, unsampled

from .console import Console
from .figures import share, with_unit
from .lines import Line, indented, show
from .losses import named_losses
from .printable import clean, fit

__all__ = ["print_profile", "profile_lines"]

_DIM, _HEAD, _WORST = "dim", "bold", "bold red"
_NAME = 24


def print_profile(
    console: Console, profile: Profile, *, part: str | None = None, state: str | None = None, limit: int = 8
) -> None:
    """Print the report: only ``part`` and ``state``, at most ``limit`` states, functions and stacks."""
    show(console, profile_lines(profile, console.width, part=part, state=state, limit=limit))


def profile_lines(
    profile: Profile, width: int, *, part: str | None = None, state: str | None = None, limit: int = 8
) -> Iterator[Line]:
    """Yield the lines of the report, at most ``width`` columns wide."""
    everything = summaries(profile)
    whole = sum(thread.span for thread in profile.ledger.threads) or sum(one.time for one in everything)
    yield from _overview(profile, everything, whole, width)
    kept = summaries(profile.narrowed(part=part, state=state))
    shown = sorted(kept[:limit], key=lambda one: not one.kind.in_rpi)  # code that runs, and then what was waited for
    for one in shown:
        yield []
        yield from _state(one, whole, width, limit)
    if len(kept) > len(shown):
        rest = kept[len(shown) :]
        time = with_unit(sum(one.time for one in rest), "ns", 7, " ")
        yield []
        yield [(f"… {len(rest)} more states, {time} together", _DIM)]
    without = unsampled(profile, part=part, state=state)
    if without:
        words = ", ".join(f"{clean(name, 100)} {with_unit(time, 'ns', 7, ' ')}" for name, time in without[:limit])
        more = f" and {len(without) - limit} more" if len(without) > limit else ""
        yield []
        yield from _wrapped(f"without a sample or a stack: {words}{more}", width)
    if not kept and not without:
        yield []
        yield from _wrapped(
            "nothing of that was seen: headway report without --index and --state shows everything", width
        )
    yield []
    yield from _notes(profile, everything, width)


def _overview(profile: Profile, every: Sequence[StateSummary], whole: int, width: int) -> Iterator[Line]:
    samples = sum(one.rows for one in every if one.quality is Quality.SAMPLED)
    threads = len(profile.ledger.threads)
    text = (
        f"{threads:,} thread{'s' * (threads != 1)}, {with_unit(whole, 'ns', 7, ' ')} of their time; "
        f"{samples:,} samples, one each {with_unit(profile.period, 'ns', 7, ' ')} of processor time"
    )
    yield from _wrapped(text, width)
    times: dict[Kind, int] = {}
    for thread in profile.ledger.threads:
        for kind, time in thread.times().items():
            times[kind] = times.get(kind, 0) + time
    if not times:
        for one in every:
            times[one.kind] = times.get(one.kind, 0) + one.time
    parts = [f"{kind.value} {_percent(time, whole)}" for kind, time in times.items() if time * 200 >= whole]
    yield from _wrapped(" · ".join(parts), width)


def _state(one: StateSummary, whole: int, width: int, limit: int) -> Iterator[Line]:
    exact = one.quality is Quality.EXACT
    how = f"{one.rows:,} ×, exact" if exact else f"{one.rows:,} samples"
    head = f"{fit(clean(one.state, 256), _NAME)} {with_unit(one.time, 'ns', 7, ' '):>8} {_percent(one.time, whole):>7}"
    yield [(head, _HEAD), (f"  {how}", _DIM)]
    mark = "" if exact else "~"
    if one.functions:
        yield [(f"  {'self':>6} {'total':>6} {'' if exact else '    ±':<6} function", _DIM)]
    for spot in one.functions[: max(limit // 2, 1)]:
        if not spot.own and spot is not one.functions[0]:
            break
        error = one.error(spot.own)
        text = f"  {mark + _percent(spot.own, one.rows_time):>6} {mark + _percent(spot.total, one.rows_time):>6} "
        text += f"{'' if exact or error is None else f'{error * 100:.1f} %':>6} "
        room = width - len(text)
        module = (spot.module or "").rpartition("/")[2]
        if spot.kind == "python" and spot.file and spot.line:
            module = f"{spot.file}:{spot.line}"
        name = clean(spot.function, 400)
        if module and not name.startswith(module):
            name += f"  ({clean(module, 100)})"
        yield [(text, ""), (fit(name, max(room, 1)).rstrip(), "")]
    for stack in one.stacks[: max(limit // 3, 1)]:
        label = f"  {mark + _percent(stack.time, one.rows_time):>6} "
        lines = list(indented(_in_words(stack.frames), width, label, " " * (len(label) + 2)))
        for i, line in enumerate(lines[:3]):
            yield [(line if i < 2 or len(lines) == 3 else fit(line + " …", width).rstrip(), _DIM)]


def _in_words(frames: Sequence[Frame]) -> str:
    """Return a stack as one line. A function that calls itself is named once, with the number of times."""
    if not frames:
        return "stack not known"
    parts: list[tuple[str, int]] = []
    for frame in frames:
        name = clean(frame.name, 60)
        if parts and parts[-1][0] == name:
            parts[-1] = name, parts[-1][1] + 1
        else:
            parts.append((name, 1))
    return " ← ".join(name if n == 1 else f"{name} ({n} ×)" for name, n in parts)


def _percent(part: int, whole: int) -> str:
    if not whole:
        return "–"
    value = part / whole
    return f"{value * 100:.1f} %" if 0 < value < 0.0995 else share(value)


def _notes(profile: Profile, every: Sequence[StateSummary], width: int) -> Iterator[Line]:
    sampled = [one for one in every if one.quality is Quality.SAMPLED]
    stood = sum(one.rows_time for one in sampled)
    had = sum(one.time for one in sampled if not part_of(one.state, "overhead"))
    if sampled:
        yield from _wrapped(
            f"~: sampled, ±: its error in 19 of 20 cases; the samples stand for {with_unit(stood, 'ns', 7, ' ')}"
            f" of {with_unit(had, 'ns', 7, ' ')}",
            width,
        )
    for note in profile.notes:
        yield from _wrapped(note, width)
    if profile.collection is not None:
        yield from _wrapped(_collected(profile.collection, profile.ledger.window.duration), width)
    lost = named_losses({**profile.ledger.losses, **profile.losses})
    if lost:
        yield from ([(line, _WORST)] for line in indented(f"lost: {lost}", width, "", "  "))
    else:
        yield [("lost 0", _DIM)]


def _collected(done: Collection, duration: int) -> str:
    """Return how samples were collected, and what that cost, in words."""
    size = f"{done.capacity // 1024:,} KiB" if done.capacity >= 1024 else f"{done.capacity} bytes"
    cost = done.collecting_ns + done.stacks_ns
    part = f" ({100 * cost / duration:.2f} % of a processor)" if duration else ""
    clocks = f", {done.clock_reads:,} clocks read" if done.clock_reads else ""
    return (
        f"collected by {done.policy} from buffers of {size}: {done.looks:,} looks, {done.drains:,} drains "
        f"({done.useful:,} of half a buffer or more), {done.last_drains:,} when a thread or the profile ended{clocks}, "
        f"{done.wakeups:,} wake-ups; cost {_time(cost)}{part}, {_time(done.stacks_ns)} of it for stacks"
    )


def _time(ns: int) -> str:
    return with_unit(ns, "ns", 7, " ").strip() if ns else "nothing"


def _wrapped(text: str, width: int) -> Iterator[Line]:
    yield from ([(line, _DIM)] for line in indented(text, width, "", "  "))
