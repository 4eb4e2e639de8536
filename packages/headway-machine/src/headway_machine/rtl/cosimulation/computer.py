"""A program on the barrel core and, where it is asked for, on the reference machine, whose counters are compared."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

from headway.errors import HeadwayError
from headway_machine._processor import LIMIT, MachineProcessor
from headway_machine.config import RAM, TCM, Config, MemoryConfig, Pipeline, Tlb
from headway_machine.image import MachineImage

from ..core.computer import MEMORY_BITS, Computer
from ..names import COUNTERS
from .simulator import compiled

__all__ = ["ComputerRun", "compare_core", "config_of_core", "run_core"]

_ENTRY = 24
"""Bytes of an entry of the signals (``headway_machine/signals.pxd``)."""
_MEMORY = 1 << MEMORY_BITS
_PIECE = 50_000
"""Ticks that the machine is ahead of the core."""


@dataclass(frozen=True, slots=True)
class ComputerRun:
    """A run of a program on the barrel core."""

    exit_status: int | None
    """None: it has not ended."""
    output: bytes
    """What it sent by the UART."""
    clocks: int
    retired: int
    """Instructions of all threads."""
    counters: tuple[tuple[int, ...], ...]
    """The unit's eight counters of each thread, at the end."""
    memory: bytes
    values: int
    """Counters that were compared with the machine's, each in each cycle of each thread."""
    entries: int
    """States that were entered anew, and compared."""
    difference: str | None
    """The first difference from the machine, as a sentence; None: there was none, or nothing was compared."""


def config_of_core(threads: int) -> Config:
    """Return the machine that has the core's pipeline: all harts start, in strict turn, and no access takes longer."""
    return Config.of(
        threads=threads,
        issue="strict",
        boot="all",
        pipeline=Pipeline(device=1),
        tlb=Tlb(entries=0),
        memory=MemoryConfig(tcm=_MEMORY),
    )


def run_core(program: bytes, threads: int, *, max_cycles: int, base: int = TCM) -> ComputerRun:
    """Run a program that stands at ``base`` on the core alone. Raises HeadwayError if it does not, or has no tohost."""
    with _Computer(MachineImage.of(program), threads, base) as computer:
        computer.code.computer_run(computer.pointer, max_cycles)
        return computer.found()


def compare_core(program: bytes, threads: int, *, max_cycles: int) -> tuple[ComputerRun, MachineProcessor]:
    """Run a program on the core and on the machine, and compare counters and states in each cycle of each thread.

    Return the run of the core and the machine as it is then. The program stands in the machine's tightly coupled
    memory, which never misses. Raises HeadwayError if it does not.
    """
    image = MachineImage.of(program)
    with _Computer(image, threads, TCM) as computer:
        processor = MachineProcessor(config_of_core(threads))
        for segment in image.segments:
            processor.write(segment.address, segment.data)
        processor.tell_signals()
        processor.start(image.entry, image.tohost)
        until, stop = 0, LIMIT
        while stop == LIMIT and until < max_cycles and not computer.report().differences:
            until = min(max_cycles, until + _PIECE)
            stop = processor.run(until)
            entries = processor.signals()
            computer.code.computer_feed(computer.pointer, entries, len(entries) // _ENTRY)
        if not computer.report().differences:
            computer.code.computer_run(computer.pointer, max_cycles)
        return computer.found(), processor


class _Computer:
    """A simulation with a program in its memory; a context manager."""

    def __init__(self, image: MachineImage, threads: int, base: int) -> None:
        if image.tohost is None:
            raise HeadwayError("the program has no tohost, by which it ends")
        self._threads = threads
        self.code = _library(threads, base)
        self.pointer = self.code.computer_new(base, _MEMORY, image.tohost)
        for segment in image.segments:
            offset = segment.address - base
            if segment.address >= RAM > base:
                continue  # the word by which it ends
            if not 0 <= offset <= _MEMORY - len(segment.data):
                raise HeadwayError(f"the program has a segment at {segment.address:#x}: build it for {base:#x}")
            self.code.computer_write(self.pointer, offset, segment.data, len(segment.data))

    def __enter__(self) -> _Computer:
        return self

    def __exit__(self, *_: object) -> None:
        self.code.computer_free(self.pointer)
        self.pointer = None

    def report(self) -> Any:
        """Return the counts so far."""
        return self.code.computer_report(self.pointer).contents

    def found(self) -> ComputerRun:
        """Return what has come out so far."""
        report = self.report()
        values = (ctypes.c_uint64 * (COUNTERS * self._threads))()
        self.code.computer_counters(self.pointer, values)
        memory = ctypes.create_string_buffer(_MEMORY)
        self.code.computer_read(self.pointer, 0, memory, _MEMORY)
        return ComputerRun(
            exit_status=report.status >> 1 if report.ended else None,
            output=self.code.computer_sent(self.pointer),
            clocks=report.clocks,
            retired=report.retired,
            counters=tuple(tuple(values[n * COUNTERS : (n + 1) * COUNTERS]) for n in range(self._threads)),
            memory=memory.raw,
            values=report.compared,
            entries=report.entries,
            difference=report.first.decode() if report.differences else None,
        )


class _Report(ctypes.Structure):
    """What a simulation has compared so far (``computer.cc``)."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("clocks", "retired", "compared", "entries", "ended", "status")),
        ("differences", ctypes.c_int64),
        ("first", ctypes.c_char * 512),
    ]


@cache
def _library(threads: int, base: int) -> Any:
    """Return the simulator of a computer. Raises HeadwayError if it cannot be built."""
    code = compiled(Computer(threads, base), "computer.cc", {"THREADS": threads, "STEP": threads})
    code.computer_new.restype = ctypes.c_void_p
    code.computer_new.argtypes = [ctypes.c_uint32, ctypes.c_uint32, ctypes.c_uint32]
    code.computer_write.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint32]
    code.computer_read.argtypes = [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_char_p, ctypes.c_uint32]
    code.computer_feed.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64]
    code.computer_run.argtypes = [ctypes.c_void_p, ctypes.c_int64]
    code.computer_counters.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]
    code.computer_sent.restype = ctypes.c_char_p
    code.computer_sent.argtypes = [ctypes.c_void_p]
    code.computer_report.restype = ctypes.POINTER(_Report)
    code.computer_report.argtypes = [ctypes.c_void_p]
    code.computer_free.argtypes = [ctypes.c_void_p]
    return code
