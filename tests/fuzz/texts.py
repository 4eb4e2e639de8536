"""Kinds of text files that a user or headway itself wrote; the first byte of an input is the number of its kind."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from random import Random

from tests.fuzz.mutation import mutated_text
from tests.fuzz.target import MemoryFile, Target

__all__ = ["TextsTarget"]

_OF_BYTES = 0.4
"""The share of inputs in which any bytes of the text are changed; in the others, values."""


class TextsTarget(Target):
    """Inputs of several kinds."""

    file_name: str
    """The name of the file from which those are read that have to be files."""

    def __init__(self) -> None:
        self.file = MemoryFile(self.file_name)

    @property
    @abstractmethod
    def readers(self) -> Sequence[Callable[[bytes], object]]:
        """What reads a text of each kind. Raises HeadwayError to refuse it."""

    @abstractmethod
    def changed(self, random: Random, text: bytes) -> bytes:
        """Return a text with other values; the same one if nothing in it can be changed."""

    def make(self, random: Random) -> bytes:
        """Change the text of a seed, or values in it."""
        seed = random.choice(self.seeds)
        if random.random() < _OF_BYTES:
            return seed[:1] + mutated_text(random, seed[1:], self.seeds)
        return seed[:1] + self.changed(random, seed[1:])

    def read(self, data: bytes, random: Random) -> None:
        """Read the text as what the first byte says."""
        readers = self.readers
        readers[data[0] % len(readers) if data else 0](data[1:])

    def close(self) -> None:
        """Close the file."""
        self.file.close()
