"""The sentences that summarise a ledger at the top of a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from functools import reduce
from operator import add, itemgetter

from headway.model import Amounts, Indices, Kind, Ledger, Precision, Quality, Thread, add_states, indices_of, kind_of
from headway.views.divided import efficiency, how_divided
from headway.views.figures import share, with_unit
from headway.views.losses import named_losses
from headway.views.printable import visible

__all__ = ["QUALITIES", "limits_of", "overall", "sentences"]

QUALITIES = {
    Quality.EXACT: "exact",
    Quality.ESTIMATED: "estimated",
    Quality.BOUND: "at most this",
    Quality.BY_MODE: "by cycles",
    Quality.SAMPLED: "sampled",
    Quality.PARTIAL: "at least this",
    Quality.UNAVAILABLE: "not known",
}
"""The words for each quality of a figure."""
_NOTABLE = 0.01
"""A part with a smaller share than this is not mentioned."""
_STATES = 3
_NO_PRECISION = Precision(*[Quality.UNAVAILABLE] * len(fields(Precision)))
"""Of figures about no thread."""
_NAME = 64


def overall(ledger: Ledger) -> Indices:
    """Return the indices of all threads together; all are unavailable where there is no thread."""
    if not ledger.threads:
        return indices_of({}, _NO_PRECISION)
    return reduce(add, map(ledger.amounts, ledger.threads), Amounts({}, 0)).indices(ledger.precision)


def limits_of(ledger: Ledger, indices: Indices, name: str) -> str:
    """Return the interval that samples allow, as a clause after the quality; empty if nothing was sampled."""
    if name == "te" and indices.interval["epi"] is not None and indices.te is not None:
        return f" ({efficiency(indices, _NAME)})"
    limits = indices.interval.get(name)
    if limits is None:
        return ""
    low, high = (_amount(ledger, value) if value else "0" for value in limits)
    return f" ({low} to {high})"


def sentences(ledger: Ledger) -> Iterator[str]:
    """Yield sentences about all threads of the ledger, the most important first."""
    threads = ledger.threads
    if not threads:
        damaged = ledger.losses.get("files_damaged", 0)
        yield "No thread can be read: the recording is damaged." if damaged else "No thread was measured."
        return
    times = [ledger.times(thread) for thread in threads]
    total = {kind: sum(map(itemgetter(kind), times)) for kind in Kind}
    indices = overall(ledger)
    yield from _progress(ledger, indices)
    if ledger.divided:
        yield f"Of the processor time, {how_divided(ledger.amounts(*threads))}."
    yield from _lost(ledger, indices)
    yield from _off(ledger, total)
    if total[Kind.UNKNOWN] > _NOTABLE * sum(total.values()):
        yield (
            f"What they did in {_time(ledger, total[Kind.UNKNOWN])} "
            f"({share(total[Kind.UNKNOWN] / sum(total.values()))} of their time) was not seen."
        )
    lost = named_losses(ledger.losses)
    if lost:
        yield f"Not everything could be seen: {visible(lost, 1000)}."


def _progress(ledger: Ledger, indices: Indices) -> Iterator[str]:
    number = len(ledger.threads)
    who = f"{number:,} threads" if number > 1 else "One thread"
    were = "were" if number > 1 else "was"
    measured = f"{who} {were} measured for {_time(ledger, ledger.window.duration)}"
    if indices.rpi is None:
        yield f"{measured}; how much processor time they had is not known."
        return
    had = f"{'Together they' if number > 1 else 'It'} had {_amount(ledger, indices.rpi)} of processor time (RPI)"
    average = ""
    if ledger.window.duration and ledger.unit == ledger.time_unit:
        average = f", {indices.rpi / ledger.window.duration:.2f} processors on average"
    yield f"{measured}. {had}{average}."
    if indices.epi is None:
        yield f"How much of it was progress (EPI) is not known{_why(ledger, 'epi')}."
        return
    at_most = {Quality.BOUND: "At most ", Quality.BY_MODE: "About ", Quality.SAMPLED: "About "}.get(
        indices.quality["epi"], ""
    )
    part = f" ({share(indices.epi / indices.rpi)})" if indices.rpi else ""
    yield f"{at_most}{_amount(ledger, indices.epi)} of it{part} was progress (EPI){_why(ledger, 'epi')}."


def _lost(ledger: Ledger, indices: Indices) -> Iterator[str]:
    states = {state: cell.time for state, cell in add_states(*(t.states for t in ledger.threads)).items()}
    for name, value, kind, taker, words in (
        ("mpi", indices.mpi, Kind.MEMORY, "waiting for memory", "were lost waiting for memory (MPI)"),
        ("kpi", indices.kpi, Kind.KERNEL, "the kernel", "went to the kernel or to marked regions (KPI)"),
        ("iopi", indices.iopi, Kind.POLL, "polling", "went into polling (IOPI)"),
    ):
        if value is None:
            yield f"How much {taker} took is not known{_why(ledger, name)}."
        elif indices.rpi and value > _NOTABLE * indices.rpi:
            yield f"{_amount(ledger, value)} ({share(value / indices.rpi)}) {words}{_mostly(states, kind)}."


def _off(ledger: Ledger, total: dict[Kind, int]) -> Iterator[str]:
    states = {state: cell.time for state, cell in add_states(*(t.states for t in ledger.threads)).items()}
    for kind, words in (
        (Kind.READY, "They were able to run, but had no processor, for {}"),
        (Kind.STOLEN, "The hypervisor took their processor away for {}"),
        (Kind.WAIT, "They waited for {}"),
    ):
        whole = sum(total.values())
        if total[kind] > _NOTABLE * whole:
            text = f"{words.format(_time(ledger, total[kind]))} ({share(total[kind] / whole)} of all their time)"
            yield f"{text}{_mostly(states, kind) if kind is Kind.WAIT else ''}{_who(ledger.threads, kind)}."


def _mostly(states: dict[str, int], kind: Kind) -> str:
    of_kind = sorted(((time, state) for state, time in states.items() if kind_of(state) is kind and time), reverse=True)
    whole = sum(time for time, _ in of_kind)
    notable = [(time, state) for time, state in of_kind[:_STATES] if time >= _NOTABLE * whole]
    words = [f"{visible(state, _NAME)} {share(time / whole)}" for time, state in notable]
    return f": {', '.join(words)}" if words else ""


def _who(threads: Iterable[Thread], kind: Kind) -> str:
    """Return a clause that names the thread with most of the time, if it has at least half."""
    if kind is not Kind.READY:
        return ""
    times = [(thread.times()[kind], thread) for thread in threads]
    most, thread = max(times, key=lambda pair: (pair[0], -pair[1].tid))
    whole = sum(time for time, _ in times)
    if len(times) < 2 or most * 2 < whole:
        return ""
    return f", {share(most / whole)} of that {visible(thread.name, _NAME)} ({thread.tid}) alone"


def _why(ledger: Ledger, name: str) -> str:
    reason = ledger.reasons.get(name)
    return f": {visible(reason, 1000)}" if reason else ""


def _time(ledger: Ledger, time: int) -> str:
    return _figure(time, ledger.time_unit)


def _amount(ledger: Ledger, amount: int) -> str:
    return _figure(amount, ledger.unit)


def _figure(value: int, unit: str) -> str:
    if not value:
        return "no time" if unit == "ns" else "no cycle"
    return with_unit(value, unit, 7, " ").strip() + (" cycles" if unit == "cycles" else "")
