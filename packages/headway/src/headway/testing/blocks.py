"""The fixture ``headway_progress``: parts of a test that are measured separately."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from .meter import Span
    from .phases import Phases
    from .progress import PhaseProgress

__all__ = ["Block", "Blocks"]


class Blocks:
    """The fixture's value. Called with a name, it returns a context manager. Blocks may be nested.

    The figures of blocks with the same name in one test are added up.
    """

    def __init__(self, phases: Phases | None) -> None:
        self._phases = phases

    def __call__(self, name: str) -> Block:
        """Return a block of this name. It begins when it is entered."""
        return Block(name, self._phases)


class Block:
    """A part of a test. ``progress`` is available after its end."""

    def __init__(self, name: str, phases: Phases | None) -> None:
        self.name = name
        self.progress: PhaseProgress | None = None
        """The figures of the block; None before its end, and if nothing is measured."""
        self.why_not = "pytest was started without --headway" if phases is None else ""
        """Why ``progress`` is None, in words."""
        self._phases = phases
        self._span: Span | None = None

    def __enter__(self) -> Block:
        if self._phases is not None:
            self._span = self._phases.enter_block(self.name)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._phases is not None:
            self.progress = self._phases.leave_block(self.name, self._span)
            if self.progress is None:
                self.why_not = self._phases.why_not or "it is within a block of the same name, which has its figures"
