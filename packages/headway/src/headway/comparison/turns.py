"""The order in which two commands run: in rounds, each of which has one run of either.

A machine's speed drifts, and a run may leave something behind that helps or hinders the next. Who is first is therefore
decided by chance. If the commands do the same, then the difference within a block is as likely positive as negative,
whatever else the machine does. `differences` rests on this, and on nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from random import Random

__all__ = ["Order", "Turn", "blocks", "turns"]


class Order(Enum):
    """Who is first in a round."""

    RANDOM = "random"
    """Chance decides in each round. A block is one round."""
    ABBA = "abba"
    """Chance decides in each first round of two, and the second one runs the other way round. So a steady drift cancels
    out. A block is two rounds."""

    @property
    def rounds(self) -> int:
        """The number of rounds of a block."""
        return 2 if self is Order.ABBA else 1


@dataclass(frozen=True, slots=True)
class Turn:
    """One run: its round, from 0 on, and which command runs, 0 (A) or 1 (B)."""

    round: int
    command: int


def turns(rounds: int, order: Order, seed: int) -> Iterator[Turn]:
    """Yield the runs of so many rounds, one after the other. The same seed gives the same order."""
    random = Random(seed)
    first = 0
    for number in range(rounds):
        first = 1 - first if number % order.rounds else random.randrange(2)
        yield Turn(number, first)
        yield Turn(number, 1 - first)


def blocks(rounds: int, order: Order) -> list[range]:
    """Return the rounds of each block. Rounds after the last whole block are left out."""
    size = order.rounds
    return [range(start, start + size) for start in range(0, rounds - size + 1, size)]
