"""P1 to P4 on the machine: buffers that fill by themselves, looks that cost time, the policy by processor time."""

from __future__ import annotations

from functools import cache

import pytest
from benchmarks.polling_machine import BRANCHES, CPU_TIME, CYCLES, FIXED, INSTRUCTIONS, NEVER, OFF, Polled, run
from tests.machine.examples import EXAMPLES, MAX_CYCLES, SHAPES, Shape

from headway.buffers.policies.cpu_time import CpuTime
from headway_machine.config import Config
from headway_machine.machine import Machine

CAPACITY = 512
"""As the program has it, if it is not told otherwise."""


@cache
def polled(policy: str, event: str = INSTRUCTIONS, every: int = 500, shape: Shape = (1, 1, "strict")) -> Polled:
    cores, threads, issue = shape
    return run(Config().with_values(cores=cores, threads=threads, issue=issue), policy=policy, event=event, every=every)


EVENTS = ((CYCLES, 1000), (INSTRUCTIONS, 500), (BRANCHES, 100))


@pytest.mark.parametrize(("event", "every"), EVENTS)
def test_the_same_work_is_done_whatever_the_policy(event: str, every: int) -> None:
    runs = {policy: polled(policy, event, every) for policy in (OFF, NEVER, FIXED, CPU_TIME)}
    assert len({done.work for done in runs.values()}) == 1
    assert not any(done.wrong for done in runs.values())
    assert runs[OFF].cycles < runs[NEVER].cycles < runs[CPU_TIME].cycles < runs[FIXED].cycles


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_by_processor_time_nothing_is_lost_and_most_looks_are_useful(shape: Shape) -> None:
    by_time, fixed = polled(CPU_TIME, shape=shape), polled(FIXED, shape=shape)
    assert by_time.lost == 0
    assert by_time.useful > 100
    assert by_time.looks <= 1.5 * by_time.useful
    assert fixed.looks > 3 * by_time.looks
    assert by_time.collected + by_time.left == pytest.approx(fixed.collected + fixed.left, rel=0.05), (
        "looking executes instructions, too"
    )


def test_a_buffer_that_nobody_looks_into_stops_when_it_is_full() -> None:
    done = polled(NEVER)
    assert done.collected == 0
    assert 0 < done.left <= done.threads * CAPACITY // 16
    assert done.lost > done.left


def test_rates_that_change_tenfold_cost_less_than_the_budget() -> None:
    done = polled(CPU_TIME, BRANCHES, 100)
    assert done.lost <= 0.05 * (done.collected + done.left + done.lost)


@pytest.mark.parametrize(("event", "every"), EVENTS)
def test_the_policy_in_the_program_is_that_of_the_collector(event: str, every: int) -> None:
    """Told what the program's looks found, `CpuTime` decides the same; the program rounds to whole numbers."""
    policy = CpuTime(CAPACITY, first=CAPACITY // 16 // 2 * every)
    policy.due(0, 0)
    log = polled(CPU_TIME, event, every).first
    assert len(log) > 20
    for found in log:
        assert policy.looked(found.used, found.used, found.filled, 0) == found.drained
        assert found.next - found.used == pytest.approx(
            policy.interval if found.drained else found.next - found.used, rel=0.05
        )


@pytest.mark.parametrize(
    "argument", ["policy=none", "polcy=off", "period=", "period=1e3", "period=4294967296", "x", "event="]
)
def test_an_argument_that_the_program_does_not_know_is_said(argument: str) -> None:
    done = Machine(threads=1).run(EXAMPLES / "polling.elf", arguments=(argument,), max_cycles=MAX_CYCLES)
    lines = done.console.decode().splitlines()
    assert done.exit_status == 2
    assert lines[0] == f"polling: {argument} is no argument of this program:" or argument == "event="
    assert lines[-2].startswith("policy=off|never|fixed|cpu-time ")


def test_arguments_are_those_of_the_command_line() -> None:
    done = Machine(threads=1).run(
        EXAMPLES / "polling.elf", arguments=("policy=fixed", "pieces=100", "busy=1"), max_cycles=MAX_CYCLES
    )
    assert done.exit_status == 0
    assert done.console.startswith(b"polling: policy 2, 31 threads: ")
