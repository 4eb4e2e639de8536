"""The probes of marked functions, and their cost (bpf/regions/regions.h)."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace

from headway.errors import HeadwayError, SelectionError
from headway.linux.options import MarkedFunctions, Selection
from headway.linux.procfs.descendants import descendants
from headway.linux.procfs.ids import process_of
from headway.linux.procfs.maps import mappings
from headway.linux.regions.functions import Probe, resolve
from headway.other_root import held

from ..costs import _exercise
from ..costs.calibration import FUNCTIONS, Costs
from ..costs.exercising import ExercisingProcess
from ..programs.libbpf import BpfError, Link, Object
from ..reading.memory import BpfMaps
from ..shared.layout import STATES

__all__ = ["Marking"]

_CLASS_SHIFT = 16
"""Above the tag in the cookie of a probe stands its place in `FUNCTIONS`."""


_ENOTSUPP = 524
"""The kernel's errno for an instruction that uprobes do not take (include/linux/errno.h)."""
_LATER = "; calls by processes that are started later are not seen"


class Marking:
    """The functions that the user marked, for a selection. Raises SelectionError where there are no such functions."""

    def __init__(self, functions: Sequence[MarkedFunctions], selection: Selection) -> None:
        pids = selection.pids or tuple({process_of(tid) or tid for tid in selection.tids})
        others = descendants(selection.pids) if selection.descendants else ()
        self._pids = (selection.command,) if selection.command is not None else (*pids, *others)
        self._probes = resolve(functions, pids, selection.argv)
        self._everywhere = bool(selection.everything or selection.cgroup or selection.name)
        own = _exercise.address(0), _exercise.address(1), _exercise.address(2)
        self._exercises = [_probe_of(address, f"noneffective.exercise{i}") for i, address in enumerate(own)]
        self.states = tuple(dict.fromkeys(probe.state for probe in (*self._probes, *self._exercises)))
        """Names of the states of marked functions, in the order of their tags, from 1 on."""

    def calibrate(
        self, target: Object, memory: BpfMaps, exerciser: ExercisingProcess
    ) -> tuple[Mapping[str, tuple[float, float]], tuple[float, float] | None]:
        """Return what the probes of a call cost: `Costs.functions` and `Costs.own_return`."""
        own_return = None
        if any(probe.ways_out is not None for probe in self._probes):
            first = self._exercises[0]
            place = _probe_of(_exercise.return_address(), first.state).offset
            links, own_return = self._cost(target, memory, exerciser, 0, replace(first, ways_out=((place, False),)))
            for link in links:
                target.detach_link(link)
        costs = {}
        for which, (kind, probe) in enumerate(zip(FUNCTIONS, self._exercises, strict=True)):
            _, costs[kind] = self._cost(target, memory, exerciser, which, probe)
        return costs, own_return

    def _cost(
        self, target: Object, memory: BpfMaps, exerciser: ExercisingProcess, which: int, probe: Probe
    ) -> tuple[list[Link], tuple[float, float]]:
        """Return the links of an exercise's probes, and what a call costs: in the function's time, and its caller's."""
        links = self._attach(target, probe, exerciser.pid)
        exerciser.call_functions(which)  # the first time takes longer
        before = memory.times_of(exerciser.pid)
        calls = exerciser.call_functions(which)
        after = memory.times_of(exerciser.pid)
        inside, outside = ((after.get(s, 0) - before.get(s, 0)) / calls for s in (probe.state, "user"))
        return links, (inside, outside)

    def describe(self, costs: Costs) -> str:
        """What a reader of the figures must know: one clause or two."""
        used = sorted(
            {
                costs.of_call(FUNCTIONS[_class_of(probe.path, probe.offset)], own_return=probe.ways_out is not None)
                for probe in self._probes
            }
        )
        most, least = (f"{cost / 1000:.1f}" for cost in (used[-1], used[0]))
        words = f"a call costs {least} µs more" if least == most else f"a call costs {least} to {most} µs more"
        return f"{words}, which is taken out" + ("" if self._everywhere else _LATER)

    def attach(self, target: Object) -> None:
        """Place the probes: in the processes chosen, or everywhere where those are not known. Raises SelectionError."""
        for probe in self._probes:
            for pid in (-1,) if self._everywhere or not self._pids else self._pids:
                try:
                    self._attach(target, probe, pid)
                except (BpfError, OSError) as error:
                    if isinstance(error, BpfError) and error.number == _ENOTSUPP:
                        why = "the kernel takes no probe on an instruction with a lock prefix, with which it begins"
                    else:
                        why = str(error)
                    raise SelectionError(
                        f"{probe.name} in {probe.path} cannot be marked ({why})",
                        "leave it out; --spin finds what spins without a mark",
                    ) from None

    def _attach(self, target: Object, probe: Probe, pid: int) -> list[Link]:
        """Place the probes of a function: those of its returns first. Returns the links."""
        with held(probe.path) as path:
            return self._attach_at(target, path, probe, pid)

    def _attach_at(self, target: Object, path: str, probe: Probe, pid: int) -> list[Link]:
        programs, tag = target.programs, 1 + self.states.index(probe.state)
        if probe.ways_out is None:
            back = programs["handle_function_return"]
            links = [target.attach_uprobe(back, path, probe.offset, ret=True, cookie=tag, pid=pid)]
        else:
            leave = programs["handle_function_exit"]
            links = [
                target.attach_uprobe(leave, path, offset, ret=False, cookie=0 if is_jump else 1, pid=pid)
                for offset, is_jump in probe.ways_out
            ]
        entry = programs["handle_function_entry"]
        cookie = tag | _class_of(path, probe.offset) << _CLASS_SHIFT
        links.append(target.attach_uprobe(entry, path, probe.offset, ret=False, cookie=cookie, pid=pid))
        return links


def _probe_of(address: int, state: str) -> Probe:
    """A probe on a function of our own."""
    for mapping in mappings(os.getpid()):
        if mapping.start <= address < mapping.end:
            return Probe(mapping.path, address - mapping.start + mapping.offset, state.rpartition(".")[2], state)
    raise HeadwayError("headway's own compiled code is not where it was loaded: reinstall headway")


def _class_of(path: str, offset: int) -> int:
    """Return the place of a probe in `FUNCTIONS`, by its instruction (arch/x86/kernel/uprobes.c: what is emulated)."""
    try:
        with open(path, "rb") as file:
            file.seek(offset)
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
