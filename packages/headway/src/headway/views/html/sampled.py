"""Figures that were read in equal steps of time, as the page gets them: progress, power, and the cycles of a window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from headway.dataclass import dataclass
from headway.model import Kind
from headway.views.palette import ORDER
from headway.views.pipeline import LETTERS
from headway.views.printable import visible

from .deflate import deflate

__all__ = ["WHOLE", "PipelineWindow", "Power", "SampledTimeline", "pipeline_document", "power_document", "sampled"]

WHOLE = 255
"""The value of a cell whose kind fills the whole step."""
_NAME = 300
_POWER_WORDS = {
    "running": "executing, or ready to",
    "idle.c1": "halted, C1",
    "idle.c2": "halted, C2",
    "idle.c3": "halted, C3",
    "idle.wake": "on the way out of a halt",
    "idle.reset": "not started",
    "stopped": "held by a debugger",
    "stolen.smi": "a management interrupt has all cores",
}


@dataclass(frozen=True, slots=True)
class SampledTimeline:
    """A timeline without single transitions: the time of each kind that each lane had, in steps.

    Lanes are the threads in the order of the ledger, then the processors.
    """

    length: int
    width: int
    """Of a step, in the time unit."""
    first: Sequence[int]
    """Each lane's first step."""
    until: Sequence[int]
    """The step after its last."""
    kinds: Sequence[int]
    """The kinds of the planes, as indices into `ORDER`."""
    cells: bytes
    """For each kind, one byte a lane and step: its share of the step. Deflated."""


@dataclass(frozen=True, slots=True)
class Power:
    """What each processor's power was used for, in steps."""

    width: int
    states: Sequence[str]
    processors: Sequence[int]
    times: Sequence[Sequence[Sequence[int]]]
    """For each processor and step, the time in each state."""
    cycles: Sequence[Sequence[int]]
    """For each processor and step, the cycles of its clock in the time of the first state."""


@dataclass(frozen=True, slots=True)
class PipelineWindow:
    """What the hardware threads of a core did in each cycle of a window."""

    core: int
    first: int
    harts: Mapping[int, Sequence[str]]
    """For each hart, its state in each cycle."""
    slots: Sequence[int | None]
    """The hart that had the issue slot in each cycle."""
    issued: Sequence[tuple[int, int, int, str]]
    """(cycle, hart, address, where that is) of each instruction."""


def sampled(
    length: int, width: int, kinds: Sequence[Kind], lanes: Iterable[tuple[int, Sequence[Sequence[int]]]]
) -> SampledTimeline:
    """Return a timeline of lanes, each with its first step and the time of each of ``kinds`` in that and later ones."""
    rows = list(lanes)
    present = [n for n, _ in enumerate(kinds) if any(step[n] for _, steps in rows for step in steps if step)]
    present.sort(key=lambda n: ORDER.index(kinds[n]))
    planes = bytearray()
    for n in present:
        for _, steps in rows:
            planes += bytes([min(round(step[n] * WHOLE / width), WHOLE) if step else 0 for step in steps])
    return SampledTimeline(
        length=length,
        width=width,
        first=[first for first, _ in rows],
        until=[first + len(steps) for first, steps in rows],
        kinds=[ORDER.index(kinds[n]) for n in present],
        cells=deflate(bytes(planes)),
    )


def power_document(power: Power) -> Mapping[str, Any]:
    """Return it as plain values. ``times`` has a list a state, which is empty where the processor was never in it."""
    used = [n for n, _ in enumerate(power.states) if n == 0 or any(s[n] for steps in power.times for s in steps)]
    return {
        "width": power.width,
        "states": [[power.states[n], _POWER_WORDS.get(power.states[n], "")] for n in used],
        "processors": [
            {
                "cpu": cpu,
                "times": [[step[n] for step in steps] if any(step[n] for step in steps) else [] for n in used],
                "cycles": list(cycles),
            }
            for cpu, steps, cycles in zip(power.processors, power.times, power.cycles, strict=True)
        ],
    }


def pipeline_document(window: PipelineWindow) -> Mapping[str, Any]:
    """Return it as plain values: a hart's states are runs of [state, cycles]."""
    names = list(LETTERS)
    places: dict[str, int] = {}
    issued = [
        [cycle, hart, f"{address:#010x}", places.setdefault(visible(where, _NAME), len(places))]
        for cycle, hart, address, where in window.issued
    ]
    return {
        "core": window.core,
        "first": window.first,
        "cycles": len(window.slots),
        "states": [[letter, ORDER.index(kind), words] for letter, kind, words in LETTERS.values()],
        "harts": [[hart, _runs([names.index(state) for state in states])] for hart, states in window.harts.items()],
        "issued": issued,
        "places": list(places),
    }


def _runs(states: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for state in states:
        if found and found[-1][0] == state:
            found[-1][1] += 1
        else:
            found.append([state, 1])
    return found
