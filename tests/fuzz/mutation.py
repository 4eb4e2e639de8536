"""Hostile variants of valid inputs. All choices come from one random generator, so they can be repeated.

The library atheris (libFuzzer for Python) was considered and is not used. Its inputs depend on the coverage of those
before them, so an input has no number from which it can be made again, and it sees into compiled code only if clang
compiled that with its instrumentation; `make sanitize` uses the C compiler of the system. What hypothesis draws is
bounded by its choices, of which an input of a few KiB needs too many, and it makes fewer than a hundred inputs a
second. So inputs are mutated here, and the targets reach behind checksums and framing by making these anew.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from random import Random

__all__ = ["interesting", "mutated", "mutated_text", "number", "varint", "word"]

_EDGES = (0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 255, 256, 4095, 4096, 65535, 65536)
_POWERS = tuple(1 << bits for bits in (7, 8, 15, 16, 24, 31, 32, 47, 48, 53, 56, 60, 61, 62, 63, 64))
_NUMBERS = tuple(sorted({*_EDGES, *(power + more for power in _POWERS for more in (-1, 0, 1))}))
_WORDS = re.compile(rb"[0-9]+|[A-Za-z_]+")
_TOKENS = (
    b"\0", b"\n", b"\r\n", b" ", b"\t", b"'", b'"', b"\\", b"[", b"]", b"{", b"}", b"(", b")", b"=", b",", b":", b"-",
    b"#", b"_", b"//", b"../",
    b"null", b"true", b"false", b"nan", b"inf", b"NaN", b"1e999", b"0x", b"-0", b"1.5", b"\xff", b"\xc3",
    b"\xed\xa0\x80", b"\xe2\x80\xa8", b"\\ud800", b"\\n", b"\x1b[31m", b"1979-05-27", b"9" * 40, b"9" * 4301,
)  # fmt: skip
_LONGEST = 1 << 16


def number(random: Random) -> int:
    """Return an integer at the edge of a range that a program may use, or any of up to 64 bits."""
    if random.random() < 0.75:
        return random.choice(_NUMBERS)
    return random.getrandbits(random.randrange(1, 65))


def interesting(random: Random, size: int) -> bytes:
    """Return such an integer as ``size`` bytes, mostly little-endian."""
    order = "little" if random.random() < 0.85 else "big"
    return (number(random) & (1 << 8 * size) - 1).to_bytes(size, order)  # type: ignore[arg-type]


def mutated(random: Random, data: bytes, others: Sequence[bytes], most: int = 6) -> bytes:
    """Return the bytes with one to ``most`` changes. ``others`` are what parts may be taken from."""
    found = bytearray(data)
    for _ in range(1 + int(random.random() ** 2 * most)):
        random.choice(_CHANGES)(random, found, others)
    return bytes(found[:_LONGEST])


def mutated_text(random: Random, data: bytes, others: Sequence[bytes], most: int = 6) -> bytes:
    """Do the same with text, in which numbers, words and lines are changed too."""
    found = bytearray(data)
    for _ in range(1 + int(random.random() ** 2 * most)):
        random.choice(_CHANGES_OF_TEXT)(random, found, others)
    return bytes(found[:_LONGEST])


def _place(random: Random, data: bytearray) -> int:
    return int(random.random() * len(data))


def _span(random: Random, data: Sequence[int]) -> tuple[int, int]:
    """Return a span of bytes, more often a short one."""
    size = len(data)
    start = int(random.random() * size)
    length = 1 + int(random.random() ** 4 * (size - start))
    return start, min(start + length, size)


def _flip(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[_place(random, data)] ^= 1 << random.randrange(8)


def _set(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[_place(random, data)] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.getrandbits(8)))


def _integer(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    size = random.choice((1, 2, 4, 4, 8, 8))
    at = _place(random, data)
    if random.random() < 0.7:
        at -= at % min(size, 4)
    data[at : at + size] = interesting(random, size)


def _add(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    size = random.choice((1, 2, 4, 8))
    if len(data) >= size:
        at = random.randrange(len(data) - size + 1)
        value = int.from_bytes(data[at : at + size], "little") + random.choice((-1, 1)) * random.randrange(1, 36)
        data[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")


def _truncate(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    del data[_place(random, data) :]


def _remove(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    start, end = _span(random, data)
    del data[start:end]


def _repeat(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    start, end = _span(random, data)
    if end > start:
        times = random.choice((1, 1, 2, 8, 64))
        data[end:end] = bytes(data[start:end]) * min(times, _LONGEST // (end - start))


def _move(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    start, end = _span(random, data)
    part = bytes(data[start:end])
    del data[start:end]
    at = _place(random, data)
    data[at:at] = part


def _fill(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    start, end = _span(random, data)
    data[start:end] = random.choice((b"\0", b"\xff", b"\x80", b"A")) * (end - start)


def _insert(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = _place(random, data)
    data[at:at] = random.randbytes(random.choice((1, 2, 4, 8, 16, 40)))


def _splice(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Put a part of another input in the place of a part of this one."""
    if others:
        other = random.choice(others)
        first, last = _span(random, other)
        start, end = _span(random, data)
        data[start : end if random.random() < 0.5 else start] = other[first:last]


def _cross(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Continue as another input does."""
    if others:
        other = random.choice(others)
        at = _place(random, data)
        data[at:] = other[min(at, len(other)) :]


_Change = Callable[[Random, bytearray, Sequence[bytes]], None]
_CHANGES: tuple[_Change, ...] = (
    _flip, _flip, _flip, _set, _set, _integer, _integer, _integer, _add, _add, _truncate, _remove, _repeat, _move,
    _fill, _insert, _splice, _cross,
)  # fmt: skip


def _number_in_text(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    _replace(random, data, lambda word: word.isdigit(), lambda: b"-" * (random.random() < 0.2) + b"%d" % number(random))


def _word(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    _replace(random, data, lambda word: True, lambda: random.choice(_TOKENS))


def _replace(random: Random, data: bytearray, wanted: Callable[[bytes], bool], by: Callable[[], bytes]) -> None:
    found = _WORDS.search(data, _place(random, data)) if data else None
    if found and wanted(found[0]):
        data[found.start() : found.end()] = by()


def _token(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = _place(random, data)
    data[at:at] = random.choice(_TOKENS)


def _lines(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Remove a line, put it twice, put it elsewhere, or take one from another text."""
    lines = bytes(data).split(b"\n")
    at, kind = random.randrange(len(lines)), random.randrange(4)
    line = lines[at]
    if kind != 1:
        del lines[at]
    if kind == 3 and others:
        line = random.choice(random.choice(others).split(b"\n"))
    if kind:
        lines.insert(random.randrange(len(lines) + 1), line)
    data[:] = b"\n".join(lines)


def _deepen(random: Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = _place(random, data)
    data[at:at] = random.choice((b"[", b"{", b"(", b'{"a":', b"a.", b"[[", b"a={")) * random.choice((2, 50, 2000))


_CHANGES_OF_TEXT: tuple[_Change, ...] = (
    *_CHANGES, *((_number_in_text,) * 8), _word, _word, _word, _token, _token, _token, _lines, _lines, _lines, _deepen,
)  # fmt: skip


def varint(value: int) -> bytes:
    """Return a number with 7 bits a byte, the lowest first."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def word(value: int, kind: str = "<I") -> bytes:
    """Return the low bits of a number, packed."""
    size = struct.calcsize(kind)
    return struct.pack(kind, value & (1 << 8 * size) - 1)
