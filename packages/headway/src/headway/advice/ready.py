"""Waiting for a processor: why a thread did not run, by the parts of its time ready, and what helps against each.

A part is worth a word of its own where it passes the threshold of all of the time ready; the largest part always is,
once all of it does. Time that the source did not divide is a part too: whose threads had the processor is then taken
from the holders that were recorded, or from how much there was to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Set

from headway.model.cause import Behind, Cause
from headway.model.indices import interrupt_time, is_interrupt
from headway.model.kinds import Kind, kind_of
from headway.model.ledger import Ledger, Thread
from headway.model.origin import origin_of
from headway.model.ready import READY, READY_PARTS

from . import patterns
from .evidence import crowded, idle_share
from .facilities import Facilities
from .findings import LONGEST, Finding, Helps, applied, interrupted, of_pattern, share_of
from .remedy import Contention, Contentions

__all__ = ["against_waiting", "busiest", "by_devices", "waiting"]

_OTHERS = "others"
"""The cause of waiting for a processor that other processes have: one, whatever helps the process that is named."""
_NAMES = 3
_NOTABLE = 0.10
"""A neighbour beside the first one is named if it had the processor for this share of the time."""
_WAKES_UP_IN = 2_000_000
"""No idle state takes longer to leave, ns: those of today's processors take less than 1 ms."""
_LINE = re.compile(r"\(irq (\d{1,6})\)$", re.ASCII)
_WHOLE = 0.995
"""A part with this share of the time ready is all of it, in words."""


def waiting(thread: Thread, could: int, threshold: float) -> Iterator[Finding]:
    """Yield what a thread lost to each part of its time ready. ``could``: the time in which it was able to run."""
    ready = thread.times()[Kind.READY]
    if ready <= threshold * could:
        return
    parts = _parts_of(thread)
    most = max(parts, key=lambda part: (parts[part], part))
    for part, time in parts.items():
        if part == most or time > threshold * could:
            yield Finding(time, thread, "ready", ready / could, threshold, part)


def _parts_of(thread: Thread) -> dict[str, int]:
    """Return the parts of a thread's time ready; what is not divided, or by an unknown name, is `READY`."""
    parts: dict[str, int] = {}
    for state, cell in thread.states.items():
        if cell.time and kind_of(state) is Kind.READY:
            part = state if state in READY_PARTS else READY
            parts[part] = parts.get(part, 0) + cell.time
    return parts


def against_waiting(
    ledger: Ledger, finding: Finding, contentions: Contentions, where: Facilities, processors: int
) -> Helps:
    """Return what helps against a part of the time ready. ``processors``: their number; 0: not known."""
    thread, part = finding.thread, finding.part
    shared = contentions.of(thread)
    found = f"{finding.value:.0%} of the time it could run, it waited for a processor"
    if part == READY:
        return _undivided(ledger, found, thread, shared, processors)
    share = finding.lost / thread.times()[Kind.READY]
    found += " because " if share >= _WHOLE else f", {share:.0%} of that because "
    if part == "ready.throttled":
        return _throttled(found, thread, shared)
    if part == "ready.own":
        return _own(f"{found}other threads of its own process had it", shared, processors)
    if part == "ready.neighbour":
        found += "other processes had it" + _meanwhile(thread, shared.tids, finding.lost)
        return _others(ledger, found, shared, processors)
    if part == "ready.stolen":
        return of_pattern(f"{found}the hypervisor had it", patterns.HOST)
    if part == "ready.wakeup" and (each := _each(thread, part)) > _WAKES_UP_IN:
        found += f"it was idle and did not take it, {each / 1e6:,.1f} ms each time"
        return of_pattern(found, patterns.KEPT_FROM_RUNNING)
    if part == "ready.interrupt":
        return _in_interrupts(f"{found}interrupts had it", ledger, thread, where, contentions)
    return of_pattern(f"{found}it was idle and had to wake up first", patterns.IDLE_STATES)


def _each(thread: Thread, state: str) -> float:
    """Return how long one occurrence of a state took on average, 0 where they were not counted."""
    cell = thread.states[state]
    return cell.time / cell.count if cell.count else 0.0


def _undivided(ledger: Ledger, found: str, thread: Thread, shared: Contention, processors: int) -> Helps:
    holder = shared.holder
    if holder is not None:
        ready = thread.times()[Kind.READY]
        found += f"; meanwhile {_title(holder)} had it for {share_of(holder, ready) if ready else 'most'} of that time"
    return _own(found, shared, processors) if shared.among_itself else _others(ledger, found, shared, processors)


def _throttled(found: str, thread: Thread, shared: Contention) -> Helps:
    group = thread.cgroup or ""
    place = f" (it is in {origin_of(group).pod[:LONGEST]})" if group.strip("/") else ""
    text = f"its process has work for {shared.demand:.1f} processors; {patterns.QUOTA.text}"
    found += f"the CPU quota of its control group{place}, or the runtime of its scheduling class, was used up"
    return Helps(found, text, patterns.QUOTA.command, cause=f"throttled {group}")


def _own(found: str, shared: Contention, processors: int) -> Helps:
    text = f"its own threads have work for {shared.demand:.1f} processors"
    if processors and shared.demand < processors:  # each wants one when another has it
        text += " on average, but want them at the same moments: wake fewer at once, or allow it more processors"
    else:
        text += f": start fewer, or allow it more than {_number(processors)}"
    return Helps(found, text, "taskset -acp {pid}")


def _others(ledger: Ledger, found: str, shared: Contention, processors: int) -> Helps:
    remedy = shared.remedy
    if remedy is None and not crowded(ledger, processors):
        idle = idle_share(ledger)
        if idle is None:
            return of_pattern(found, patterns.UNSEEN_NEIGHBOURS)
        found += f", though the processors were idle for {idle:.0%} of their time"
        return of_pattern(found, patterns.AT_THE_SAME_MOMENTS)
    if remedy is None:
        text = (
            f"more runs on {_number(processors)} than they can take; start fewer threads, or allow it more processors"
        )
        return Helps(found, text, "taskset -acp {pid}", cause=_OTHERS)
    if shared.namesakes > 1:  # one of them alone gains nothing that the others do not lose
        return Helps(found, _for_all_of_a_name(shared, processors), "taskset -acp {pid}", remedy=remedy, cause=_OTHERS)
    text = f"other processes want the same ones; keep {remedy.processors} for this process alone"
    return applied(Helps(found, text, "", cause=_OTHERS), remedy)


def _for_all_of_a_name(shared: Contention, processors: int) -> str:
    """Return what helps processes of one name, of which a server has one for each connection."""
    text = (
        f"the {shared.namesakes:,} processes {shared.name[:LONGEST]} together have work for "
        f"{shared.demand_of_name:.1f} processors: "
    )
    if processors and shared.demand_of_name > processors:
        return f"{text}start fewer, or let fewer work at a time"
    return f"{text}run less beside them, or give their control group processors of its own (cpuset.cpus)"


def _number(processors: int) -> str:
    return f"{processors} processors" if processors > 1 else "its processors"


def _meanwhile(thread: Thread, own: Set[int], time: int) -> str:
    """Return a clause that names the threads of other processes that had the processor; empty if none was recorded."""
    times: dict[tuple[str, str], list[Cause]] = {}
    for cause in thread.causes:
        held = cause.behind is Behind.HOLDER and cause.state == READY and cause.tid is not None
        if held and cause.tid not in own and cause.pid != thread.pid:
            times.setdefault((cause.name, _elsewhere(cause, thread.cgroup)), []).append(cause)
    ranked = sorted(((sum(c.time for c in of), of) for of in times.values()), key=lambda row: (-row[0], row[1][0].name))
    named = [
        f"{_neighbour(of, thread.cgroup)} had it for {min(total / time, 1):.0%} of that time"
        for at, (total, of) in enumerate(ranked[:_NAMES])
        if total and (at == 0 or total >= _NOTABLE * time)
    ]
    return f"; meanwhile {', '.join(named)}" if named else ""


def _neighbour(causes: list[Cause], own: str | None) -> str:
    """Name a neighbour: its thread or threads, and the pod, container or unit, unless the thread is in that itself."""
    first = causes[0]
    title = _title(first) if len(causes) == 1 else f"{len(causes):,} threads {first.name[:LONGEST]}"
    pod = _elsewhere(first, own)
    return f"{title} of {pod[:LONGEST]}" if pod else title


def _elsewhere(cause: Cause, own: str | None) -> str:
    """Return the pod, container or unit of a neighbour; empty: that has no name, or is the thread's own."""
    origin = origin_of(cause.cgroup or "")
    return "" if origin.pod == origin.path or cause.cgroup == own else origin.pod


def _title(cause: Cause) -> str:
    return f"{cause.name[:LONGEST]} ({cause.tid})"


def _in_interrupts(found: str, ledger: Ledger, thread: Thread, where: Facilities, contentions: Contentions) -> Helps:
    """Advise on the interrupts that had the processor: the kind that had it longest, where that was recorded."""
    times: dict[str, int] = {}
    for cause in thread.causes:
        if cause.behind is Behind.HOLDER and cause.state == READY and cause.tid is None and is_interrupt(cause.name):
            times[cause.name] = times.get(cause.name, 0) + cause.time
    pattern = None
    if times:
        name = max(times, key=lambda name: (times[name], name))
        found += f", most in {name[:LONGEST]}"
        pattern = patterns.of_interrupt(name)
    if pattern is not None:
        return of_pattern(found, pattern)
    return by_devices(found, ledger, thread, where, lambda: contentions, name if times else "irq.device")


def by_devices(
    found: str, ledger: Ledger, thread: Thread, where: Facilities, contentions: Callable[[], Contentions], state: str
) -> Helps:
    """Advise a thread that loses time to the interrupts of devices, most in ``state``.

    Only if one is known can it be sent elsewhere: packets of the loopback device come without an interrupt.
    """
    helps = interrupted(found, busiest(ledger), where, state, _line_of(thread, state))
    return helps if helps.undo is None else applied(helps, contentions().remedy(thread, "interrupts"))


def _line_of(thread: Thread, state: str) -> int | None:
    """Return the number of the interrupt that took most of a state's time, where it was recorded."""
    for cause in thread.causes:  # the one with most time comes first
        if cause.state == state and cause.behind is Behind.OBJECT and (match := _LINE.search(cause.name)):
            return int(match[1])
    return None


def busiest(ledger: Ledger) -> int | None:
    """Return the processor with most time in interrupts; None: no processors are known."""
    if not ledger.processors:
        return None
    return max(ledger.processors, key=lambda p: (interrupt_time(p.states), -p.cpu)).cpu
