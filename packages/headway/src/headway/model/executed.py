"""What threads of a recording were executing at an instant, as a trace of the same run shows it."""

from __future__ import annotations

from typing import Protocol

from headway.dataclass import dataclass

__all__ = ["Executed", "ExecutedBeside"]


@dataclass(frozen=True, slots=True)
class Executed:
    """What a thread executed last: figures are None, and texts "", where ``why`` says why it is not known."""

    why: str | None = None
    """A state (``unknown.outside``) or a sentence."""
    function: str | None = None
    line: str | None = None
    address: int | None = None
    instruction: str | None = None
    time: int | None = None
    """When, in the recording's time."""
    uncertainty: int | None = None


class ExecutedBeside(Protocol):
    """A trace beside the recording of the same run."""

    @property
    def words(self) -> str:
        """How the clocks are related, for people."""

    @property
    def left_out(self) -> str:
        """What of the trace is missing, in one line."""

    def at(self, tid: int, cpu: int | None, time: int) -> Executed:
        """Return what a thread had executed last at a time of the recording, when it had that processor."""
