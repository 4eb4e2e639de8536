"""What the exercising process does (`exercising`), a few rounds each, and how long it takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from . import _exercise
from .rounds import (
    CALLS,
    FAULTS,
    FUNCTION_CALLS,
    HANDOVERS,
    LOOKS,
    MARKS,
    POLLS,
    READS,
    SAMPLED_CALLS,
    WAYS_BACK,
)

__all__ = ["answer_all"]

_Round = TypeVar("_Round")

_ROUNDS, _MOST_ROUNDS = 9, 18
"""Undisturbed rounds that are wanted, and how many there are at most."""


def answer_all(ask: int, answer: int) -> None:
    """Do what is asked for, a letter each, and write a line for each, until nobody asks any more: two descriptors."""
    _exercise.prepare()
    while asked := os.read(ask, 1):
        answered = _ANSWERS[asked]() if asked in _ANSWERS else _call_functions(int(asked))
        os.write(answer, b"%s\n" % b" ".join(b"%d" % each for each in answered))


def _rounds(measure: Callable[[], _Round], switches: int = 0) -> tuple[bool, list[_Round]]:
    """Return whether there were enough undisturbed rounds, and those; all, if there were not.

    ``switches``: how often the threads leave the processor in a round by themselves.
    """
    quiet: list[_Round] = []
    every: list[_Round] = []
    while len(quiet) < _ROUNDS and len(every) < _MOST_ROUNDS:
        before = _exercise.switches()
        every.append(measure())
        if _exercise.switches() - before <= switches:
            quiet.append(every[-1])
    enough = len(quiet) > _ROUNDS // 2
    return enough, quiet if enough else every


def _middle(times: Sequence[int]) -> int:
    """Return the median. The module of the standard library takes 3 ms to load."""
    ordered = sorted(times)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2


def _median(exercise: Callable[[int], int], times: int, switches: int = 0) -> tuple[bool, int]:
    enough, rounds = _rounds(lambda: exercise(times), switches)
    return enough, _middle(rounds)


def _measure_marks() -> tuple[int, ...]:
    enough, rounds = _rounds(lambda: _exercise.marks(MARKS))
    return enough, *(_middle(times) for times in zip(*rounds, strict=True))


def _measure() -> tuple[int, ...]:
    found = [
        _median(_exercise.calls, CALLS),
        _median(_exercise.reads, READS),
        _median(_exercise.polls, POLLS),
        _median(_exercise.looks, LOOKS),
        _median(_exercise.faults, FAULTS),
        _median(_exercise.handovers, HANDOVERS, switches=2 * HANDOVERS),
    ]
    return all(enough for enough, _ in found), *(time for _, time in found)


def _call_for_long() -> tuple[int, ...]:
    before = _exercise.switches()
    time = _exercise.interrupted_calls(SAMPLED_CALLS)
    return _exercise.switches() == before, time


def _call_functions(which: int) -> tuple[int, ...]:
    _exercise.functions(which, FUNCTION_CALLS)
    return (True,)


def _come_back() -> tuple[int, ...]:
    _exercise.ways_back(WAYS_BACK)
    return (True,)


_ANSWERS: Mapping[bytes, Callable[[], tuple[int, ...]]] = {
    b"?": _measure,
    b"m": _measure_marks,
    b"c": _call_for_long,
    b"b": _come_back,
    b"r": lambda: (True,),
    b"q": lambda: _median(_exercise.calls, CALLS),
}
"""What the process is asked for, by the letter (r: is it ready?); a digit: to call marked functions of that kind."""
