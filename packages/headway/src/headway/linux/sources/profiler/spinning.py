"""Spinning without a mark: user code that stays in a loop which only another thread can end.

Samples tell where a thread's user code was, and the code there whether that is a loop that spins
(`headway.binary.spin_loops`). A thread that two samples of its processor time in a row find in the same loop spins.
Then all samples in that loop, of any thread of the process, are of the state `SPINNING`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence

from headway.binary.spin_loops import SpinLoop, SpinLoops
from headway.linux.symbols.code import UserCode
from headway.linux.symbols.modules import Space

from ..spinning import IN_A_ROW

__all__ = ["found_spinning", "notes_on_spinning"]

_Row = tuple[int, int, int, int, int, int, int]
"""See `headway.linux.sources.profiler.assembling`."""
_Place = tuple[Space, int]


def found_spinning(
    rows: Sequence[_Row], user: int, place_of: Callable[[int], _Place | None], code: UserCode
) -> set[int]:
    """Return the indices of the rows in which a thread spins.

    ``user``: the number of the state of user code. ``place_of`` returns the address space and the address of the
    innermost frame of a stack; None: it is in the kernel, or not known. Samples in other states, such as an interrupt,
    neither belong to a row of samples nor end one.
    """
    loops = SpinLoops(platform.machine())
    judged: dict[_Place, tuple[Space, SpinLoop] | None] = {}

    def loop_of(stack: int) -> tuple[Space, SpinLoop] | None:
        place = place_of(stack)
        if place is None:
            return None
        if place not in judged:
            space, address = place
            found = loops.around(address, lambda at, size: code.read(space, at, size))
            judged[place] = None if found is None else (space, found)
        return judged[place]

    threads: dict[int, list[int]] = {}
    for i, (_, thread, cpu, state, _, _, _) in enumerate(rows):
        if thread >= 0 and cpu >= 0 and state == user:
            threads.setdefault(thread, []).append(i)
    proven: set[object] = set()
    for samples in threads.values():
        samples.sort(key=lambda i: rows[i][0])
        proven.update(loop_of(rows[i][6]) for i in _runs(samples, lambda i: loop_of(rows[i][6])))
    return {i for samples in threads.values() for i in samples if loop_of(rows[i][6]) in proven}


def notes_on_spinning(code: UserCode, machine: str) -> list[str]:
    """Return sentences on where spinning could not be looked for. ``machine``: as in `platform.machine`."""
    notes = []
    if not SpinLoops(machine).known:
        notes.append(f"spinning was not looked for: the code of {machine} is not known")
    if code.without_room:
        notes.append(
            f"spinning was not looked for in {code.without_room:,} samples of code made at run time: it was in too "
            "many places"
        )
    return notes


def _runs(samples: Iterable[int], loop_of: Callable[[int], object]) -> Iterable[int]:
    """Yield the samples of which `IN_A_ROW` and more in a row have the same loop."""
    run: list[int] = []
    last: object = None
    for sample in samples:
        loop = loop_of(sample)
        if loop is None or loop != last:
            if len(run) >= IN_A_ROW:
                yield from run
            run = []
        if loop is not None:
            run.append(sample)
        last = loop
    if len(run) >= IN_A_ROW:
        yield from run
