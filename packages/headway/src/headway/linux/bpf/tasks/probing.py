"""The static probes at which tasks begin and end, and their cost (bpf/tasks/task_probes.h)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from headway.binary.usdt import Operand
from headway.errors import HeadwayError, SelectionError
from headway.linux.options import Selection
from headway.linux.probes.task_probes import MAX_ARGUMENTS, MAX_PLACES, ProbePlace, resolve
from headway.linux.procfs.cgroup_folders import processes_in
from headway.linux.procfs.descendants import descendants
from headway.linux.procfs.ids import process_of
from headway.linux.procfs.maps import mappings
from headway.other_root import held

from ..costs import _exercise
from ..costs.calibration import Costs
from ..costs.exercising import ExercisingProcess
from ..programs.libbpf import BpfError, Link, Object
from ..reading.memory import BpfMaps
from ..shared.layout import OPERAND_FLAGS as FLAGS
from ..shared.layout import TASK_PROBES, pack

__all__ = ["TaskProbing"]

_PROGRAM = "handle_task_probe"
_KIND = "task_probe"
"""The kind of event (`layout.EVENTS`)."""
_NO_TASK = 0
"""The task of the probe that calibration uses. It is never open, so it never ends there."""


class TaskProbing:
    """The probes of the tasks that the user named, for a selection. Raises SelectionError where there are none.

    A probe is placed in every process that has the file mapped, now or later: a server begins processes for its
    clients.
    """

    def __init__(self, tasks: Sequence[str], selection: Selection) -> None:
        pids = selection.pids or tuple({process_of(tid) or tid for tid in selection.tids})
        others = descendants(selection.pids) if selection.descendants else ()
        if selection.cgroup and not selection.everything:
            others = (*others, *processes_in(selection.cgroup))
        self._places = resolve(tasks, (*pids, *others), selection.argv)

    def calibrate(self, costs: Costs, target: Object, memory: BpfMaps, exerciser: ExercisingProcess) -> Costs:
        """Return the costs with that of a probe, by calls of a function of the exerciser that has one.

        What it takes to make a name is measured each time (`handle_task_probe`).
        """
        place = _place_of(_exercise.address(0))
        link = self._attach(target, 0, place, exerciser.pid)
        exerciser.call_functions(0)  # the first time takes longer
        before = memory.times_of(exerciser.pid)
        calls = exerciser.call_functions(0)
        after = memory.times_of(exerciser.pid)
        target.detach_link(link)
        return replace(costs, of={**costs.of, _KIND: (after.get("user", 0) - before.get("user", 0)) / calls})

    def describe(self, costs: Costs) -> str:
        """What a reader of the figures must know: one clause."""
        return f"each time that a thread comes to one it costs {costs.of[_KIND] / 1000:.1f} µs more, which is taken out"

    def attach(self, target: Object) -> None:
        """Place the probes. Raises SelectionError."""
        for number, place in enumerate(self._places, 1):
            try:
                self._attach(target, number, place, -1)
            except (BpfError, OSError) as error:
                raise SelectionError(f"--task: {place.probe} in {place.path} cannot be probed ({error})") from None

    def _attach(self, target: Object, number: int, place: ProbePlace, pid: int) -> Link:
        target.map("task_probes").set(number, _packed(place))
        with held(place.path) as path:
            return target.attach_uprobe(
                target.programs[_PROGRAM],
                path,
                place.offset,
                ret=False,
                cookie=number,
                pid=pid,
                semaphore=place.semaphore,
            )


def _packed(place: ProbePlace) -> bytes:
    """Return a place as the programs have it."""
    return pack(
        "task_probe",
        {
            "task": place.task,
            "begins": place.begins,
            "goes_on": place.goes_on,
            "name": place.name,
            "arguments": b"".join(map(_packed_operand, place.arguments)),
        },
    )


def _packed_operand(operand: Operand) -> bytes:
    flags = (
        (FLAGS["OPERAND_BASE"] if operand.base is not None else 0)
        | (FLAGS["OPERAND_INDEX"] if operand.index is not None else 0)
        | (FLAGS["OPERAND_MEMORY"] if operand.in_memory else 0)
    )
    return pack(
        "operand",
        {
            "value": operand.value % (1 << 64),
            "flags": flags,
            "base": operand.base or 0,
            "index": operand.index or 0,
            "scale": operand.scale,
        },
    )


def _place_of(address: int) -> ProbePlace:
    """Return a place of our own code."""
    for mapping in mappings(os.getpid()):
        if mapping.start <= address < mapping.end:
            offset = address - mapping.start + mapping.offset
            return ProbePlace(mapping.path, offset, 0, "calibration", _NO_TASK, begins=False)
    raise HeadwayError("headway's own compiled code is not where it was loaded: reinstall headway")


assert TASK_PROBES["N_TASK_PROBES"] > MAX_PLACES
assert TASK_PROBES["N_ARGUMENTS"] == MAX_ARGUMENTS
