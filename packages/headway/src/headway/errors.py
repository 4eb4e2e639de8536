"""Errors that a user can do something about."""

from __future__ import annotations

__all__ = ["CommandFailedError", "HeadwayError", "SelectionError"]


class HeadwayError(Exception):
    """A user's error: one sentence that says what is wrong, where, and what to do.

    ``cause``: what is wrong; ``advice``: what to do, where somebody may need the one without the other. The command
    line shows the sentence without a traceback and exits with `exit_status`, 125 by default.
    """

    exit_status = 125
    final = False
    """Whether the error holds for every source, so that choosing another source cannot help."""

    def __init__(self, cause: str, advice: str = "") -> None:
        super().__init__(f"{cause}: {advice}" if advice else cause)
        self.cause, self.advice = cause, advice


class SelectionError(HeadwayError):
    """The threads, processes or processors that the user selected do not exist."""

    final = True


class CommandFailedError(HeadwayError):
    """The command could not be executed. The exit status is 126 (not executable) or 127 (not found)."""

    final = True

    def __init__(self, text: str, exit_status: int) -> None:
        super().__init__(text)
        self.exit_status = exit_status
