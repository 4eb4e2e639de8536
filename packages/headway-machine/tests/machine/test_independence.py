"""T11: a thread's effective progress for the same work is the same, to the cycle, whatever runs beside it."""

from collections import defaultdict

import pytest
from tests.machine.examples import SHAPES, Shape, config_of, program

from headway.model import violations
from headway_machine.machine import Machine

JOBS = ("matmul", "pointer-chase", "integer", "sort", "crc32")
ALONE = (1, 2, 4, 8, 16)
TOGETHER = (3, 5, 10, 21, 30, 31)
"""Which jobs run, a bit each: one alone, and mixes in which every job meets every other one."""


def indices(shape: Shape, choice: int) -> dict[str, tuple[int, int]]:
    """EPI and RPI of each job in one run."""
    result = Machine(config_of("mix", shape)).run(program("mix", {"mix_choice": choice}), max_cycles=100_000_000)
    assert (result.ended, result.exit_status) == ("exit", 0)
    assert violations(result.ledger) == []
    found = {}
    for thread in result.ledger.threads:
        if thread.name in JOBS:
            had = result.ledger.indices(thread)
            assert had.epi is not None
            assert had.rpi is not None
            found[thread.name] = had.epi, had.rpi
    assert len(found) == choice.bit_count()
    return found


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_effective_progress_is_the_same_alone_and_beside_any_mix_while_time_is_not(shape: Shape) -> None:
    effective, all_time = defaultdict(set), defaultdict(set)
    for choice in ALONE + TOGETHER:
        for job, (epi, rpi) in indices(shape, choice).items():
            effective[job].add(epi)
            all_time[job].add(rpi)
    assert {job: len(seen) for job, seen in effective.items()} == dict.fromkeys(JOBS, 1)
    assert all(len(seen) > 1 for seen in all_time.values())


def test_effective_progress_in_strict_turn_does_not_depend_on_the_number_of_cores() -> None:
    assert {job: epi for job, (epi, _) in indices((1, 6, "strict"), 31).items()} == {
        job: epi for job, (epi, _) in indices((2, 6, "strict"), 31).items()
    }


def test_effective_progress_beside_a_preempting_neighbour_equals_that_of_a_hart_of_its_own() -> None:
    crowded = indices((1, 1, "skip"), 31)
    roomy = indices((1, 8, "skip"), 31)
    assert {job: epi for job, (epi, _) in crowded.items()} == {job: epi for job, (epi, _) in roomy.items()}
