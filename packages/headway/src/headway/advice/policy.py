"""The policy over the indices: what would help a thread to make more progress.

When the time lost on the processor (Td, or its lower bound RPI - EPI) passes its threshold, MPI, KPI and IOPI are
looked at; where one of them passes its own, the state that takes most of it names the cause, and the cause what helps.
Time off the processor is no progress lost on it, but said too: waiting for a processor, time stolen by the hypervisor,
and what a thread mostly waits for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

from headway.dataclass import dataclass
from headway.model.cause import Behind, Cause
from headway.model.cell import Cell
from headway.model.holders import meanwhile
from headway.model.indices import interrupt_time, is_interrupt, processor_time
from headway.model.kinds import Kind, kind_of
from headway.model.ledger import Ledger, Thread
from headway.model.quality import Quality

from . import patterns
from .evidence import (
    DISK,
    begun_and_ended,
    by_disk,
    ends_of_processes,
    forces,
    has_own_timers,
    reads,
    recorded,
)
from .facilities import Facilities
from .findings import LONGEST, Finding, Helps, applied, interrupted, largest, of_pattern, share_of
from .locks import Lock, lock_of, locks
from .patterns import Pattern
from .ready import against_waiting, by_devices, waiting
from .remedy import Contentions, Remedy, able, time_in
from .system_time import busy_without_user_code
from .thresholds import Thresholds

__all__ = ["Advice", "advise"]


@dataclass(frozen=True, slots=True)
class Advice:
    """One piece of advice for one thread."""

    thread: int | None
    """The tid; None: the advice is about the whole machine."""
    index: str
    """What passed its threshold: ``mpi``, ``kpi``, ``iopi``, ``ready``, ``stolen``, ``wait`` or ``system``."""
    value: float
    """The share that it has, from 0 to 1; of what, see `Thresholds`."""
    threshold: float
    text: str
    command: str | None
    """The command that shows the cause or changes it; None if there is none."""
    undo: str | None = None
    """The command that takes the change back; None if the command changes nothing."""
    remedy: Remedy | None = None
    """What a program can do for the thread's process, safely and reversibly; None if there is nothing."""
    at_stake: int = 0
    """The time that is lost to the cause, of all threads that the advice is for: more than that cannot be won."""
    alike: int = 0
    """The number of further threads that the advice is for."""
    name: str | None = None
    """The thread's name; None: the advice is about the whole machine."""
    of_seen: bool = False
    """Td is not known, only the part of it that was seen: ``value`` is a share of that part."""


_NAMES = 3
"""Maximum number of names in a sentence."""
_BRIEF = 100_000_000
"""A thread that ends with so few nanoseconds of processor time loses to the kernel mostly what its two ends cost."""
_MANY_PROCESSES = 10
"""Where fewer processes end, the new memory of those is not what matters."""
_LONG_CALL = 100_000
"""A call that takes more, ns, does not lose its time to the number of calls."""
_FEW_CALLS = 10
"""So few calls are not gathered."""


_MOST_OF_HOLDING = 0.5
"""What a holder did for this share of the time that others waited for its lock decides the remedy."""
_OF_TD = frozenset({"mpi", "kpi", "iopi"})
_Rows = Sequence[tuple[Thread, Mapping[Kind, int]]]


def advise(
    ledger: Ledger,
    thresholds: Thresholds | None = None,
    facilities: Facilities | None = None,
    *,
    by_process: bool = False,
) -> tuple[Advice, ...]:
    """Return the advice for a ledger, the most time at stake first, and at the end what threads mostly wait for.

    Threads that lose time by the same cause get one piece of advice, whatever their processes and names are. It names
    the thread that loses most. What all of them lose is the time at stake. Advice with less than ``interest`` of the
    window at stake is not given. ``by_process``: each process gets advice of its own. ``facilities`` describes the
    machine on which the advice is to be followed. Commands for what that machine does not have are left out.
    """
    r = thresholds or Thresholds()
    where = facilities or Facilities()
    rows = [(thread, ledger.times(thread)) for thread in ledger.threads]
    losses = sorted(_losses(ledger, rows, r), key=lambda f: (-f.lost, f.thread.key, f.index, f.part))
    ranked = [(f.thread.key, advice) for f, advice in _of_threads(ledger, losses, where, by_process)]
    ranked += [((0, 0), advice) for advice in _of_the_machine(ledger, rows, r, where)]
    ranked.sort(key=lambda row: (-row[1].at_stake, row[0]))
    every = (*(advice for _, advice in ranked), *_of_waiting(ledger, rows, r))
    least = r.interest * ledger.window.duration
    if ledger.time_unit == "ns":
        least = max(least, r.least_ns)
    return tuple(advice for advice in every if advice.at_stake >= least)[: r.most]


def _losses(ledger: Ledger, rows: _Rows, r: Thresholds) -> Iterator[Finding]:
    for thread, times in rows:
        could = able(times)
        if not could:
            continue
        yield from waiting(thread, could, r.ready)
        rpi = processor_time(times)
        td = rpi - times[Kind.EFFECTIVE]
        if td <= r.td * rpi:
            continue
        for index, kind, threshold in (
            ("mpi", Kind.MEMORY, r.mpi),
            ("kpi", Kind.KERNEL, r.kpi),
            ("iopi", Kind.POLL, r.iopi),
        ):
            part = times[kind]
            if part > threshold * td:
                yield Finding(part, thread, index, part / td, threshold)


def _of_threads(
    ledger: Ledger, losses: list[Finding], where: Facilities, by_process: bool
) -> Iterator[tuple[Finding, Advice]]:
    # Counting is left until a finding needs it: there may be thousands of threads, and a screen every second.
    contentions = cache(lambda: Contentions(ledger, _processors(ledger, where)))
    many_end = cache(lambda: ends_of_processes(ledger) >= _MANY_PROCESSES)
    living = _living(ledger)
    alike: dict[tuple[int | None, str, str], list[tuple[Finding, Helps]]] = {}
    for finding in losses:
        if finding.index == "ready":
            helps = against_waiting(ledger, finding, contentions(), where, _processors(ledger, where))
        else:
            helps = _lost(ledger, finding, where, contentions, many_end)
        process = finding.thread.pid if by_process else None
        alike.setdefault((process, finding.index, helps.cause or helps.text), []).append((finding, helps))
    for group in alike.values():
        finding, helps = group[0]
        text = f"{helps.found}: {helps.text}"
        others = [f.thread for f, _ in group[1:]]
        if others:
            text += f" ({_alike(finding.thread, others)} alike)"
        advice = Advice(
            finding.thread.tid,
            finding.index,
            finding.value,
            finding.threshold,
            text,
            _command(helps.command, finding.thread, living),
            helps.undo,
            helps.remedy,
            at_stake=sum(f.lost for f, _ in group),
            alike=len(others),
            name=finding.thread.name,
            of_seen=finding.index in _OF_TD and not _knows_td(ledger, finding.thread),
        )
        yield finding, _without_linux(ledger, advice)


def _alike(first: Thread, others: Sequence[Thread]) -> str:
    """Describe the threads for which advice is given beside the first one."""
    text = f"{len(others):,} more {'thread' if len(others) == 1 else 'threads'}"
    processes = {thread.pid for thread in others} - {first.pid}
    if not processes:
        return f"{text} of this process"
    names = Counter(thread.name[:LONGEST] for thread in others)
    listed = sorted(names.items(), key=lambda item: (-item[1], item[0]))
    of = ", ".join(f"{name} × {n:,}" if n > 1 else name for name, n in listed[:_NAMES])
    rest = len(listed) - _NAMES
    more = f" and {rest} more {'name' if rest == 1 else 'names'}" if rest > 0 else ""
    return f"{text} in {len(processes):,} more {'process' if len(processes) == 1 else 'processes'} ({of}{more})"


def _processors(ledger: Ledger, where: Facilities) -> int:
    return len(where.processors) or len(ledger.processors)


def _knows_td(ledger: Ledger, thread: Thread) -> bool:
    """Return whether all time that the thread lost on the processor is known, and not a part of it only."""
    return ledger.indices(thread).quality["td"] not in (Quality.PARTIAL, Quality.UNAVAILABLE)


def _lost(
    ledger: Ledger,
    finding: Finding,
    where: Facilities,
    contentions: Callable[[], Contentions],
    many_end: Callable[[], bool],
) -> Helps:
    seen = "" if _knows_td(ledger, finding.thread) else " that was seen"
    share = f"{finding.value:.0%} of the lost time{seen} is "
    if finding.index == "mpi":
        return _memory(share, finding.thread, where, contentions)
    if finding.index == "iopi":
        # A recording of the machine does not tell the poll latch from a region that the program marks.
        return _polling(share, finding.thread, marks=ledger.source != "recording" or ledger.time_unit != "cycles")
    return _kernel(share, ledger, finding.thread, where, contentions, many_end)


def _memory(share: str, thread: Thread, where: Facilities, contentions: Callable[[], Contentions]) -> Helps:
    """Divide the cache where the machine can do that, else the memory where it has several nodes."""
    found = f"{share}waiting for memory"
    if not (where.resctrl or where.nodes > 1):
        return of_pattern(found, patterns.SHARED_CACHE)
    helps = of_pattern(found, patterns.CACHE_DIVIDED if where.resctrl else patterns.NODES)
    remedy = contentions().remedy(thread, "memory") if where.processors else None
    if where.resctrl and not where.resctrl_mounted:
        return replace(helps, remedy=remedy)  # the command that mounts it comes first
    return applied(helps, remedy)


def _polling(share: str, thread: Thread, *, marks: bool) -> Helps:
    """Name the polling call, or the program's own mark. The word after the call's is the kind of file descriptor.

    ``marks``: what is no call is a mark of the program.
    """
    name, pattern = _most(thread.states, Kind.POLL, _poll_pattern)
    _, _, detail = name.partition(".")
    call, _, about = detail.partition(".")
    found = f"{share}polling"
    if name in thread.sampled and patterns.of_poll(call) is None:  # of polling, samples find nothing but spinning
        return of_pattern(f"{found}, most in {name[:LONGEST]}{_behind(thread, name)}", patterns.SPINNING)
    latched = [c for c in thread.causes if c.state == name and c.behind is Behind.OBJECT]
    if patterns.of_poll(call) is None and latched:
        return of_pattern(f"{found}, most in {name[:LONGEST]}{_latched(latched)}", patterns.STATUS_REGISTER)
    if patterns.of_poll(call) is not None:
        found += f", most in {call}" + (f" of {about[:LONGEST]}" if about else "")
    elif detail:
        found += f", most in {name[:LONGEST]}" + ("" if about or not marks else ", as the program marks it")
    return of_pattern(found + _behind(thread, name), pattern)


def _latched(causes: Sequence[Cause]) -> str:
    """Return a clause that says what the machine's poll latch saw (headway-machine/docs/machine.md, section 4)."""
    cause = causes[0]
    times = "once" if cause.count == 1 else f"{cause.count:,} times"
    return f" (the poll latch saw {cause.name[:LONGEST]} not ready, {times})"


def _poll_pattern(state: str) -> Pattern:
    return patterns.of_poll(state.split(".")[1] if "." in state else "") or patterns.OTHER_POLL


def _kernel(
    share: str,
    ledger: Ledger,
    thread: Thread,
    where: Facilities,
    contentions: Callable[[], Contentions],
    many_end: Callable[[], bool],
) -> Helps:
    had = processor_time(ledger.times(thread)) if ledger.unit == ledger.time_unit == "ns" else _BRIEF + 1
    brief = thread.end is not None and had <= _BRIEF
    single = partial(_kernel_pattern, thread)
    of_ends = partial(_pattern_of_brief, thread) if brief and _begins_a_program(thread) and many_end() else single
    name, pattern = _most(thread.states, Kind.KERNEL, of_ends)
    first, _, tag = name.partition(".")
    count = thread.states[name].count
    times = f" ({count:,} times)" if count and count > 1 else " (once)" if count else ""
    if first == "noneffective":
        return of_pattern(f"{share}in the region {tag[:LONGEST] or 'without a name'}{times}", pattern)
    found = f"{share}in the kernel, most in {name[:LONGEST]}{times}{_behind(thread, name)}"
    if pattern is patterns.DEVICES:
        return by_devices(found, ledger, thread, where, contentions, name)
    if pattern is patterns.LIVES and single(name) is not pattern:
        began, ended = begun_and_ended(ledger)
        found += f"; {began:,} threads began while it was measured, and {ended:,} ended"
    each = thread.states[name].time / count if count and ledger.time_unit == "ns" else 0
    if pattern is patterns.MOVES and each > _LONG_CALL:
        return of_pattern(f"{found}, {each / 1e3:,.0f} µs each time", patterns.COPIES)
    if pattern is patterns.FORCED and count and count < _FEW_CALLS:
        pattern = patterns.FORCED_ONCE
    return of_pattern(found, pattern)


def _begins_a_program(thread: Thread) -> bool:
    """Return whether the faults and calls for memory of a brief thread may be those of its beginning and its end.

    A program's memory is new when it begins. It is not what matters where the thread waited longer for other threads'
    (mmap_lock).
    """
    return thread.tid == thread.pid and time_in(thread, "wait.mmap_lock") <= processor_time(thread.times())


def _kernel_pattern(thread: Thread, state: str) -> Pattern:
    first, _, call = state.partition(".")
    if is_interrupt(state):
        found = patterns.of_interrupt(state) or patterns.DEVICES
        own = found is patterns.TICKS and has_own_timers(thread, thread.states[state].count)
        return patterns.TIMERS if own else found
    if state == "kernel.thread":
        return patterns.SUBMISSIONS if thread.name.startswith("iou-sqp-") else patterns.KERNEL_THREAD
    if first == "noneffective":
        return patterns.REGION
    found = patterns.of_call(call)
    return patterns.DISK_FAULTS if found is patterns.FAULTS and by_disk(thread, "wait.fault") >= DISK else found


def _pattern_of_brief(thread: Thread, state: str) -> Pattern:
    """Return the pattern of a thread that lives briefly: what beginning and ending takes is one."""
    found = _kernel_pattern(thread, state)
    return patterns.LIVES if found in patterns.OF_BRIEF else found


def _most(states: Mapping[str, Cell], kind: Kind, pattern_of: Callable[[str], Pattern]) -> tuple[str, Pattern]:
    """Return the pattern with most time of this kind, and the one of its states with most time."""
    groups: dict[str, int] = {}
    for state, cell in states.items():
        if kind_of(state) is kind:
            text = pattern_of(state).text
            groups[text] = groups.get(text, 0) + cell.time
    most = max(groups, key=lambda text: (groups[text], text))
    name = largest(states, lambda state: kind_of(state) is kind and pattern_of(state).text == most)
    return name, pattern_of(name)


def _behind(thread: Thread, state: str) -> str:
    """Return a clause that names the lock, file or device behind most of a state's time; empty if none was recorded."""
    about = [c for c in thread.causes if c.state == state and c.behind is Behind.OBJECT]
    time = thread.states[state].time
    if not about or not time:
        return ""
    cause = max(about, key=lambda c: (c.time, c.name))
    return f", {share_of(cause, time)} of it on {cause.name[:LONGEST]}"


def _of_the_machine(ledger: Ledger, rows: _Rows, r: Thresholds, where: Facilities) -> Iterator[Advice]:
    stolen = could = 0
    for _, times in rows:
        stolen += times[Kind.STOLEN]
        could += able(times)
    if stolen > r.stolen * could:
        share = stolen / could
        text = f"the hypervisor took {share:.0%} of the time that the threads could run: {patterns.HOST.text}"
        yield _without_linux(
            ledger, Advice(None, "stolen", share, r.stolen, text, patterns.HOST.command, at_stake=stolen)
        )
    anomaly = busy_without_user_code(ledger, r)
    if anomaly is not None:
        command = _command(anomaly.pattern.command, anomaly.thread, _living(ledger))
        text = f"{anomaly.found}: {anomaly.pattern.text}"
        advice = Advice(None, "system", anomaly.share, r.system, text, command, at_stake=anomaly.lost)
        yield _without_linux(ledger, advice)
    for processor in ledger.processors:
        taken = interrupt_time(processor.states)
        if taken and taken > r.interrupts * processor.span:
            name = largest(processor.states, is_interrupt)
            share = taken / processor.span
            found = f"processor {processor.cpu} spent {share:.0%} of its time in interrupts, most in {name[:LONGEST]}"
            pattern = patterns.of_interrupt(name)
            helps = of_pattern(found, pattern) if pattern else interrupted(found, processor.cpu, where, name)
            text = f"{helps.found}: {helps.text}"
            advice = Advice(None, "kpi", share, r.interrupts, text, helps.command, helps.undo, at_stake=taken)
            yield _without_linux(ledger, advice)


def _of_waiting(ledger: Ledger, rows: _Rows, r: Thresholds) -> Iterator[Advice]:
    """One for each reason that is worth a word, and for each lock: the thread that did most beside waiting for it."""
    causes = recorded(ledger)
    found = _waits_by_reason(ledger, rows, r, causes=causes)
    living = _living(ledger) if found else frozenset()
    for (reason, lock), threads in sorted(found.items(), key=lambda item: -time_in(item[1][0], f"wait.{item[0][0]}")):
        first, others = threads[0], threads[1:] if lock else []
        pattern = _lock_pattern(ledger, lock) if lock else _wait_pattern(first, reason, causes=causes)
        times = [time_in(thread, f"wait.{reason}") for thread in (first, *others)]
        share = times[0] / first.span
        what, _, helps = pattern.text.partition(": ")
        text = f"it waits {share:.0%} of the time {what}{_waited(first, f'wait.{reason}')}: {helps}"
        if others:
            text += f" ({_alike(first, others)} alike)"
        command = _command(pattern.command, first, living)
        advice = Advice(first.tid, "wait", share, r.wait, text, command, at_stake=sum(times), name=first.name)
        yield _without_linux(ledger, replace(advice, alike=len(others)))


def _lock_pattern(ledger: Ledger, lock: Lock) -> Pattern:
    """Return the pattern of a lock, by what its holder did for most of the time that others waited for it."""
    pid, name = lock
    did = meanwhile(ledger, (pid,), name)
    known = did and did[0].share > _MOST_OF_HOLDING
    return patterns.LOCKS_BY_HOLDER.get(did[0].kind, patterns.LOCK) if known else patterns.LOCK


def _waits_by_reason(
    ledger: Ledger, rows: _Rows, r: Thresholds, *, causes: bool
) -> dict[tuple[str, Lock | None], list[Thread]]:
    """Return the threads that mostly wait for one thing, those first that do most beside that.

    A thread that hardly works rests where it waits for another thread, a pipe or the network: it has nothing to do. An
    idle worker of a server waits like that. It does not work while it is ready, which takes long where others have the
    processors. The disk, the interpreter lock and every other lock are waited for in the middle of work.
    """
    found: dict[tuple[str, Lock | None], list[Thread]] = {}
    mostly = [(t, times) for t, times in rows if t.span and times.get(Kind.WAIT, 0) > r.wait * t.span]
    mostly.sort(key=lambda row: (-able(row[1]), row[0].key))
    known = locks(ledger) if causes and mostly else frozenset()
    for thread, times in mostly:
        for reason in patterns.WAITS:
            lock = lock_of(thread, known) if reason == "futex" else None
            rests = lock is None and (reason in patterns.RESTS or (causes and not _by_disk(thread, reason)))
            if rests and processor_time(times) < r.rest * thread.span:
                continue
            if time_in(thread, f"wait.{reason}") > r.wait * thread.span:
                found.setdefault((reason, lock), []).append(thread)
    return found


def _by_disk(thread: Thread, reason: str) -> bool:
    """Return whether what may be a wait for the disk was one; True for what cannot."""
    return reason not in patterns.WAITS_FOR_OTHERS or by_disk(thread, f"wait.{reason}") >= DISK


def _wait_pattern(thread: Thread, reason: str, *, causes: bool) -> Pattern:
    """Return the pattern of a wait. That it is one for the disk takes evidence."""
    if reason == "disk" and _by_disk(thread, reason) and (forces(thread) or reads(thread)):
        return patterns.FORCES if forces(thread) else patterns.READS
    if _by_disk(thread, reason):
        return patterns.WAITS[reason]
    return (patterns.WAITS_FOR_OTHERS if causes else patterns.UNSEEN_WAITS)[reason]


def _waited(thread: Thread, state: str) -> str:
    """Return a clause that says what was waited for and who had it, or ended the wait, as far as it was recorded."""
    text = _behind(thread, state)
    about = [c for c in thread.causes if c.state == state and c.tid != thread.tid]
    had = [c for c in about if c.behind is Behind.HOLDER]
    woken = [c for c in about if c.behind is Behind.WAKER]
    time = thread.states[state].time
    if not time or not (had or woken):
        return text
    cause = max(had or woken, key=lambda c: (c.time, c.name))
    who = cause.name[:LONGEST] + ("" if cause.tid is None else f" ({cause.tid})")
    what = f"in waits that began while {who} had it" if had else f"until {who} woke it"
    return f"{text}, {share_of(cause, time)} of it {what}"


def _living(ledger: Ledger) -> frozenset[int]:
    """Return the processes with a thread that outlived the window."""
    return frozenset(t.pid for t in ledger.threads if t.end is None)


def _command(command: str, thread: Thread | None, living: frozenset[int]) -> str | None:
    """Insert the thread's ids into a command; None: it has ended or is not known, so there is nobody to look at.

    The ids of what has ended may belong to another thread by now.
    """
    if "{tid}" in command and (thread is None or thread.end is not None):
        return None
    if "{pid}" in command and (thread is None or thread.pid not in living):
        return None
    return command if thread is None else command.format(tid=thread.tid, pid=thread.pid)


def _without_linux(ledger: Ledger, advice: Advice) -> Advice:
    """Remove the commands on the reference machine, which has no shell to run them in."""
    return replace(advice, command=None, undo=None, remedy=None) if ledger.source == "machine" else advice
