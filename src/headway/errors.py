"""What goes wrong for reasons a user can do something about."""

from __future__ import annotations

__all__ = ["CommandFailedError", "HeadwayError", "SelectionError"]


class HeadwayError(Exception):
    """One clear sentence: what is wrong, where, and what to do. Shown without a traceback; exit status 125."""

    exit_status = 125
    final = False
    """Whether no other source could do better."""


class SelectionError(HeadwayError):
    """What was chosen to be measured is not there."""

    final = True


class CommandFailedError(HeadwayError):
    """The command could not be executed: exit status 126 (not executable) or 127 (not found)."""

    final = True

    def __init__(self, text: str, exit_status: int) -> None:
        super().__init__(text)
        self.exit_status = exit_status
