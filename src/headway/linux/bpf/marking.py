"""The probes of marked functions, and their cost (bpf/regions.h)."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence

from headway.errors import HeadwayError
from headway.linux.options import MarkedFunctions, Selection
from headway.linux.procfs.ids import process_of
from headway.linux.procfs.maps import mappings
from headway.linux.regions.functions import Probe, resolve

from . import _exercise
from ._memory import BpfMaps
from .calibration import FUNCTIONS, ExercisingProcess
from .layout import STATES
from .libbpf import BpfError, Object

__all__ = ["Marking"]

_CLASS_SHIFT = 16
"""Above the tag in the cookie of a probe stands its place in `FUNCTIONS`."""


class Marking:
    """The functions that the user marked, for a selection. Raises SelectionError where there are no such functions."""

    def __init__(self, functions: Sequence[MarkedFunctions], selection: Selection) -> None:
        pids = selection.pids or tuple({process_of(tid) or tid for tid in selection.tids})
        self._pids = (selection.command,) if selection.command is not None else pids
        self._probes = resolve(functions, pids, selection.argv)
        self._everywhere = bool(selection.everything or selection.cgroup or selection.name)
        own = _exercise.address(0), _exercise.address(1), _exercise.address(2)
        self._exercises = [_probe_of(address, f"noneffective.exercise{i}") for i, address in enumerate(own)]
        self.states = tuple(dict.fromkeys(probe.state for probe in (*self._probes, *self._exercises)))
        """Names of the states of marked functions, in the order of their tags, from 1 on."""

    def calibrate(
        self, target: Object, memory: BpfMaps, exerciser: ExercisingProcess
    ) -> Mapping[str, tuple[float, float]]:
        """What the probes of a call cost, ns, by `FUNCTIONS`: in the function's time, and in its caller's."""
        costs = {}
        for which, (kind, probe) in enumerate(zip(FUNCTIONS, self._exercises, strict=True)):
            self._attach(target, probe, exerciser.pid)
            exerciser.call_functions(which)  # the first time takes longer
            before = memory.times_of(exerciser.pid)
            calls = exerciser.call_functions(which)
            after = memory.times_of(exerciser.pid)
            inside, outside = ((after.get(s, 0) - before.get(s, 0)) / calls for s in (probe.state, "user"))
            costs[kind] = inside, outside
        return costs

    def describe(self, costs: Mapping[str, tuple[float, float]]) -> str:
        """What a reader of the figures must know: one clause or two."""
        used = sorted({sum(costs[FUNCTIONS[_class_of(probe)]]) for probe in self._probes})
        most, least = (f"{cost / 1000:.1f}" for cost in (used[-1], used[0]))
        words = f"a call costs {least} µs more" if least == most else f"a call costs {least} to {most} µs more"
        return f"{words}, which is taken out" + ("" if self._everywhere else "; calls by child processes are not seen")

    def attach(self, target: Object) -> None:
        """Place the probes: in the processes chosen, or everywhere where those are not known. Raises HeadwayError."""
        for probe in self._probes:
            for pid in (-1,) if self._everywhere or not self._pids else self._pids:
                try:
                    self._attach(target, probe, pid)
                except BpfError as error:
                    raise HeadwayError(f"{probe.name} in {probe.path} cannot be marked: {error}") from None

    def _attach(self, target: Object, probe: Probe, pid: int) -> None:
        tag = 1 + self.states.index(probe.state)
        cookie = tag | _class_of(probe) << _CLASS_SHIFT
        target.attach_uprobe(
            target.programs["handle_function_entry"], probe.path, probe.offset, ret=False, cookie=cookie, pid=pid
        )
        target.attach_uprobe(
            target.programs["handle_function_return"], probe.path, probe.offset, ret=True, cookie=tag, pid=pid
        )


def _probe_of(address: int, state: str) -> Probe:
    """A probe on a function of our own."""
    for mapping in mappings(os.getpid()):
        if mapping.start <= address < mapping.end:
            return Probe(mapping.path, address - mapping.start + mapping.offset, state.rpartition(".")[2], state)
    raise HeadwayError("headway's own compiled code is not where it was loaded: reinstall headway")


def _class_of(probe: Probe) -> int:
    """Its place in `FUNCTIONS`, from the instruction at its beginning (arch/x86/kernel/uprobes.c: what is emulated)."""
    try:
        with open(probe.path, "rb") as file:
            file.seek(probe.offset)
            code = file.read(4)
    except OSError:
        return 2
    if platform.machine() != "x86_64":
        return 2
    if code == b"\xf3\x0f\x1e\xfa":
        return 1
    first, second = (code + b"\0\0")[:2]
    pushes = 0x50 <= first <= 0x57 or (first == 0x41 and 0x50 <= second <= 0x57)
    jumps = first in (0xE8, 0xE9, 0xEB) or 0x70 <= first <= 0x7F or (first == 0x0F and 0x80 <= second <= 0x8F)
    return 0 if pushes or jumps or first == 0x90 else 2


assert len(FUNCTIONS) == 3 < STATES["N_TAGS"]
