"""Why a part of a plan is not made."""

from __future__ import annotations

__all__ = ["Refused"]


class Refused(Exception):  # noqa: N818 - not an error: an answer
    """Why this cannot be done, in a clause."""
