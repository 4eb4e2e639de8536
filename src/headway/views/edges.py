"""What views of slices on tracks are given: where one begins, and where the innermost one ends."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Edge"]


class Edge(Protocol):
    """At a time (ns) a slice of a track begins, or (name None) the innermost one ends."""

    @property
    def track(self) -> int:
        """Its number, not 0."""

    @property
    def time(self) -> int:
        """In ns, from 0 to 2^63 - 1."""

    @property
    def name(self) -> str | None:
        """Of the slice; None: one ends."""

    @property
    def category(self) -> str:
        """What kind of slice it is."""

    @property
    def address(self) -> int | None:
        """In the program."""

    @property
    def line(self) -> str:
        """``file:line`` of its source, or nothing."""

    @property
    def thread(self) -> int | None:
        """The software thread whose it is."""
