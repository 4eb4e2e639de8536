"""Demangling of C++ and Rust names.

The names are mangled by the Itanium C++ ABI; Rust's older mangling is a form of it. A name comes from an untrusted
file, and a short one can stand for a very long text. The length is therefore computed before the text is made.
"""

from __future__ import annotations

import re
from functools import lru_cache

import itanium_demangler

__all__ = ["demangled"]

_LONGEST = 2000
"""The largest number of characters of a mangled name that is tried, and of the text that it stands for."""
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
    """Return the demangled name; the same name if it is not mangled, or in an unknown way (such as Rust's v0)."""
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
    except Exception:  # the parser raises all kinds of exceptions for malformed names
        return name
    return text + (f" [{dot}{suffix}]" if suffix else "") + (f"@{version}" if version else "")


def _rust(path: str) -> str:
    """Return the parts of a path, each of which is preceded by its length; "" if the path has another form."""
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
    """Return the approximate number of characters that a tree stands for. Its nodes may occur many times."""
    if isinstance(node, str):
        return len(node)
    if not isinstance(node, tuple):
        return 2
    if id(node) not in known:
        known[id(node)] = 0
        known[id(node)] = 4 + sum(_size(part, known) for part in node)
    return known[id(node)]
