"""A perf.data file with a trace, put in order: its kind, areas, sideband and clocks, whatever the trace's protocol."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from headway.binary.elf import ElfFile
from headway.errors import HeadwayError
from headway_trace.containers import file_in
from headway_trace.memory import Files

from .areas import AuxArea, areas_of
from .events import Area, AreaInfo, Aux, Event, HardwareId, Lost, MemoryMapping, TimeConversion, events
from .file import Feature, PerfFile
from .sideband import Sideband

__all__ = ["BTS", "CORESIGHT", "INTEL_PT", "Recorded"]

INTEL_PT, BTS, CORESIGHT, SPE = 1, 2, 3, 4
"""PERF_AUXTRACE_* (tools/perf/util/auxtrace.h)."""
_KINDS = {BTS: "Intel BTS", SPE: "Arm SPE", 5: "s390 CPU-MF", 6: "HiSilicon PTT", 7: "Arm TRBE"}
_CLOCKS = {0: "CLOCK_REALTIME", 1: "CLOCK_MONOTONIC", 4: "CLOCK_MONOTONIC_RAW", 7: "CLOCK_BOOTTIME", 11: "CLOCK_TAI"}
_VDSO = "[vdso]"
_KERNEL = "[kernel.kallsyms]"
"""The name of the kernel's code in the table of build IDs."""
_MOST_SEGMENTS = 1024
"""The most parts of a copy of the kernel's memory. perf copies the kernel's code and that of its modules."""


def _unsound(code: str) -> str:
    """Return why a copy of the kernel's code cannot be used; empty: it can."""
    try:
        with ElfFile(code, any_processor=True) as elf:
            segments = elf.segments()
    except HeadwayError as error:
        return str(error)
    if not 0 < len(segments) <= _MOST_SEGMENTS or any(at + size > 1 << 64 for at, _, size in segments):
        return f"{code!a} is no copy of a kernel's memory: it has {len(segments)} parts, or one beyond 64 bits"
    return ""


class Recorded:
    """What a perf.data file has of a trace, or the folder that ``perf record --kcore`` made.

    Such a folder has a copy of the kernel's code as it was when the recording began, and of its symbols.
    """

    def __init__(self, path: str, images: Iterable[str] = ()) -> None:
        """Read everything but the trace itself. Raises HeadwayError if there is none.

        An image that has the name of a mapped file stands for that file, wherever it was mapped from. `images` are the
        others.
        """
        self.path = file_in(path)
        self._named = {os.path.basename(image): image for image in images}
        self._used = set[str]()
        self.file = PerfFile(self.path)
        self.files = Files()
        self.counts = Counter[str]()
        self.info: AreaInfo | None = None
        self.conversion: TimeConversion | None = None
        self.trace_ids: dict[int, int] = {}
        """The trace ID of each processor, of CoreSight, if the file has them apart."""
        pieces, written, beside = list[Area](), list[Aux](), list[Event]()
        for event in events(self.file, self.counts):
            if isinstance(event, Area):
                pieces.append(event)
            elif isinstance(event, Aux):
                written.append(event)
            elif isinstance(event, AreaInfo):
                self.info = event
            elif isinstance(event, TimeConversion):
                self.conversion = event
            elif isinstance(event, HardwareId):
                self.trace_ids[event.when.cpu] = event.number & 0x7F
            elif isinstance(event, Lost):
                self.counts["records that perf lost"] += event.records
            else:
                beside.append(event)
        if self.info is None:
            compressed = self.counts["compressed records"]
            what = (
                "its records are compressed: record without -z"
                if compressed
                else "record one with -e intel_pt// or cs_etm//"
            )
            raise HeadwayError(f"{path!a} has no trace of a processor: {what}")
        if self.info.kind not in (INTEL_PT, CORESIGHT):
            kind = _KINDS.get(self.info.kind, f"a trace of kind {self.info.kind}")
            raise HeadwayError(f"{path!a} has {kind}, which headway does not read: it reads intel_pt and cs_etm")
        self.raw = any(aux.raw for aux in written)
        self.areas: list[AuxArea] = areas_of(pieces, written, self.counts)
        if not self.areas:
            raise HeadwayError(f"{path!a} has no trace: nothing was written to its AUX areas; record it again")
        self.sideband = Sideband(beside, self.files, self.counts, self._locate)
        others = tuple(image for image in self._named.values() if image not in self._used and self._fits(image))
        self.images = (*self._kernel(Path(path) / "kcore_dir"), *others)

    @property
    def clock(self) -> str:
        """The clock of its times: CLOCK_MONOTONIC with ``perf record -k mono``, else perf's own."""
        numbers = {attribute.clock for attribute in self.file.attributes if attribute.clock is not None}
        return _CLOCKS.get(numbers.pop(), "an unknown clock") if len(numbers) == 1 else "perf's own clock"

    @property
    def processor(self) -> str:
        """The processor as the kernel names it (CPUID), or ""."""
        return self.file.text(Feature.CPUID)

    def _kernel(self, folder: Path) -> tuple[str, ...]:
        """Return the path of the copy of the kernel's code that perf put into a folder, if there is a sound one."""
        code = str(folder / "kcore")
        if not folder.is_dir() or not self.files.check(code):
            return ()
        problem = _unsound(code)
        if problem:
            self.files.problems[code] = problem
            return ()
        self.files.name_kernel(code, str(folder / "kallsyms"))
        return (code,)

    def _locate(self, mapping: MemoryMapping) -> str | None:
        """Return the path of the file with the code of a mapping; None: there is none."""
        name = mapping.name
        build_ids = (mapping.build_id,) if mapping.build_id else self._build_ids.get(name, ())
        image = self._named.get(os.path.basename(name))
        if image is not None and self.files.check(image, build_ids):
            self._used.add(image)
            return image
        if name.startswith("/") and not name.startswith(("//anon", "/memfd:", "/SYSV", "/dev/")):
            if self.files.check(name, build_ids):
                return name
        elif name != _VDSO:
            return None
        return self._kept(name, build_ids)

    def _fits(self, image: str) -> bool:
        """Return whether an image is not another kernel than the one that was traced, as far as its name says so."""
        if not os.path.basename(image).startswith("vmlinux") or not os.path.isfile(image):
            return True
        return self.files.check(image, self._build_ids.get(_KERNEL, ()))

    def _kept(self, name: str, build_ids: Sequence[bytes]) -> str | None:
        """Return the copy that perf keeps of a file with a build ID (perf buildid-cache), or None."""
        for build_id in build_ids:
            folder = Path(os.path.expanduser("~/.debug")) / name.lstrip("/") / build_id.hex()
            for kept in ("elf", "vdso"):
                if (folder / kept).is_file():
                    return str(folder / kept)
        return None

    @cached_property
    def _build_ids(self) -> dict[str, tuple[bytes, ...]]:
        """The build IDs that the file has of names; several of a file that changed while it was recorded.

        perf writes them at the end, of the files that something was sampled in, or of all.
        """
        found: dict[str, tuple[bytes, ...]] = {}
        data, at = self.file.feature(Feature.BUILD_ID), 0
        while at + 36 <= len(data):
            size = int.from_bytes(data[at + 6 : at + 8], "little")
            if size < 36:
                break
            misc = int.from_bytes(data[at + 4 : at + 6], "little")
            length = data[at + 32] if misc & 1 << 15 and data[at + 32] <= 20 else 20
            name = data[at + 36 : at + size].partition(b"\0")[0].decode("utf-8", "backslashreplace")
            build_id = data[at + 12 : at + 12 + length]
            if any(build_id) and build_id not in found.get(name, ()):
                found[name] = (*found.get(name, ()), build_id)
            at += size
        return found

    def left_out(self) -> Sequence[str]:
        """Return in words what is missing, and which files could not be used."""
        notes = [f"{number} {what}" for what, number in sorted(self.counts.items()) if number]
        if self.file.cut:
            notes.insert(0, f"the end of the file ({self.file.cut})")
        return [*notes, *self.files.problems.values()]
