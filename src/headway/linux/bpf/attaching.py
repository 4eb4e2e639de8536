"""Attach the eBPF programs: to their tracepoints, and on every processor to the ends of page faults."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from operator import itemgetter

from headway.errors import HeadwayError
from headway.linux.perf import perf_event as perf
from headway.linux.procfs import processors

from . import loading
from .hotplug import Hotplug
from .libbpf import Object
from .loading import Features
from .unavailable import UnavailableError

__all__ = ["Attachments"]


class Attachments:
    """The loaded programs of an object, attached; `close` detaches everything that is attached of the object.

    Raises HeadwayError where a program cannot be attached; then nothing is left attached.
    """

    def __init__(self, programs: Object, features: Features) -> None:
        self._object = programs
        self._features = features
        self._fault_links: dict[int, list[int]] = {}
        self._hotplug = Hotplug()  # before anything is attached: a processor that comes back meanwhile is not missed
        try:
            self._attach()
        except BaseException:
            self.close()
            raise

    @contextmanager
    def detached(self) -> Iterator[None]:
        """Have no program attached meanwhile. Raises HeadwayError where one cannot be attached again."""
        self.detach()
        yield
        self._attach()

    def follow_processors(self) -> None:
        """Attach again on processors that were off meanwhile: the kernel has let go of their perf events."""
        if back := self._hotplug.came_back():
            with suppress(HeadwayError), loading.files_as_allowed():  # off again already: it will come back
                self._attach_to_faults(back)

    def detach(self) -> None:
        """Detach every program of the object, marked functions' too."""
        self._object.detach()
        self._fault_links.clear()

    def close(self) -> None:
        """Detach every program, and watch the processors no more; may be called again."""
        self.detach()
        self._hotplug.close()

    def _attach(self) -> None:
        shared = []
        for program in self._object.programs.values():
            if program.wanted and program.section.startswith("tp_btf/"):
                self._object.attach(program)
            elif program.wanted:
                shared += [(hook, program) for hook in loading.tracepoints_of(program, self._features)]
        for hook, program in sorted(shared, key=itemgetter(0)):  # an entry, and at once the exit that belongs to it
            self._object.attach_raw_tracepoint(program, hook)
        self._attach_to_faults(processors.online())

    def _attach_to_faults(self, cpus: Iterable[int]) -> None:
        """Have programs run at the ends of each page fault on these processors."""
        begins, done = self._object.programs["handle_page_fault_begin"], self._object.programs["handle_page_fault_end"]
        if not done.wanted:
            return
        runs = [(event, done) for event in perf.FAULTS] + ([(perf.FAULT, begins)] if begins.wanted else [])
        try:
            opened = perf.open_per_cpu([event for event, _ in runs], cpus)
        except HeadwayError as error:
            raise UnavailableError(
                f"{error}, though another processor had it", "if one was turned off just now, try again"
            ) from None
        try:
            for cpu, fds in opened.items():
                for link in self._fault_links.pop(cpu, ()):
                    self._object.detach_link(link)
                links = self._fault_links[cpu] = []
                while fds:
                    links.append(self._object.attach_perf_event(runs[len(fds) - 1][1], fds[-1]))
                    fds.pop()  # the link's
        finally:
            perf.close_all(fd for fds in opened.values() for fd in fds)
