"""What a running Python executes to install headway's marks, or to take them out. It needs nothing of headway.

`source` is the text of a script: this file and a call of `run`. headway is taken from the program's own environment, or
else from the folder.
"""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["run", "source"]


def source(folder: str, action: str, by: str) -> bytes:
    """Return a script that calls `run` with these arguments."""
    return f"{inspect.getsource(run)}\nrun({folder!a}, {action!a}, {by!a})\n".encode()


def run(folder: str, action: str, by: str) -> None:
    """Do it, and write how it went into the file ``said``: ``done`` or an error, and the end of a line. Raises nothing.

    ``action``: ``begin`` or ``end``, the functions of `headway.asyncio.attached`.
    """
    import _thread
    import os
    import sys
    from importlib.machinery import PathFinder

    class Folder:
        """Finds the package headway in the folder, if nothing else does."""

        @staticmethod
        def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
            return PathFinder.find_spec(name, [folder]) if name == "headway" else None

    sys.meta_path.append(Folder)
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    interrupted = False
    try:
        from headway.asyncio import attached

        if not getattr(attached, action)(folder, by):
            return  # the thread that is at it says so
        said = "done"
    except KeyboardInterrupt:  # a signal of the program's own came meanwhile
        interrupted, said = True, "it was interrupted"
    except BaseException as error:
        said = f"{type(error).__name__}: {error}"[:1000]
    finally:
        sys.dont_write_bytecode = before
        sys.meta_path.remove(Folder)
    try:
        file = os.open(f"{folder}/said", os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        os.write(file, (" ".join(said.split()) + "\n").encode(errors="replace"))
        os.close(file)
    except OSError:
        pass
    if interrupted:
        _thread.interrupt_main()
