"""The policy of the guest kernel, and its order by progress: the loop from indices to remedies and back, exact."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from benchmarks.partition import DEFAULT, MIXES, SLOW_BUS, TWO_CORES, progress, watched
from tests.effort import FEW
from tests.machine.examples import EXAMPLES, MAX_CYCLES

from headway.model import violations
from headway_machine.config import BlockDevice, Config
from headway_machine.machine import Machine
from headway_machine.programs import programs

SHAPES = {"1x6": DEFAULT, "2x3 and a second level": TWO_CORES}


@pytest.mark.parametrize("mix", MIXES[:1] if FEW else MIXES[:4], ids=" beside ".join)
@pytest.mark.parametrize("shape", list(SHAPES)[:1] if FEW else SHAPES)
def test_a_thread_that_loses_to_memory_gets_ways_of_its_own_and_its_mpi_falls(shape: str, mix: tuple[str, str]) -> None:
    """T10 and T11: less is lost, and the progress of the same work is the same to the cycle."""
    beside, divided = (watched(*mix, SHAPES[shape], policy=on) for on in (False, True))
    assert beside.deeds == ()
    assert divided.indices.epi == beside.indices.epi
    assert (divided.indices.mpi or 0) < 0.8 * (beside.indices.mpi or 0)
    assert (divided.indices.rpi or 0) < (beside.indices.rpi or 0)
    ways = divided.amounts("ways")
    assert ways[0] == 3, "all but one at first"
    assert ways[-1] == 0, "it gives back what it has when it ends"
    assert violations(divided.result.ledger) == []


def test_what_does_not_help_is_given_back() -> None:
    """Neighbours that only compute take nothing from the cache, so its parts are of no use to the thread."""
    divided = watched("transfer", "compute")
    assert divided.amounts("ways") == []
    assert watched("matmul", "copy", SLOW_BUS).amounts("ways")[-1] == 0


def test_a_thread_that_polls_is_told_to_wait_by_interrupt() -> None:
    config = Config.of(block=BlockDevice(latency=9000))
    polls, told = (watched("transfer", "compute", config, policy=on).indices for on in (False, True))
    assert (polls.iopi or 0) > 0.5 * (polls.rpi or 0)
    assert (told.iopi or 0) < 0.3 * (polls.iopi or 0)
    assert watched("transfer", "compute", config).amounts("(wait by interrupt)") == [1, 0]


def test_where_nothing_can_be_won_the_policy_costs_little() -> None:
    """What it tries while the thread fills its caches is over soon."""
    without, found = (watched("lookup", "compute", policy=on).indices for on in (False, True))
    assert found.epi == without.epi
    assert (found.rpi or 0) < 1.03 * (without.rpi or 0)


def test_a_run_with_the_policy_is_the_same_each_time() -> None:
    first, second = (watched("lookup", "mixed").result.digest for _ in range(2))
    assert first == second


@pytest.mark.parametrize("threads", [1, 6])
def test_by_progress_every_thread_makes_the_same_progress(threads: int) -> None:
    config = Config.of(threads=threads)
    spreads = {}
    for order in ("rounds", "progress"):
        found = progress(order, config, each=2 if threads == 1 else 8, ticks=10_000_000)
        epi = [epi for pairs in found.values() for epi, _ in pairs]
        spreads[order] = max(epi) / min(epi)
    assert spreads["rounds"] > 8
    apart = max(epi) - min(epi)
    assert apart < 2 * 4000 * threads, "up to two turns"
    assert spreads["progress"] < (1.05 if threads == 1 else 2)


def test_the_program_shows_what_it_is_named_after_without_any_option() -> None:
    program = programs()["equal-progress"]
    done = Machine(program.config()).run(program.image(), max_cycles=MAX_CYCLES)
    least, most = map(int, re.findall(r"\d+", done.output.decode())[-2:])
    assert 0 < most < 1.1 * least


def test_in_turn_every_thread_gets_the_same_time() -> None:
    rpi = [rpi for pairs in progress("rounds", Config.of(threads=1)).values() for _, rpi in pairs]
    assert max(rpi) / min(rpi) < 1.25


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("partition", "victim=sort"),
        ("partition", "polcy=on"),
        ("partition", "count=17"),
        ("partition", "period=10"),
        ("equal-progress", "order=fair"),
        ("equal-progress", "each=0"),
    ],
)
def test_what_an_argument_cannot_be_is_said(name: str, argument: str) -> None:
    done = Machine().run(EXAMPLES / f"{name}.elf", arguments=(argument,), max_cycles=MAX_CYCLES)
    assert done.exit_status == 2
    text = done.output.decode()
    assert f"{name}: {argument} is no argument" in text or re.search(r"(count|each|period)=", text)


def test_arguments_may_come_in_any_number_and_order() -> None:
    done = Machine().run(
        EXAMPLES / "partition.elf",
        arguments=("count=2", "policy=off", "victim=crc32", "neighbours=copy"),
        max_cycles=MAX_CYCLES,
    )
    assert (done.exit_status, done.output) == (0, b"partition: crc32 right\n")
    assert Counter(thread.name for thread in done.ledger.threads if thread.pid)["copy"] == 2
