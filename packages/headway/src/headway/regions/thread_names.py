"""Names of Python's threads for the kernel: what ``threading.Thread.name`` says, before Python does that itself (3.14).

The kernel's name of a thread has 15 bytes (prctl(2), *PR_SET_NAME*); longer names are cut there.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from ._regions import name_thread

__all__ = ["name_threads"]

_done = False


def name_threads() -> None:
    """Give the kernel the names of this program's threads: of those that start from now on, and when a name changes.

    The main thread keeps its name, which is the program's. Python 3.14 does all this itself; there, nothing happens.
    """
    global _done
    if _done or sys.version_info >= (3, 14):
        return
    _done = True
    begin: Any = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]
    named: Any = threading.Thread.name

    def _bootstrap_inner(self: threading.Thread) -> None:
        name_thread(self.name)
        begin(self)

    def rename(self: threading.Thread, name: str) -> None:
        named.fset(self, name)
        if self.ident == threading.get_ident() and self is not threading.main_thread():
            name_thread(self.name)

    threading.Thread._bootstrap_inner = _bootstrap_inner  # type: ignore[attr-defined]
    threading.Thread.name = property(named.fget, rename, doc=named.__doc__)  # type: ignore[assignment]
