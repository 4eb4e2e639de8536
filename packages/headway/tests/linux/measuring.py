"""Measuring a program from its beginning to its end, what it says itself, and the laws that every ledger keeps."""

from __future__ import annotations

import errno
import itertools
import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.compiling import PROGRAMS

from headway.linux.options import MeasureOptions, Selection
from headway.linux.sources.ebpf import BpfSource
from headway.model import KNOWN_LOSSES, READY, Cell, Kind, Ledger, Thread, interrupt_time, kind_of, merge, violations
from headway.session.measure import observe

NO_OPTIONS = MeasureOptions()
NO_SELECTION = Selection()
PATIENT = MeasureOptions(checks=str(Path(__file__).with_name("patient.toml")))
"""Rows of status checks go on however long it takes until the next check."""


def lost(ledger: Ledger, *allowed: str) -> dict[str, int]:
    """What was lost, but for what a test expects, what a hypervisor took from nobody in particular, and rare chance."""
    rare = {"handlers_skipped": 2}  # one interrupted another in the few instructions that note an interrupt
    never = (*allowed, "stolen_ns_unplaced")
    return {name: n for name, n in ledger.losses.items() if n > rare.get(name, 0) and name not in never}


def check(ledger: Ledger, *allowed: str) -> None:
    """One reading: conservation to the nanosecond, nothing negative, nothing lost but what is allowed to be."""
    assert violations(ledger) == [], violations(ledger)
    assert lost(ledger, *allowed) == {}, lost(ledger, *allowed)
    assert ledger.losses.keys() <= KNOWN_LOSSES.keys()
    for thread in ledger.threads:
        assert thread.span == thread.until - thread.start
        assert (thread.end or ledger.window.end) == thread.until
    for processor in ledger.processors:
        assert processor.span == ledger.window.duration


def is_asleep(pid: int) -> bool:
    """Whether the first thread of a process waits for something that may take long."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "S"


def until_asleep(pid: int) -> None:
    """Until the first thread of a process waits."""
    deadline = time.monotonic() + 120
    while not is_asleep(pid):
        assert time.monotonic() < deadline, "it never waits"
        time.sleep(0.002)


def after_running(*pids: int, ns: int = 10_000_000) -> Callable[[], bool]:
    """Whether each of these processes has had so much processor time since this was first asked."""
    began: list[int] = []

    def enough() -> bool:
        now = [time.clock_gettime_ns(~pid << 3 | 2) for pid in pids]  # CPUCLOCK_SCHED of the process
        began[:] = began or now
        return min(later - then for later, then in zip(now, began, strict=True)) >= ns

    return enough


def go(program: subprocess.Popen[bytes]) -> None:
    """Have a program do its next thing, and wait until that is done."""
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(b"go\n")
    program.stdin.flush()
    program.stdout.readline()


def until_ended(source: BpfSource, program: subprocess.Popen[bytes]) -> list[Thread]:
    """Have ``batches_of_threads.py`` start and end five threads, and return them, as the intervals have them."""
    for _ in range(2):
        go(program)
    ended: list[Thread] = []
    while len(ended) < 5:  # a thread is joined a little before it has ended
        part = source.interval()
        source.service()
        check(part)
        ended += [thread for thread in part.threads if thread.end is not None]
    return ended


def say_when_looked(monkeypatch: pytest.MonkeyPatch, folder: Path, owner: type, method: str) -> None:
    """Let programs go on that wait until they are seen (tests/programs/until_seen.h, until.py) after each such call."""
    fifo = folder / "until_seen"
    os.mkfifo(fifo)
    monkeypatch.setenv("UNTIL_SEEN", str(fifo))
    look = getattr(owner, method)

    def look_and_say(self: Any, *arguments: Any) -> Any:
        try:
            waiting = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nobody waits
                raise
            return look(self, *arguments)
        try:
            return look(self, *arguments)
        finally:
            os.close(waiting)

    monkeypatch.setattr(owner, method, look_and_say)


def measure(
    *command: str | Path,
    options: MeasureOptions = NO_OPTIONS,
    selection: Selection = NO_SELECTION,
    allowed: Iterable[str] = (),
    seconds: float | None = None,
    enough: Callable[[], bool] = lambda: False,
    status: int = 0,
) -> tuple[Ledger, list[str]]:
    """A ledger that keeps the laws, and the words that the program wrote; its exit status is `status`."""
    read, write = os.pipe()
    said: list[bytes] = []
    with os.fdopen(read, "rb") as output:
        listener = threading.Thread(target=lambda: said.append(output.read()))
        listener.start()
        try:
            words = [str(word) for word in command]
            done = observe(
                selection, words, options=options, prefer="bpf", seconds=seconds, stdout=write, enough=enough
            )
        finally:
            os.close(write)
            listener.join()
    assert done.exit_status == (status if command else None)
    check(done.ledger, *allowed)
    return done.ledger, said[0].decode().split()


Together = Mapping[str, tuple[Ledger, list[str]]]
"""By program: the part of a ledger that has its threads, and the words that it wrote."""


def one_after_the_other(programs: Iterable[Sequence[str | Path]], folder: Path) -> list[str]:
    """The words of a command that runs programs, and writes the process id of each; ``folder``: for what they write."""
    lines = (f"{shlex.join(map(str, words))} > {folder}/{i} & echo $!; wait $!" for i, words in enumerate(programs))
    return ["sh", "-c", " || exit; ".join([*lines, ":"])]


def apart(ledger: Ledger, pids: Iterable[int]) -> list[Ledger]:
    """The parts of a ledger of programs that ran one after the other: each has what its process began, too."""
    begins = (min(t.birth for t in ledger.threads if t.pid == pid) for pid in pids)
    starts = [*begins, ledger.window.end]
    return [
        replace(ledger, threads=tuple(t for t in ledger.threads if start <= t.birth < end))
        for start, end in itertools.pairwise(starts)
    ]


def measure_together(
    programs: Mapping[str, Sequence[str | Path]],
    *,
    options: MeasureOptions = NO_OPTIONS,
    allowed: Iterable[str] = (),
) -> Together:
    """One measurement of programs that run one after the other and end well.

    Most run for less time than it takes to begin a measurement.
    """
    with TemporaryDirectory() as folder:
        command = one_after_the_other(programs.values(), Path(folder))
        ledger, pids = measure(*command, options=options, allowed=allowed)
        said = [Path(folder, str(i)).read_text().split() for i in range(len(programs))]
    return dict(zip(programs, zip(apart(ledger, map(int, pids)), said, strict=True), strict=True))


def measure_intervals(
    seconds: float,
    *command: str | Path,
    options: MeasureOptions = NO_OPTIONS,
    selection: Selection = NO_SELECTION,
    allowed: Iterable[str] = (),
    duration: float | None = None,
    stdout: int | None = None,
) -> tuple[Ledger, list[Ledger]]:
    """The whole and its intervals, each of which keeps the laws; one begins where the other ends.

    How many there are depends on when this process gets a processor.
    """
    parts: list[Ledger] = []
    words = [str(word) for word in command]
    done = observe(
        selection,
        words,
        options=options,
        prefer="bpf",
        interval=seconds,
        each=parts.append,
        seconds=duration,
        stdout=stdout,
    )
    parts.append(done.ledger)
    for part in parts:
        check(part, *allowed)
    for before, after in itertools.pairwise(parts):
        assert before.window.end == after.window.start
    whole = parts[0]
    for part in parts[1:]:
        whole = merge(whole, part)
    assert violations(whole) == []
    assert lost(whole, *allowed) == {}
    return whole, parts


def python(code: str) -> list[str]:
    """The words of a command that runs this code, which can import what is in ``tests/programs/``."""
    return [sys.executable, "-c", f"import sys; sys.path[0] = {str(PROGRAMS)!r}\n{code}"]


def only(ledger: Ledger, name: str | None = None) -> Thread:
    """The one thread (of this name)."""
    (thread,) = (t for t in ledger.threads if name in (None, t.name))
    return thread


def time_in(thread: Thread, *prefixes: str) -> int:
    """Time in the states whose names begin so, ns."""
    return sum(cell.time for state, cell in thread.states.items() if state.startswith(prefixes))


def count_of(thread: Thread, state: str) -> int:
    """How often the thread entered a state; of ``ready`` with its parts."""
    if state == READY:
        return sum(cell.count or 0 for name, cell in thread.states.items() if kind_of(name) is Kind.READY)
    return thread.states.get(state, Cell()).count or 0


def own_time(thread: Thread) -> int:
    """Processor time of the thread's own doing: RPI without interrupts, which hit anybody, ns."""
    times = thread.times()
    on = sum(times.get(kind, 0) for kind in Kind if kind.in_rpi)
    return on - interrupt_time(thread.states)


def disturbed(thread: Thread, *, waits: bool = True) -> int:
    """Time that may pass on the program's clock and that none of its code and of its status checks has, ns.

    ``waits`` is false for a thread whose waits, which may be long, are all outside what its clock says of its work.

    What a program's clock says of a part of it, less this, is a lower bound of the time in the part's state. The state
    may have more, because the program reads its clock within the part. All states together are the thread's span, so
    lower bounds of all parts leave no room for time in a wrong state.
    """
    states = ("ready", "kernel.", "stolen", "overhead", "unknown", *(["wait."] if waits else []))
    return time_in(thread, *states) + interrupt_time(thread.states)


def rows_broken(thread: Thread) -> int:
    """How many rows of status checks may have been broken: one at the start, and one at each interruption."""
    interrupts = sum(c.count or 0 for state, c in thread.states.items() if state.startswith(("irq.", "softirq.")))
    faults = sum(c.count or 0 for state, c in thread.states.items() if state.startswith("kernel.fault"))
    return 1 + count_of(thread, "ready") + faults + interrupts
