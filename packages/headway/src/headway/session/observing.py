"""Measuring from within a program: ``with headway.observe(pid=…) as seen: …; ledger = seen.read()``."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Literal, Self, cast

from headway.errors import SelectionError
from headway.exhaustion import start
from headway.linux.options import MAX_IDS, STATE_NAME, MarkedFunctions, MeasureOptions, Selection
from headway.linux.sources.choose import start_source
from headway.linux.sources.source import LinuxSource
from headway.model import Ledger

from .loop import turns

__all__ = ["Observed", "observe"]


def observe(
    pid: int | Sequence[int] = (),
    *,
    tid: int | Sequence[int] = (),
    name: str | None = None,
    cgroup: str | None = None,
    everything: bool = False,
    cpus: Sequence[int] | None = None,
    follow: bool = True,
    descendants: bool = False,
    source: str | None = None,
    checks: str | None = None,
    functions: Sequence[str] = (),
    polls: Sequence[str] = (),
    states: Mapping[str, str] = MappingProxyType({}),
    events: Sequence[str] = (),
    why: bool = False,
    publish: bool | Literal["all"] = False,
) -> Observed:
    """Measure threads of this machine while a ``with`` block runs, as ``headway stat`` does.

    Args:
        pid: Processes, with all their threads; `os.getpid()` is this one.
        tid: Single threads, by kernel id (`threading.get_native_id()`).
        name: Threads of this name (15 bytes at most); with a final ``*`` all that begin so.
        cgroup: A cgroup v2 directory: all threads in it and below it.
        everything: Every thread of the machine (of the pid namespace).
        cpus: Only what happens on these processors; None: all.
        follow: Whether what a measured thread creates is measured too.
        descendants: Whether what the processes ``pid`` have started before, and still lives, is measured too.
        source: ``"bpf"`` or ``"proc"``, and no other; None: the best that works.
        checks: A TOML file of status checks beside the ready-made ones.
        functions: Functions whose time is not progress, ``LIB:FUNCTION`` or the name of a ready-made set.
        polls: Functions whose time is polling, as above.
        states: Functions, as above, whose time is progress in a state of its own, ``user.NAME``, by that name.
        events: Events to be counted by state, in perf's words.
        why: Record what is behind the waits, and who had the processor.
        publish: Let the measured threads read what they have done so far, with `headway.progress` and `headway.states`,
            and what others of their user have done, with `headway.threads`. ``"all"``: what all have done that are
            measured, and let the programs of the calling user read it too.

    The choices add up. Raises `headway.errors.HeadwayError` (on entering) where they cannot be measured; then nothing
    is left attached.
    """
    if source not in (None, "bpf", "proc"):
        raise SelectionError(f"there is no source {source!r}: give 'bpf', 'proc', or None for the best that works")
    selection = Selection(
        pids=_several(pid, "pid"),
        tids=_several(tid, "tid"),
        name=name,
        cgroup=cgroup,
        everything=everything,
        cpus=None if cpus is None else tuple(cpus),
        follow=follow,
        descendants=descendants,
    )
    if not (selection.pids or selection.tids or name or cgroup or everything or selection.cpus):
        raise SelectionError("there is nothing to observe: give pid=, tid=, name=, cgroup=, cpus= or everything=True")
    for given in states:
        if not STATE_NAME.fullmatch(given):
            raise SelectionError(
                f"states: {ascii(given)[:60]} cannot be the name of a state: take letters, digits, _ and -"
            )
    marked = [
        *[MarkedFunctions(words, option="functions") for words in functions],
        *[MarkedFunctions(words, "poll", option="polls") for words in polls],
        *[MarkedFunctions(words, "user", name, "states") for name, words in states.items()],
    ]
    if publish not in (False, True, "all"):
        raise SelectionError(f"publish is True, False or 'all', not {ascii(publish)[:60]}")
    options = MeasureOptions(
        checks, tuple(marked), tuple(events), why, publish=bool(publish), publish_all=publish == "all"
    )
    return Observed(selection, source, options)


def _several(ids: int | Sequence[int], what: str) -> tuple[int, ...]:
    found = tuple(ids) if isinstance(ids, Sequence) and not isinstance(ids, str | bytes) else (ids,)
    for one in found:
        if not isinstance(one, int) or isinstance(one, bool) or not 0 < one <= MAX_IDS:
            raise SelectionError(f"{what}={ascii(one)[:60]} is no id: give a positive number, or several")
    return cast(tuple[int, ...], found)


class Observed:
    """What `observe` gives: a context manager, to be entered once. Its methods may be called from any thread.

    A thread of this process does what cannot wait for a reading (threads that end, /proc to be looked at); where this
    process is measured itself, it is among the threads. It is of the process that entered it: a child that this forks
    can ask it nothing, and leaves the block without ending anything.
    """

    def __init__(self, selection: Selection, prefer: str | None, options: MeasureOptions) -> None:
        self._selection, self._prefer, self._options = selection, prefer, options
        self._source: LinuxSource | None = None
        self._lock = threading.Lock()
        self._last: Ledger | None = None
        self._service: threading.Thread | None = None
        self._stop = -1
        self._failed: Exception | None = None
        self._owner = os.getpid()
        self.why_not_exact = ""
        """Why eBPF is not used, in words; empty if it is."""

    def __enter__(self) -> Self:
        if self._source is not None or self._last is not None:
            raise RuntimeError("an observation is entered once: make another one with headway.observe")
        self._owner = os.getpid()
        self._source, self.why_not_exact = start_source(
            self._selection, self._prefer, intervals=True, options=self._options
        )
        try:
            self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._service = threading.Thread(target=self._serve, args=(self._source,), name="headway", daemon=True)
            start(self._service)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if os.getpid() != self._owner:
            return
        try:
            with self._lock:
                if self._source is not None and self._failed is None:
                    self._last = self._source.end()
        finally:
            self._close()

    @property
    def source(self) -> str:
        """``bpf`` or ``proc``; empty before it is entered and after it is left."""
        return self._source.name if self._source is not None else ""

    def read(self) -> Ledger:
        """Return the ledger since the block was entered, until now or until the block was left. Times are ns."""
        with self._locked():
            if self._last is not None:
                return self._last
            return self._begun().read()

    def interval(self) -> Ledger:
        """Return the ledger since the last `interval`, or since the block was entered. Times are ns."""
        with self._locked():
            return self._begun().interval()

    def _locked(self) -> threading.Lock:
        if os.getpid() != self._owner:  # the lock may be held by a thread that there is not here
            raise RuntimeError(
                "this is observed by the parent process: a child has to enter a headway.observe of its own"
            )
        return self._lock

    def _begun(self) -> LinuxSource:
        if self._failed is not None:
            raise self._failed
        if self._source is None:
            raise RuntimeError("nothing is observed outside the with block of headway.observe")
        return self._source

    def _serve(self, source: LinuxSource) -> None:
        def service() -> float | None:
            with self._lock:
                return source.service()

        try:
            for ready in turns(service, lambda: (self._stop, *source.poll_fds())):
                if self._stop in ready:
                    return
        except Exception as error:  # who reads is told
            self._failed = error

    def _close(self) -> None:
        if self._service is not None and self._service.ident is not None:
            os.eventfd_write(self._stop, 1)
            self._service.join()
        with self._lock:
            if self._source is not None:
                self._source.close()
                self._source = None
        if self._stop >= 0:
            os.close(self._stop)
            self._stop = -1
