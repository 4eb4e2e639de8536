"""Calibrate: find the cost of events here and now, by measuring a process of ours before anything is reported."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from headway.linux.bpf.costs.calibration import Costs, compare, find_ways_back, mean_runs
from headway.linux.bpf.costs.exercising import ExercisingProcess
from headway.linux.bpf.costs.kept_costs import KeptCosts, KeptFile, name_of
from headway.linux.bpf.programs.attaching import Attachments
from headway.linux.levels import Level
from headway.linux.options import MeasureOptions

from .programs import LoadedPrograms

if TYPE_CHECKING:
    from headway.linux.bpf.regions.marking import Marking

__all__ = ["calibrate"]


def calibrate(
    programs: LoadedPrograms,
    attachments: Attachments,
    marking: Marking | None,
    exerciser: ExercisingProcess,
    options: MeasureOptions,
) -> Costs:
    """Return what events cost, calls of marked functions and marks of regions among them.

    What was found before, since the machine booted, is taken at the machine's present speed, if a system call takes as
    long as that lets expect (`kept_costs`).
    From now on the exercising process is the only one that is measured (`BpfMaps.measure_only`), and what was measured
    of it is still to be discarded.
    """
    file = None if marking is not None else _kept(programs)
    kept = file.read() if file is not None else None
    marks = kept.costs.marks if kept else exerciser.marks()  # before it is measured: its tag takes no room
    exerciser.wait()
    marks_undisturbed = exerciser.undisturbed
    memory = programs.memory
    passing = None
    if kept is None and marking is None and programs.only_threads:
        memory.measure_only(os.getpid())
        memory.begin()
        exerciser.undisturbed = True
        passing = exerciser.exercise()
        if not exerciser.undisturbed:
            passing = None
        memory.reset()
    memory.measure_only(exerciser.pid)
    memory.begin()
    programs.visit_threads()
    if options.when:
        memory.deepen_all()
    memory.look_around()
    if kept is not None:
        before = memory.timed_runs()
        call = exerciser.calls()
        now = kept.now(call, mean_runs(before, memory.timed_runs()))
        if now is not None:
            attachments.change_ns = kept.change_ns
            return now
    found = compare(
        programs.object,
        attachments,
        exerciser,
        memory.timed_runs,
        options.most,
        samples=options.level is Level.SWITCHES or options.budget is not None,
        passing=passing,
    )
    ways_back = find_ways_back(memory, exerciser) if options.most is Level.INTERRUPTS else (0.0, 0.0)
    costs = replace(found.costs, marks=marks, ways_back=ways_back)
    if file is not None and kept is not None:
        file.remove()  # the marks are old: the next measurement finds everything again
    elif file is not None and found.undisturbed and marks_undisturbed:
        file.write(KeptCosts(costs, found.call, attachments.change_ns))
    if marking is None:
        return costs
    functions, own_return = marking.calibrate(programs.object, memory, exerciser)
    return replace(costs, functions=functions, own_return=own_return)


def _kept(programs: LoadedPrograms) -> KeptFile | None:
    """Return where the costs of these programs are kept; None: nowhere."""
    try:
        features = programs.features
        known = features.steal, features.faults, features.fetch, sorted(features.tracepoints)
        return KeptFile(name_of(programs.object.checksum, programs.shape, known, programs.about_settings))
    except OSError:
        return None
