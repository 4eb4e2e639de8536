"""What would help: the policy over the indices (T10).

When the time lost on the processor (Td, or its lower bound RPI - EPI) passes its reference, MPI, KPI and IOPI are
looked at; where one of them passes its own, the state that takes most of it names the cause, and the cause what helps.
Time off the processor is no progress lost on it, but said too: waiting for a processor, time stolen by the hypervisor,
and what a thread mostly waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .cell import Cell
from .indices import interrupt_time, processor_time
from .kinds import Kind, kind_of
from .ledger import Ledger, Thread

__all__ = ["Advice", "References", "advise"]


@dataclass(frozen=True, slots=True)
class References:
    """From where on a figure is worth a word; shares from 0 to 1."""

    td: float = 0.10
    """Td of RPI."""
    mpi: float = 0.25
    """MPI of Td; likewise KPI and IOPI."""
    kpi: float = 0.25
    iopi: float = 0.25
    ready: float = 0.10
    """Waiting for a processor, of the time that the thread was able to run."""
    stolen: float = 0.02
    """Stolen by the hypervisor, of the time that the threads were able to run."""
    interrupts: float = 0.20
    """In interrupts, of a processor's time."""
    wait: float = 0.50
    """Waiting for one thing, of the time that the thread was measured."""
    interest: float = 0.01
    """A thread that was able to run for less than this share of the window is not spoken of, unless for its waiting."""
    least_ns: int = 10_000_000
    """Neither is one that was able to run for less than this, where times are in ns: there is little to gain."""
    most: int = 5
    """Pieces of advice at most."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that would help one thread (None: the whole machine)."""

    thread: int | None
    """Its tid."""
    index: str
    """What passed its reference: ``mpi``, ``kpi``, ``iopi``, ``ready``, ``stolen`` or ``wait``."""
    value: float
    """The share that it has, from 0 to 1; of what, see `References`."""
    reference: float
    text: str
    command: str | None
    """What to run to see the cause or to change it; None where no command can."""


@dataclass(frozen=True, slots=True)
class _Cause:
    """Why a thread loses time, and what helps."""

    text: str
    command: str
    """With {tid} and {pid}."""
    calls: str = ""
    """The system calls (or ``fault``) that tell of it."""


def _stacks(event: str) -> str:
    return f"sudo perf record -g -e {event} -t {{tid}} -- sleep 2 && sudo perf report --stdio"


_CALLS = (
    _Cause(
        "threads contend for a lock: hold it for a shorter time, split it, or keep the data per thread",
        _stacks("syscalls:sys_enter_futex"),
        "futex futex_wait futex_wake futex_waitv futex_requeue",
    ),
    _Cause(
        "memory is touched for the first time over and over: keep it (GLIBC_TUNABLES=glibc.malloc.trim_threshold=…), "
        "fault it in at once (MAP_POPULATE), or use huge pages (glibc.malloc.hugetlb=1)",
        _stacks("page-faults"),
        "fault",
    ),
    _Cause(
        "memory is taken from the kernel and given back again: keep it "
        "(GLIBC_TUNABLES=glibc.malloc.trim_threshold=…:glibc.malloc.mmap_threshold=…)",
        "sudo timeout 2 strace -c -e trace=%memory -p {tid}",
        "mmap munmap mremap brk madvise mprotect",
    ),
    _Cause(
        "every small write is forced to the disk: gather several and force them once",
        "sudo timeout 2 strace -T -e trace=fsync,fdatasync,msync,sync_file_range -p {tid}",
        "fsync fdatasync msync sync_file_range syncfs sync",
    ),
    _Cause(
        "data moves in many calls: use larger buffers, or hand them to the kernel in batches (io_uring)",
        "sudo timeout 2 strace -c -p {tid}",
        "read write pread64 pwrite64 readv writev preadv pwritev preadv2 pwritev2 lseek sendfile splice recvfrom "
        "sendto recvmsg sendmsg recvmmsg sendmmsg",
    ),
    _Cause(
        "it spins and gives way instead of waiting: use a lock or a condition that blocks",
        _stacks("syscalls:sys_enter_sched_yield"),
        "sched_yield",
    ),
    _Cause(
        "it wakes up often for little work: wait longer, or take more at each wake-up",
        "sudo timeout 2 strace -r -p {tid}",
        "poll ppoll select pselect6 epoll_wait epoll_pwait epoll_pwait2 nanosleep clock_nanosleep",
    ),
)
_BY_CALL = {call: cause for cause in _CALLS for call in cause.calls.split()}
_OTHER_CALL = _Cause("ask the kernel less often, or for more at once", "sudo timeout 2 strace -c -p {tid}")
_REGION = _Cause(
    "the program marks this part of its own code as no progress: make it shorter or call it less often",
    _stacks("cpu-clock"),
)
_INTERRUPTS = _Cause(
    "interrupts run on its processor: send them elsewhere (/proc/irq/*/smp_affinity_list), or move the thread",
    "cat /proc/interrupts; taskset -cp {tid}",
)
_MEMORY = _Cause(
    "it waits for memory that others use too: give it its own part of the cache, or processors that share no cache "
    "with the others",
    "sudo mount -t resctrl resctrl /sys/fs/resctrl; sudo mkdir -p /sys/fs/resctrl/own && "
    "echo {tid} | sudo tee /sys/fs/resctrl/own/tasks",
)
_POLL = _Cause(
    "it asks again and again for what is not there: block until it is (poll with a timeout, epoll_wait with -1, "
    "io_uring), or ask less often",
    "sudo timeout 2 strace -r -p {tid}",
)
_INTERRUPT_WORDS = ("irq", "softirq")
_WAITS = {
    "futex": _Cause(
        "for a lock, or for another thread's work: if it should be working, see where it waits and who holds what",
        _stacks("syscalls:sys_enter_futex"),
    ),
    "disk": _Cause(
        "for the disk: read ahead (posix_fadvise), keep several requests on their way (io_uring), or keep the data in "
        "memory",
        "cat /proc/{pid}/io",
    ),
    "fault": _Cause(
        "for pages of its own memory to come from the disk: it needs more memory, or to lock what it uses (mlock)",
        "grep -E 'VmRSS|VmSwap' /proc/{pid}/status",
    ),
    "pipe": _Cause(
        "for the other end of a pipe: measure what is there, it is the slower one",
        "ls -l /proc/{pid}/fd",
    ),
    "net": _Cause(
        "for the network: ask for several things at once, or measure the other end",
        "sudo ss -tinp | grep -A1 'pid={pid},'",
    ),
}

# So many of the worst threads are looked at closely; the others could hardly be among the worst pieces of advice.
_CLOSELY = 64


_Rows = Sequence[tuple[Thread, Mapping[Kind, int]]]


@dataclass(frozen=True, slots=True)
class _Finding:
    lost: int
    thread: Thread
    index: str
    value: float
    reference: float


def advise(ledger: Ledger, references: References | None = None) -> tuple[Advice, ...]:
    """What would help, the most time lost first; last, what threads mostly wait for.

    Threads of one process that lose time by the same cause are spoken of once, by the one that loses most.
    """
    r = references or References()
    rows = [(thread, ledger.times(thread)) for thread in ledger.threads]
    losses = sorted(_losses(ledger, rows, r), key=lambda f: (-f.lost, f.thread.key, f.index))
    ranked = [(f.lost, f.thread.key, advice) for f, advice in _of_threads(ledger, losses)]
    ranked += [(lost, (0, 0), advice) for lost, advice in _of_the_machine(ledger, rows, r)]
    ranked.sort(key=lambda row: (-row[0], row[1]))
    return (*(advice for _, _, advice in ranked), *_of_waiting(ledger, rows, r))[: r.most]


def _able(times: Mapping[Kind, int]) -> int:
    """Time in which a thread was able to run, whether it did or not."""
    return processor_time(times) + times[Kind.READY] + times[Kind.STOLEN] + times[Kind.OVERHEAD]


def _losses(ledger: Ledger, rows: _Rows, r: References) -> Iterator[_Finding]:
    least = r.interest * ledger.window.duration
    if ledger.time_unit == "ns":
        least = max(least, r.least_ns)
    for thread, times in rows:
        able = _able(times)
        if not able or able < least:
            continue
        ready = times[Kind.READY]
        if ready > r.ready * able:
            yield _Finding(ready, thread, "ready", ready / able, r.ready)
        rpi = processor_time(times)
        td = rpi - times[Kind.EFFECTIVE]
        if td <= r.td * rpi:
            continue
        for index, kind, reference in (
            ("mpi", Kind.MEMORY, r.mpi),
            ("kpi", Kind.KERNEL, r.kpi),
            ("iopi", Kind.POLL, r.iopi),
        ):
            part = times[kind]
            if part > reference * td:
                yield _Finding(part, thread, index, part / td, reference)


def _of_threads(ledger: Ledger, losses: list[_Finding]) -> Iterator[tuple[_Finding, Advice]]:
    alike: dict[tuple[int, str], list[tuple[_Finding, str, str]]] = {}
    for finding in losses[:_CLOSELY]:
        text, command = _ready(ledger, finding) if finding.index == "ready" else _lost(finding)
        what_helps = text.partition(": ")[2]
        alike.setdefault((finding.thread.pid, what_helps), []).append((finding, text, command))
    for group in alike.values():
        finding, text, command = group[0]
        others = len({f.thread.key for f, _, _ in group} - {finding.thread.key})
        if others:
            least = "at least " if len(losses) > _CLOSELY else ""
            text += f" ({least}{others} more {'thread' if others == 1 else 'threads'} of this process alike)"
        advice = Advice(finding.thread.tid, finding.index, finding.value, finding.reference, text, command)
        yield finding, _without_linux(ledger, advice)


def _lost(finding: _Finding) -> tuple[str, str]:
    thread, states = finding.thread, finding.thread.states
    share = f"{finding.value:.0%} of the lost time is "
    if finding.index == "mpi":
        return f"{share}waiting for memory: {_MEMORY.text}", _command(_MEMORY, thread)
    if finding.index == "iopi":
        return f"{share}polling: {_POLL.text}", _command(_POLL, thread)
    groups: dict[str, int] = {}
    for state, cell in states.items():
        if kind_of(state) is Kind.KERNEL:
            text = _cause_of(state).text
            groups[text] = groups.get(text, 0) + cell.time
    most = max(groups, key=lambda text: (groups[text], text))
    name = _largest(states, lambda state: kind_of(state) is Kind.KERNEL and _cause_of(state).text == most)
    count = states[name].count
    times = f" ({count:,} times)" if count else ""
    return f"{share}in the kernel, most in {name}{times}: {most}", _command(_cause_of(name), thread)


def _ready(ledger: Ledger, finding: _Finding) -> tuple[str, str]:
    thread, processors = finding.thread, len(ledger.processors)
    where = f"{processors} processors" if processors > 1 else "its processors"
    text = (
        f"{finding.value:.0%} of the time it could run, it waited for a processor: more runs on {where} than they can "
        "take; start fewer threads, or allow it more processors"
    )
    return text, f"taskset -acp {thread.pid}"


def _of_the_machine(ledger: Ledger, rows: _Rows, r: References) -> Iterator[tuple[int, Advice]]:
    stolen = able = 0
    for _, times in rows:
        stolen += times[Kind.STOLEN]
        able += _able(times)
    if stolen > r.stolen * able:
        text = (
            f"the hypervisor took {stolen / able:.0%} of the time that the threads could run: the host has more to do "
            "than it can; ask for processors of your own, or for another host"
        )
        yield stolen, _without_linux(ledger, Advice(None, "stolen", stolen / able, r.stolen, text, "vmstat -w 1 5"))
    for processor in ledger.processors:
        taken = interrupt_time(processor.states)
        if taken and taken > r.interrupts * processor.span:
            name = _largest(processor.states, lambda state: state.partition(".")[0] in _INTERRUPT_WORDS)
            share = taken / processor.span
            text = (
                f"processor {processor.cpu} spent {share:.0%} of its time in interrupts, most in {name}: spread them "
                "over the processors (/proc/irq/*/smp_affinity_list), or keep the threads away from it"
            )
            advice = Advice(None, "kpi", share, r.interrupts, text, "cat /proc/interrupts")
            yield taken, _without_linux(ledger, advice)


def _of_waiting(ledger: Ledger, rows: _Rows, r: References) -> Iterator[Advice]:
    """One for each reason that is worth a word: the thread that did most beside waiting for it."""
    found: dict[str, tuple[int, Thread, float]] = {}
    mostly = [t for t in ledger.threads if t.span and t.times().get(Kind.WAIT, 0) > r.wait * t.span]
    mostly.sort(key=lambda t: (-_able(t.times()), t.key))
    for thread in mostly[:_CLOSELY]:
        for reason in _WAITS:
            cell = thread.states.get(f"wait.{reason}")
            if cell and cell.time > r.wait * thread.span and reason not in found:
                found[reason] = cell.time, thread, cell.time / thread.span
    for reason, (_, thread, share) in sorted(found.items(), key=lambda item: -item[1][0]):
        cause = _WAITS[reason]
        text = f"it waits {share:.0%} of the time {cause.text}"
        yield _without_linux(ledger, Advice(thread.tid, "wait", share, r.wait, text, _command(cause, thread)))


def _cause_of(state: str) -> _Cause:
    first, _, call = state.partition(".")
    if first in _INTERRUPT_WORDS:
        return _INTERRUPTS
    return _REGION if first == "noneffective" else _BY_CALL.get(call, _OTHER_CALL)


def _largest(states: Mapping[str, Cell], belongs: Callable[[str], bool]) -> str:
    return max((state for state in states if belongs(state)), key=lambda state: (states[state].time, state))


def _command(cause: _Cause, thread: Thread) -> str:
    return cause.command.format(tid=thread.tid, pid=thread.pid)


def _without_linux(ledger: Ledger, advice: Advice) -> Advice:
    """The reference machine has no shell to run a command in."""
    if ledger.source != "machine":
        return advice
    return Advice(advice.thread, advice.index, advice.value, advice.reference, advice.text, None)
