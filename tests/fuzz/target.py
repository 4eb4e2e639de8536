"""A kind of input that headway reads from outside, and what may happen when it reads a hostile one."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from random import Random
from types import ModuleType

from tests.fuzz.mutation import mutated

from headway.errors import HeadwayError

__all__ = ["DECODED", "REFUSED", "MemoryFile", "Target", "UnclearError", "outcome", "replaced"]

DECODED, REFUSED = "decoded", "refused"
_LONGEST = 2000


class UnclearError(AssertionError):
    """The error for a refusal that is no clear sentence."""


class Target(ABC):
    """One kind of input."""

    name: str
    unit = 2000
    """The number of inputs in `make test`."""

    @cached_property
    @abstractmethod
    def seeds(self) -> list[bytes]:
        """Valid inputs, made by headway's own writers where it has them."""

    def make(self, random: Random) -> bytes:
        """Return a hostile input, a changed seed. The same generator gives the same bytes."""
        return mutated(random, random.choice(self.seeds), self.seeds)

    @abstractmethod
    def read(self, data: bytes, random: Random) -> None:
        """Read an input as headway does; ``random`` chooses what is asked of it. Raises HeadwayError to refuse it."""

    def input(self, seed: int, number: int) -> bytes:
        """Return input ``number`` of a seed, which is always the same."""
        return self.make(Random(f"{seed}:{self.name}:{number}"))

    def close(self) -> None:  # noqa: B027 (most have nothing to do)
        """End what the target has started."""


def outcome(target: Target, data: bytes, number: int) -> str:
    """Read one input. Return whether it was decoded or refused; every exception that gets out of here is a finding."""
    try:
        target.read(data, Random(number))
    except HeadwayError as error:
        text = str(error)
        if not text or len(text) > _LONGEST or not text.isprintable():
            raise UnclearError(f"{type(error).__name__} is no clear sentence: {text[:_LONGEST]!r}") from error
        return REFUSED
    return DECODED


@contextmanager
def replaced(module: ModuleType, name: str, by: object) -> Iterator[None]:
    """Replace something in a module for the time of the block, in less time than `unittest.mock.patch`."""
    before = getattr(module, name)
    setattr(module, name, by)
    try:
        yield
    finally:
        setattr(module, name, before)


class MemoryFile:
    """A file without a disk, whose content is replaced for each input."""

    def __init__(self, name: str) -> None:
        self._fd = os.memfd_create(name)
        self.path = f"/proc/self/fd/{self._fd}"

    def fill(self, data: bytes) -> str:
        """Give the file this content, and return its path."""
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, data, 0)
        return self.path

    def close(self) -> None:
        """Remove the file."""
        os.close(self._fd)
