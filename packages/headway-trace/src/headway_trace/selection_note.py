"""One sentence where a trace has no instruction of what was selected: what there is to select."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .reader import There
    from .selection import Wanted

__all__ = ["lines_or_note", "rows_or_note"]

_MOST = 10
"""How many threads are named."""
_ADDRESS_COLUMN = 4
_ADDRESS = b",0x"
"""What precedes the address in a line of CSV; a gap has none, and the stream's own ``0x`` begins the line."""


def lines_or_note(
    lines: Iterable[bytes], path: str, wanted: Wanted, there: Callable[[], There], say: Callable[[str], None]
) -> Iterator[bytes]:
    """Yield blocks of lines of CSV. If no line has an instruction, say what there is."""
    found = False
    for some in lines:
        found = found or _ADDRESS in some
        yield some
    if not found:
        _tell(path, wanted, there, say)


def rows_or_note(
    rows: Iterable[Sequence[Any]], path: str, wanted: Wanted, there: Callable[[], There], say: Callable[[str], None]
) -> Iterator[Sequence[Any]]:
    """Do the same with rows."""
    found = False
    for row in rows:
        found = found or row[_ADDRESS_COLUMN] is not None
        yield row
    if not found:
        _tell(path, wanted, there, say)


def _tell(path: str, wanted: Wanted, there: Callable[[], There], say: Callable[[str], None]) -> None:
    if wanted.threads or wanted.timed:
        say(_sentence(path, wanted, there()))


def _sentence(path: str, wanted: Wanted, there: There) -> str:
    what, has = "no instruction", []
    if wanted.threads:
        what += f" of thread {_listed(wanted.threads)}"
        if there.threads is not None:
            has.append(f"the threads {_listed(sorted(there.threads))}" if there.threads else "no thread")
    if wanted.begin is not None:
        what += f" from {wanted.begin} " + (f"to {wanted.end}" if wanted.end is not None else "on")
    elif wanted.end is not None:
        what += f" before {wanted.end}"
    if wanted.timed:
        times = there.times
        has.append(f"the times from {times[0]:.0f} to {times[1]:.0f}" if times is not None else "no times")
    return f"{path!a} has {what}; it has {' and '.join(has)}"


def _listed(numbers: Sequence[int]) -> str:
    names = ", ".join(str(number) for number in numbers[:_MOST])
    return f"{names} and {len(numbers) - _MOST} more" if len(numbers) > _MOST else names
