"""What goes wrong for reasons a user can do something about."""

from __future__ import annotations

__all__ = ["HeadwayError"]


class HeadwayError(Exception):
    """One clear sentence: what is wrong, where, and what to do. Shown without a traceback; exit status 125."""

    exit_status = 125
