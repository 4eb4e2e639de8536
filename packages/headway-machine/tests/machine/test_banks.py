"""Banks of the data cache: a load waits for a cycle while the store before it writes the same bank."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.errors import HeadwayError
from headway_machine import Cache, Machine
from headway_machine.config import Config, ProfileCounter, TraceUnitConfig
from headway_machine.run import Result
from headway_trace.threads.container import TraceFile
from headway_trace.threads.reading import Trace

from .elves import A0, A1, T0, T2, ZERO, addi, bne, li, lw, sw
from .examples import Shape, config_of, program
from .programs import DATA, check, leave
from .programs import program as made

pytestmark = pytest.mark.unit
ROUNDS = 300


def pairs(offset: int, *between: int) -> bytes:
    """Stores a word and loads the one at this offset from it, so many times."""
    body = (sw(A0, A1), *between, lw(T2, A1, offset), addi(T0, T0, -1))
    return made(li(A1, DATA + 0x100), li(T0, ROUNDS), *body, bne(T0, ZERO, -4 * len(body)), *leave(0))


def run(elf: bytes, banks: int, path: Path | None = None) -> tuple[Result, int]:
    """The result, and the conflicts that the profile has counted."""
    trace = TraceUnitConfig(window=100, counters=(ProfileCounter("bank_conflicts"),))
    machine = Machine(Config.of(threads=1, l1d=Cache(banks=banks), trace=trace))
    if path is None:
        return machine.run(elf), 0
    with path.open("wb") as stream:
        result = machine.run(elf, trace=stream)
    return result, sum(window[1] for window in Trace(TraceFile(path), None).windows(0))


@pytest.mark.parametrize(
    ("offset", "banks", "conflicts"), [(0, 4, True), (4, 4, False), (16, 4, True), (16, 8, False), (4, 1, True)]
)
def test_a_load_behind_a_store_to_its_bank_waits_for_a_cycle(
    tmp_path: Path, offset: int, banks: int, conflicts: bool
) -> None:
    elf = pairs(offset)
    plain, none = run(elf, 0, tmp_path / "plain.hwt")
    banked, found = run(elf, banks, tmp_path / "t.hwt")
    check(banked)
    assert none == 0
    assert found in ((ROUNDS - 1, ROUNDS) if conflicts else (0,))
    assert banked.cycles - plain.cycles == found
    assert banked.instructions == plain.instructions


def test_an_instruction_in_between_avoids_the_conflict() -> None:
    elf = pairs(0, addi(ZERO, ZERO, 0))
    assert run(elf, 4)[0].cycles == run(elf, 0)[0].cycles


@pytest.mark.parametrize("shape", [(1, 6, "strict"), (2, 3, "skip")])
def test_programs_make_the_same_with_banks_and_keep_the_laws(shape: Shape) -> None:
    config = config_of("mutex", shape)
    plain = Machine(config).run(program("mutex"))
    banked = Machine(config, l1d=Cache(banks=4)).run(program("mutex"))
    check(banked)
    assert (banked.exit_status, banked.output) == (plain.exit_status, plain.output)
    assert (
        banked.digest
        == Machine(config, l1d=Cache(banks=4), trace=TraceUnitConfig(enabled=True)).run(program("mutex")).digest
    )


def test_the_instruction_cache_has_no_banks() -> None:
    with pytest.raises(HeadwayError, match=r"l1i\.banks means nothing"):
        Config.of(l1i=Cache(banks=4))
