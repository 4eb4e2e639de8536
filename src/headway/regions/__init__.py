"""Marked regions of this program, whose time is not progress, or is polling.

The marks use the same header as C programs (``headway.h``, in the directory that `headway.get_include` returns).
Regions of Python and of its extension modules therefore nest within each other, and an observer sees no difference. A
mark is a few stores to memory of the thread, whether anybody observes or not.
"""

from __future__ import annotations

from ._regions import clear_noneffective, noneffective, poll, set_noneffective

__all__ = ["clear_noneffective", "noneffective", "poll", "set_noneffective"]
