"""C++ and Rust names as their programmers wrote them.

The Itanium C++ ABI's mangling, which Rust's older one is a form of. A name comes out of a file that anybody may have
written, and a short one can stand for one of any length: it is measured before it is written out.
"""

from __future__ import annotations

import re
from functools import lru_cache

import itanium_demangler

__all__ = ["demangled"]

_LONGEST = 2000
"""Characters of a mangled name that is tried, and of what it may stand for."""
_RUST = re.compile(r"__?ZN([A-Za-z0-9_.$]+)17h[0-9a-f]{16}E", re.ASCII)
_LENGTH = re.compile(r"[0-9]{1,4}")
_RUST_ESCAPES = {
    "$SP$": "@",
    "$BP$": "*",
    "$RF$": "&",
    "$LT$": "<",
    "$GT$": ">",
    "$LP$": "(",
    "$RP$": ")",
    "$C$": ",",
    "..": "::",
}
_RUST_CODE = re.compile(r"\$u([0-9a-f]{1,5})\$")


@lru_cache(maxsize=1 << 16)
def demangled(name: str) -> str:
    """The name, or the same where it is not mangled, or in a way that is not known (Rust's v0, for one)."""
    if not name.startswith(("_Z", "__Z")) or len(name) > _LONGEST:
        return name
    rust = _RUST.match(name)
    if rust is not None:
        return _rust(rust.group(1)) or name
    plain, _, version = name.partition("@")
    plain, dot, suffix = plain.partition(".")
    try:
        tree = itanium_demangler.parse(plain)
        if tree is None or _size(tree, {}) > _LONGEST:
            return name
        text = str(tree)
    except Exception:  # the parser raises what comes up, on names that make no sense
        return name
    return text + (f" [{dot}{suffix}]" if suffix else "") + (f"@{version}" if version else "")


def _rust(path: str) -> str:
    """The parts of a path, each with its length before it; "" where that is not so."""
    parts = []
    while path:
        length = _LENGTH.match(path)
        if length is None:
            return ""
        end = length.end() + int(length.group())
        part = path[length.end() : end]
        if end > len(path) or not part:
            return ""
        parts.append(_unescaped(part.removeprefix("_") if part.startswith("_$") else part))
        path = path[end:]
    return "::".join(parts)


def _unescaped(part: str) -> str:
    for escape, meaning in _RUST_ESCAPES.items():
        part = part.replace(escape, meaning)
    return _RUST_CODE.sub(lambda found: chr(int(found.group(1), 16)), part)


def _size(node: object, known: dict[int, int]) -> int:
    """About how many characters a tree stands for, whose parts may be the same one many times over."""
    if isinstance(node, str):
        return len(node)
    if not isinstance(node, tuple):
        return 2
    if id(node) not in known:
        known[id(node)] = 0
        known[id(node)] = 4 + sum(_size(part, known) for part in node)
    return known[id(node)]
