"""The input of views of slices on tracks: where slices begin, and where the innermost ones end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

__all__ = ["SliceEdges", "SliceHead"]


class SliceHead(Protocol):
    """What is known of a slice when it begins, but its track and its time."""

    @property
    def name(self) -> str:
        """The name of the slice."""

    @property
    def category(self) -> str:
        """The kind of slice."""

    @property
    def address(self) -> int | None:
        """The address in the program."""

    @property
    def line(self) -> str:
        """``file:line`` in the source, or empty."""

    @property
    def thread(self) -> int | None:
        """The software thread that the slice belongs to."""

    @property
    def instant(self) -> bool:
        """Whether this is no slice, but something without a length."""


class SliceEdges(Protocol):
    """A block of edges: each of the arrays, shape (n,), has a value for each."""

    @property
    def tracks(self) -> memoryview:
        """The numbers of their tracks, from 1 to 2^63 - 1; 64 bits."""

    @property
    def times(self) -> memoryview:
        """Their times in ns, from 0 on; 64 bits with a sign."""

    @property
    def places(self) -> memoryview:
        """Where in ``heads`` the slice is that begins; -1: the innermost one of the track ends. 32 bits with a sign."""

    @property
    def heads(self) -> Sequence[SliceHead]:
        """What begins. Blocks may have one list in common, which only grows."""
