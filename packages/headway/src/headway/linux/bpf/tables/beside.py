"""Programs that are loaded beside those of a measurement, and read its records of threads (measured.h)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack

from headway.errors import HeadwayError
from headway.files import packaged

from ..programs.kernel_types import KernelTypes
from ..programs.libbpf import BpfError, Library, Map, Object
from ..programs.refusals import explain

__all__ = ["ProgramsBeside"]

_SHARED = ("processors", "thread_records", "tasks")
"""The maps of the measurement that they read."""


class ProgramsBeside:
    """The programs of one object, loaded and not yet attached; `close` unloads them.

    ``image``: its file. ``main``: the programs of the measurement. ``sizes``: entries of maps, by their names.
    ``data``: contents of data sections, likewise. ``types``: of the running kernel (`kernel_types`).
    ``shared``: maps of the measurement that these have, too, beside those that all have. Raises HeadwayError; then
    nothing is left loaded.
    """

    def __init__(
        self,
        library: Library,
        image: str,
        main: Object,
        sizes: Mapping[str, int],
        data: Mapping[str, bytes],
        types: KernelTypes,
        shared: Iterable[str] = (),
    ) -> None:
        with ExitStack() as stack:
            try:
                self._object = programs = Object(library, packaged("headway.linux.bpf", image), types)
            except OSError as error:
                raise HeadwayError(f"headway's eBPF object is missing ({error}): reinstall headway") from None
            stack.callback(programs.close)
            try:
                for name in (*_SHARED, *shared):
                    programs.map(name).share(main.map(name))
                for name, entries in sizes.items():
                    programs.map(name).max_entries = entries
                for name, contents in data.items():
                    programs.map(name).set_initial(contents)
                programs.load()
            except BpfError as error:
                raise explain(error) from None
            self._resources = stack.pop_all()

    def attach(self) -> None:
        """Begin to count. The programs of the measurement must be attached already: at an event these run later."""
        try:
            for program in self._object.programs.values():
                self._object.attach(program)
        except BpfError as error:
            raise explain(error) from None

    def detach(self) -> None:
        """Count no more."""
        self._object.detach()

    def close(self) -> None:
        """Detach and unload the programs; may be called again."""
        self._resources.close()

    def skipped(self) -> int:
        """Return how often the kernel skipped a program because it was running already on that processor."""
        return sum(program.misses() for program in self._object.programs.values())

    def map(self, name: str) -> Map:
        """Return a map of these programs, or one that they share."""
        return self._object.map(name)
