"""Marking regions of this program whose time is not progress, or is polling.

The marks are made by the same header that C programs use (``headway.h``, in the folder that `headway.get_include`
names), so regions of Python and of its extension modules nest within each other, and an observer sees no difference.
A mark is a few stores to memory of the thread's own, whether anybody observes or not.
"""

from __future__ import annotations

from ._regions import clear_noneffective, noneffective, poll, set_noneffective

__all__ = ["clear_noneffective", "noneffective", "poll", "set_noneffective"]
