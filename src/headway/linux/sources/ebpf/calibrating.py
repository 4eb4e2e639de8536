"""Calibrate: find the cost of events here and now, by measuring a process of ours before anything is reported."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headway.linux.bpf.attaching import Attachments
from headway.linux.bpf.calibration import Costs, ExercisingProcess, compare
from headway.linux.levels import Level
from headway.linux.options import MeasureOptions

from .programs import LoadedPrograms

if TYPE_CHECKING:
    from headway.linux.bpf.marking import Marking

__all__ = ["calibrate"]


def calibrate(
    programs: LoadedPrograms,
    attachments: Attachments,
    marking: Marking | None,
    exerciser: ExercisingProcess,
    options: MeasureOptions,
) -> Costs:
    """Return what events cost, calls of marked functions and marks of regions among them.

    From now on the exercising process is the only one that is measured (`BpfMaps.measure_only`), and what was measured
    of it is still to be discarded.
    """
    marks = exerciser.marks()  # before it is measured: its tag takes no room
    memory = programs.memory
    memory.measure_only(exerciser.pid)
    memory.begin()
    programs.visit_threads()
    if options.when:
        memory.deepen_all()
    memory.look_around()
    costs = compare(
        programs.object,
        attachments,
        exerciser,
        options.most,
        samples=options.level is Level.SWITCHES or options.budget is not None,
    )
    costs = replace(costs, marks=marks)
    if marking is None:
        return costs
    functions, own_return = marking.calibrate(programs.object, memory, exerciser)
    return replace(costs, functions=functions, own_return=own_return)
