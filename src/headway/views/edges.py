"""The input of views of slices on tracks: where a slice begins, and where the innermost one ends."""

from __future__ import annotations

from typing import Protocol

__all__ = ["SliceEdge"]


class SliceEdge(Protocol):
    """At a time (ns) a slice of a track begins or, if ``name`` is None, the innermost one ends."""

    @property
    def track(self) -> int:
        """The number of the track, not 0."""

    @property
    def time(self) -> int:
        """In ns, from 0 to 2^63 - 1."""

    @property
    def name(self) -> str | None:
        """The name of the slice that begins; None: one ends."""

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
