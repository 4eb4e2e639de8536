"""Attach the eBPF programs: to their tracepoints, and to perf events of every processor: page faults and a clock."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from operator import itemgetter

from headway.errors import HeadwayError
from headway.linux.levels import Level
from headway.linux.perf import perf_event as perf
from headway.linux.procfs import processors

from . import loading
from .hotplug import Hotplug
from .libbpf import BpfProgram, Link, Object
from .loading import Features
from .unavailable import UnavailableError

__all__ = ["Attachments"]


_EVENTS: Mapping[str, tuple[perf.Event, ...]] = {
    "handle_page_fault_end": perf.FAULTS,
    "handle_page_fault_begin": (perf.FAULT,),
    "handle_state_sample": (perf.SAMPLE_CLOCK,),
    "handle_code_sample": (perf.CODE_CLOCK,),
}
"""The perf events of a processor at which a program runs. The place of an event is the program's cookie there."""


class Attachments:
    """The loaded programs of an object, attached as far as a level of detail needs them.

    `close` detaches everything that is attached of the object. Raises HeadwayError where a program cannot be attached;
    then nothing is left attached.
    """

    def __init__(self, programs: Object, features: Features, level: Level) -> None:
        self._object = programs
        self._features = features
        self._level = level
        self._by_samples = False
        self.change_ns = 0
        """The processor time that detaching and attaching all programs took the last time."""
        self._links: dict[str, list[Link]] = {}
        """Of tracepoints, by program."""
        self._event_links: dict[tuple[str, int], list[Link]] = {}
        """Of perf events, by program and processor."""
        self._hotplug = Hotplug()  # before anything is attached: a processor that comes back meanwhile is not missed
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def detached(self) -> Iterator[None]:
        """Have no program attached meanwhile. Raises HeadwayError where one cannot be attached again."""
        began = time.process_time_ns()
        self.detach()
        taken = time.process_time_ns() - began
        yield
        began = time.process_time_ns()
        self._attach()
        self.change_ns = taken + time.process_time_ns() - began

    def tracepoints(self) -> set[str]:
        """Return the tracepoints of the kernel that programs are attached to now."""
        programs = self._object.programs
        return {hook for name in self._links for hook in loading.tracepoints_of(programs[name], self._features)}

    def set_level(self, level: Level, *, by_samples: bool = False) -> None:
        """Attach what a level needs, and detach what it does not. Raises HeadwayError where that cannot be.

        ``by_samples``: samples divide the time of some threads at this level too.
        """
        self._level, self._by_samples = level, by_samples
        for name, links in list(self._links.items()):
            if not self._needs(name):
                self._destroy(links)
                del self._links[name]
        for (name, cpu), links in list(self._event_links.items()):
            if not self._needs(name):
                self._destroy(links)
                del self._event_links[name, cpu]
        self._attach()

    def follow_processors(self) -> None:
        """Attach again on processors that were off meanwhile: the kernel has let go of their perf events."""
        if back := self._hotplug.came_back():
            with suppress(HeadwayError), loading.files_as_allowed():  # off again already: it will come back
                self._attach_to_processors(back, self._programs())

    def detach(self) -> None:
        """Detach every program of the object, marked functions' too."""
        self._object.detach()
        self._links.clear()
        self._event_links.clear()

    def close(self) -> None:
        """Detach every program, and watch the processors no more; may be called again."""
        self.detach()
        self._hotplug.close()

    def _programs(self) -> list[BpfProgram]:
        """Return the programs that the level needs."""
        programs = self._object.programs.values()
        return [one for one in programs if one.wanted and self._needs(one.name)]

    def _needs(self, program: str) -> bool:
        return loading.is_needed_at(self._level, program, by_samples=self._by_samples)

    def _attach(self) -> None:
        """Attach the programs that the level needs and that are not attached yet."""
        shared = []
        fresh = [program for program in self._programs() if program.name not in self._links]
        for program in fresh:
            if program.section.startswith("tp_btf/"):
                self._links[program.name] = [self._object.attach(program)]
            else:
                shared += [(hook, program) for hook in loading.tracepoints_of(program, self._features)]
        for hook, program in sorted(shared, key=itemgetter(0)):  # an entry, and at once the exit that belongs to it
            self._links.setdefault(program.name, []).append(self._object.attach_raw_tracepoint(program, hook))
        attached = {name for name, _ in self._event_links}
        self._attach_to_processors(processors.online(), [one for one in fresh if one.name not in attached])

    def _attach_to_processors(self, cpus: Iterable[int], programs: Iterable[BpfProgram]) -> None:
        """Have programs run at the perf events of these processors."""
        runs = [(event, program, i) for program in programs for i, event in enumerate(_EVENTS.get(program.name, ()))]
        if not runs:
            return
        try:
            opened = perf.open_per_cpu([event for event, *_ in runs], cpus)
        except HeadwayError as error:
            raise UnavailableError(
                f"{error}, though another processor had it", "if one was turned off just now, try again"
            ) from None
        try:
            for cpu, fds in opened.items():
                for _, program, _ in runs:
                    self._destroy(self._event_links.pop((program.name, cpu), []))
                while fds:
                    _, program, cookie = runs[len(fds) - 1]
                    link = self._object.attach_perf_event(program, fds[-1], cookie)
                    self._event_links.setdefault((program.name, cpu), []).append(link)
                    fds.pop()  # the link's
        finally:
            perf.close_all(fd for fds in opened.values() for fd in fds)

    def _destroy(self, links: Iterable[Link]) -> None:
        for link in links:
            self._object.detach_link(link)
