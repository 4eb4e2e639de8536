"""The pipeline view: a row for each hart, a column for each cycle, and who had the issue slot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from headway.model import Kind

from .lines import Line
from .palette import PALETTE

__all__ = ["LETTERS", "pipeline_lines"]

LETTERS = {
    "executed": ("I", Kind.EFFECTIVE, "an instruction issued"),
    "not_executed": ("n", Kind.EFFECTIVE, "a branch that was not taken"),
    "trap": ("T", Kind.KERNEL, "a trap"),
    "rotation": (" ", Kind.EFFECTIVE, "in strict turn: others' cycles of its rotation"),
    "executing": ("-", Kind.EFFECTIVE, "further cycles of a long instruction"),
    "stall.data": ("d", Kind.STALL, "a register is not usable yet"),
    "stall.refill": ("r", Kind.STALL, "the pipeline is refilled after a jump"),
    "stall.slot": (".", Kind.READY, "another hart has the slot"),
    "stall.fetch": ("f", Kind.MEMORY, "instruction cache miss, served by L2"),
    "stall.fetch_external": ("F", Kind.MEMORY, "instruction cache miss, from memory"),
    "stall.load": ("l", Kind.MEMORY, "load miss, served by L2"),
    "stall.load_external": ("L", Kind.MEMORY, "load miss, from memory"),
    "stall.store": ("s", Kind.MEMORY, "store miss, served by L2"),
    "stall.store_external": ("S", Kind.MEMORY, "store miss, from memory"),
    "stall.tlb": ("t", Kind.MEMORY, "micro-TLB miss"),
    "idle.c1": ("1", Kind.WAIT, "halted in C1"),
    "idle.c2": ("2", Kind.WAIT, "halted in C2"),
    "idle.c3": ("3", Kind.WAIT, "halted in C3"),
    "idle.wake": ("w", Kind.WAIT, "waking"),
    "idle.reset": ("0", Kind.WAIT, "not started"),
    "stopped": ("h", Kind.WAIT, "held by a debugger"),
    "": ("?", Kind.UNKNOWN, "not known"),
}
"""For each state of a hart in a cycle: its letter, the kind whose colour it has, and words."""
_MARK = 10
"""Cycles between two marks of the scale."""


def pipeline_lines(
    first: int,
    rows: Mapping[int, Sequence[str]],
    slots: Sequence[int | None],
    width: int,
) -> Iterator[Line]:
    """Yield the lines of a window: in blocks that fit the width, then what each letter means, and how often.

    ``rows`` has each hart's state in each cycle from ``first`` on, ``slots`` the hart that had the slot.
    """
    head = max(len(f"hart {hart}") for hart in rows) + 2
    room = max((width - head) // _MARK * _MARK, _MARK)
    for start in range(0, len(slots), room):
        part = slots[start : start + room]
        scale = "".join(f"{first + start + n:<{_MARK}}" for n in range(0, len(part), _MARK))
        yield [(" " * head + scale.rstrip(), "dim")]
        for hart, states in rows.items():
            yield [(f"hart {hart}".ljust(head), ""), *_runs(states[start : start + room])]
        had = "".join("·" if hart is None else f"{hart % 10}" for hart in part)
        yield [("slot".ljust(head), "bold"), (had, "bold")]
        yield []
    issues = sum(hart is not None for hart in slots)
    yield [(f"the slot was used in {issues:,} of {len(slots):,} cycles ({issues / max(len(slots), 1):.0%})", "")]
    counts = Counter(state for states in rows.values() for state in states)
    for state, (letter, kind, words) in LETTERS.items():
        if counts[state]:
            yield [("  ", ""), (letter, PALETTE[kind].on_dark), (f"  {counts[state]:>9,}  {words}", "")]


def _runs(states: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the letters of states, one piece for each run of one kind."""
    text, last = "", None
    for state in states:
        letter, kind, _ = LETTERS[state]
        if kind is not last and text:
            yield text, PALETTE[last].on_dark if last is not None else ""
            text = ""
        text, last = text + letter, kind
    if text:
        yield text, PALETTE[last].on_dark if last is not None else ""
