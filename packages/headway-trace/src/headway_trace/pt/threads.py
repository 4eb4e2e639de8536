"""Intel PT in perf.data: a stream for each thread, from the areas of the processors that it had.

perf writes an area for each processor. The sideband says which thread had it when, so the records of a thread are
those of its runs, in order of time. A run is decoded from the last PSB before it; what lies between the PSB and the run
belongs to others, and is passed over. If it is not known which thread had a processor, its area is one stream.

A switch of threads and the trace have times of the same clock, but the trace's time is only as exact as its last timing
packet. So the last instructions before a switch, and the first after it, may be attributed to the other thread if
tracing went on through the switch. Where only user code is traced it does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from headway_trace.disassembly import X86
from headway_trace.memory import ProcessMemory
from headway_trace.perfdata.areas import AuxArea
from headway_trace.perfdata.choosing import chosen_threads, left_out_in_words
from headway_trace.perfdata.recorded import Recorded
from headway_trace.perfdata.sideband import Run, Version

from .filters import filters_in, located
from .library import functions
from .setting import PtSetting, Ticks
from .streams import ALWAYS, Images, Piece, Pieces, PtStream, Slice

__all__ = ["PtThreads", "setting_of"]

_WORDS = 17
"""Words of AUXTRACE_INFO before the text of the filters, of which the last has its length. Older perf writes fewer."""
_PER_PROCESSOR = 1 << 32
"""The number of the stream of processor 0, where streams are those of processors."""


def setting_of(recorded: Recorded) -> PtSetting:
    """Return the setting that AUXTRACE_INFO has, but for the filters (enum of tools/perf/util/intel-pt.h)."""
    assert recorded.info is not None
    words = [*recorded.info.words, *[0] * _WORDS]
    shift, multiplier, zero, known = words[1:5]
    found = recorded.conversion
    if found is not None and found.known:
        shift, multiplier, zero, known = found.shift, found.multiplier, found.zero, 1
    usable = known and 0 < multiplier < 1 << 32 and shift < 64
    family, model, stepping = PtSetting.of_processor(recorded.processor)
    config = next((one.config for one in recorded.file.attributes if one.type == words[0] & 0xFFFFFFFF), 0)
    return PtSetting(
        family=family,
        model=model,
        stepping=stepping,
        crystal=(words[12] & 0xFFFFFFFF, words[13] & 0xFFFFFFFF),
        mtc_period=_bits(config, words[11]),
        nominal=words[15] & 0xFF,
        ticks=Ticks(shift, multiplier, zero) if usable else None,
        cycle_accurate=not words[5] or bool(config & words[5]),
    )


def _bits(value: int, mask: int) -> int:
    """Return the field of a value that a mask selects."""
    return (value & mask) >> ((mask & -mask).bit_length() - 1) & 15 if mask else 0


class PtThreads:
    """A perf.data file with Intel PT, as threads. ``left_out`` says what of it is missing or cannot be decoded."""

    isa = X86

    def __init__(self, recorded: Recorded) -> None:
        """Raises HeadwayError if libipt is missing, or if there is nothing to decode."""
        functions()
        self.recorded, self.path = recorded, recorded.path
        self.setting = setting_of(recorded)
        assert recorded.info is not None
        self.filters = filters_in(recorded.info.words[_WORDS - 1 :])
        self.streams: dict[int, PtStream] = {}
        self._build()

    def _build(self) -> None:
        sideband, images = self.recorded.sideband, Images()
        slices: dict[int, list[Slice]] = {}
        memories: dict[int, list[tuple[int, ProcessMemory]]] = {}

        def versions(pid: int) -> list[tuple[int, ProcessMemory]]:
            if pid not in memories:
                memories[pid] = self._versions(sideband.versions(pid))
            return memories[pid]

        alone = sideband.processes[0] if len(sideband.processes) == 1 else -1
        for area in self.recorded.areas:
            runs = list(sideband.runs(area.cpu)) if area.cpu >= 0 and self.setting.ticks else []
            if area.cpu < 0:  # the area of a thread
                runs = [Run(0, None, sideband.pids.get(area.tid, area.tid), area.tid, -1)]
            pieces = self._pieces(area, [(run, versions(run.pid)) for run in runs])
            for run in runs:
                one = Slice(self._tick(run.start), self._tick(run.end), pieces, versions(run.pid))
                slices.setdefault(run.tid, []).append(one)
            if not runs:
                number = _PER_PROCESSOR + area.cpu
                one = Slice(0, ALWAYS, pieces, versions(alone))
                self.streams[number] = PtStream(number, f"cpu{area.cpu}", self._filtered(one), [one], images)
        for tid, found in slices.items():
            found.sort(key=lambda one: one.start)
            alone_there = all(one.end == ALWAYS and not one.start for one in found)
            name = f"{sideband.name(tid) or '?'}:{tid}"
            setting = self._filtered(found[-1])
            self.streams[tid] = PtStream(tid, name, setting, found, images, thread=tid, alone=alone_there)

    def _filtered(self, one: Slice) -> PtSetting:
        """Return the setting with the filters where the process has the code that they are of."""
        filters = located(self.filters, one.versions[-1][1])
        return replace(self.setting, filters=filters) if filters else self.setting

    def _pieces(self, area: AuxArea, runs: Sequence[tuple[Run, Sequence[tuple[int, ProcessMemory]]]]) -> Pieces:
        nothing = ProcessMemory(self.recorded.files)
        memories = list[tuple[int, ProcessMemory]]()
        for run, versions in runs:
            start, end = self._tick(run.start), self._tick(run.end)
            current = [memory for begin, memory in versions if begin <= start][-1:] or [versions[0][1]]
            memories.append((start, current[0]))
            memories += [(begin, memory) for begin, memory in versions if start < begin < end]
            memories.append((end, nothing))
        memories.sort(key=lambda one: one[0])  # where a run ends and another begins, the one that begins is later
        look = lambda: [Piece.of(one.position, one.mapped(self.path)) for one in area.stretches]  # noqa: E731
        return Pieces(area.size, look, memories)

    def _tick(self, time: int | None) -> int:
        if time is None:
            return ALWAYS
        return self.setting.ticks.ticks(time) if self.setting.ticks is not None else 0

    def _versions(self, versions: Sequence[Version]) -> list[tuple[int, ProcessMemory]]:
        found = [(self._tick(one.start), one.memory) for one in versions] or [(0, ProcessMemory(self.recorded.files))]
        if self.recorded.images:
            found = [(start, memory.copy()) for start, memory in found]
            for _, memory in found:
                for image in self.recorded.images:
                    memory.add_file(image)
        return found

    @property
    def clock(self) -> str:
        """The name of the clock of its times."""
        return self.recorded.clock if self.setting.ticks is not None else "the time stamp counter"

    def run_starts(self) -> dict[int, list[int]]:
        """Return tid -> when the thread got a processor, in ns of perf's clock."""
        return self.recorded.sideband.run_starts()

    @property
    def words(self) -> str:
        """From when to when there is trace."""
        times = [
            run.start for area in self.recorded.areas for run in self.recorded.sideband.runs(area.cpu) if run.start
        ]
        return (
            f"the first switch of threads is at {min(times)}, the last at {max(times)}" if times else "it has no times"
        )

    @property
    def left_out(self) -> str:
        """What is missing or was left out, in one line; empty: nothing."""
        notes = list(self.recorded.left_out())
        if self.setting.ticks is None:
            notes.append("the times of switches: perf does not say how its clock and the trace's lie to each other")
        return left_out_in_words(notes)

    def chosen(self, ids: Iterable[int]) -> list[PtStream]:
        """Return the streams with these IDs, or all if there are none. Raises SelectionError for an unknown ID."""
        return chosen_threads(self.streams, ids, self.path)
