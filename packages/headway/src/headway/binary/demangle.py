"""Demangling of C++ and Rust names.

The names are mangled by the Itanium C++ ABI; Rust's older mangling is a form of it, and its newer one is in
`headway.binary.rust_v0`. A name comes from an untrusted
file, and a short one can stand for a very long text. The length is therefore computed before the text is made.
"""

from __future__ import annotations

import re
from functools import lru_cache

import itanium_demangler

from .rust_v0 import demangled_v0

__all__ = ["demangled", "names_of", "short_name"]

_LONGEST = 2000
"""The largest number of characters of a mangled name that is tried, and of the text that it stands for."""
_ANONYMOUS = "(anonymous namespace)"
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
_OF_TYPE = re.compile(r"<([A-Za-z0-9_:]+)>::(.+)", re.ASCII)
_NAMELESS = re.compile(r"\b_GLOBAL__N_[0-9]+\b")
"""How compilers call a namespace without a name."""
_QUALIFIED = re.compile(r"((?: const| volatile)+)(\(.*\))$")
"""What the demangler puts before the parameters of a function, and C++ behind them."""
_RUST_CODE = re.compile(r"\$u([0-9a-f]{1,5})\$")


@lru_cache(maxsize=1 << 16)
def demangled(name: str) -> str:
    """Return the demangled name; the same name if it is not mangled, or in an unknown way."""
    if name.startswith("_R") and len(name) <= _LONGEST:
        return demangled_v0(name)
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
    text = _QUALIFIED.sub(r"\2\1", _NAMELESS.sub(_ANONYMOUS, text))
    return text + (f" [{dot}{suffix}]" if suffix else "") + (f"@{version}" if version else "")


def names_of(name: str) -> frozenset[str]:
    """Return the names by which a user may mean a function: its symbol, and what that is when it is demangled.

    Of ``void draw::Scene::add<int>(int) const`` these are the whole, and, without parameters, with and without the type
    that it returns and its template arguments: ``draw::Scene::add<int>``, ``draw::Scene::add``.
    """
    text = demangled(name)
    if text == name:
        return frozenset((name,))
    bare = _without_parameters(text.partition(" [.")[0])
    own = _without_type(bare)
    return frozenset((name, text, bare, own, _without_arguments(own), short_name(name)))


def short_name(name: str) -> str:
    """Return the shortest of `names_of`, which several functions may share: ``draw::Scene::add``."""
    text = demangled(name)
    if text == name:
        return name
    short = _without_arguments(_without_type(_without_parameters(text.partition(" [.")[0])))
    short = short.replace(f"{_ANONYMOUS}::", "")
    of_type = _OF_TYPE.fullmatch(short)  # a function of a type of Rust: <drawing::Canvas>::draw
    return f"{of_type.group(1)}::{of_type.group(2)}" if of_type else short


_CALL = "operator()"


def _without_parameters(text: str) -> str:
    """Return a demangled name up to its parameters: the first bracket that belongs to no part of the name."""
    depth = at = 0
    while at < len(text):
        for whole in (_ANONYMOUS, _CALL):
            if text.startswith(whole, at):
                at += len(whole)
                break
        else:
            if text.startswith("operator", at):
                at += len("operator")
                while at < len(text) and text[at] in "<>-=+*/%^&|~!,":
                    at += 1
                continue
            if text[at] == "(" and not depth and at:
                return text[:at]
            depth += (text[at] in "<([{") - (text[at] in ">)]}")
            at += 1
    return text


def _without_type(text: str) -> str:
    """Return a name without the type that the function returns, which stands before it in those of templates."""
    depth = 0
    if "operator" in text:
        return text
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] in ">)]}") - (text[at] in "<([{")
        if text[at] == " " and not depth:
            return text[at + 1 :]
    return text


def _without_arguments(text: str) -> str:
    """Return a name without its template arguments."""
    if "operator" in text or text.startswith("<"):
        return text
    depth, kept = 0, []
    for letter in text:
        depth += letter == "<"
        if not depth:
            kept.append(letter)
        depth -= letter == ">"
    return "".join(kept)


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
