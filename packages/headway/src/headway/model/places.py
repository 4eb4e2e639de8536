"""The place of a stack: the frame that a reader would name, asked where the program was."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .profile import Frame

__all__ = ["place_of", "words_of_place"]

_C_LIBRARY = re.compile(r"(libc|ld|libpthread|ld-linux[^/]*|ld-musl[^/]*|libc\.musl[^/]*|\[vdso\])(-[0-9.]+)?(\.so.*)?")
_INTERPRETER = re.compile(r"(lib)?python[0-9.]*(\.so.*)?")


def place_of(frames: Sequence[Frame]) -> int | None:
    """Return the index of the frame that says where a program was; None: no frame does. ``frames``: innermost first.

    It is the innermost one that is neither of the kernel nor of the C library. Where functions of Python are further
    out, it is not of their interpreter either. Otherwise it is the innermost of the program, or of the kernel.
    """
    own = [i for i, frame in enumerate(frames) if frame.kind in ("user", "python")]
    python = any(frame.kind == "python" for frame in frames)
    for i in own:
        frame = frames[i]
        name = (frame.module or "").rpartition("/")[2]
        if frame.kind == "python" or not (_C_LIBRARY.fullmatch(name) or (python and _INTERPRETER.fullmatch(name))):
            return i
    there = own or [i for i, frame in enumerate(frames) if frame.kind == "kernel"]
    return there[0] if there else None


def words_of_place(frame: Frame) -> str:
    """Return a place in words: ``parse() at load.c:88``; without a line, ``parse() of libload.so``."""
    name = f"{frame.name}()" if frame.function else frame.name
    if frame.file is not None:
        return f"{name} at {frame.file}" + ("" if frame.line is None else f":{frame.line}")
    module = (frame.module or "").rpartition("/")[2]
    return f"{name} of {module}" if frame.function and module and frame.kind != "kernel" else name
