"""What is said of the machine's processors: each of its cycles once, and as their own counters say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.elves import T0, csrw, li
from tests.machine.examples import EXAMPLES, SHAPES, Shape, config_of, program, run
from tests.machine.programs import leave, loop
from tests.machine.programs import program as assembled
from tests.machine.programs import run as run_elf
from tests.machine.test_command import headway

from headway.model import Quality, Sample, Utilisation
from headway.views.utilisation_json import cpu_schema
from headway_machine.config import PowerConfig, Smi
from headway_machine.host import TICKS_PER_SECOND as SECOND
from headway_machine.machine import Machine
from headway_machine.run import Result
from headway_machine.utilisation import NS, sample_of

PWCLOCK, PWDUTY = 0x7D1, 0x7D2


def only(sample: Sample) -> Utilisation:
    (row,) = sample.processors
    return row


def check(done: Result) -> Sample:
    """Conservation; and where no management interrupt was, the counters of the harts say the same to the cycle."""
    sample = sample_of(done)
    assert set(sample.quality.values()) == {Quality.EXACT}
    for row, hart in zip(sample.processors, done.harts, strict=True):
        assert row.span == done.cycles * NS == (row.busy or 0) + (row.halted or 0) + (row.stolen or 0)
        assert sum(time or 0 for time in row.idle.values()) == row.halted
        assert (row.ticks or 0) * NS <= (row.busy or 0)
        if not row.smi:
            assert row.ticks == hart["unhalted"]
            # A hart's counters are as of when it fell asleep; the ledger is as of the end.
            behind = sorted((row.idle.get(name) or 0) // NS - hart[name.lower()] for name in ("C1", "C2", "C3"))
            assert behind[:2] == [0, 0]
    return sample


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["six-threads", "sleepers", "matmul", "uart-interrupt"])
def test_busy_ticks_and_low_power_states_are_those_of_the_harts_own_counters(name: str, shape: Shape) -> None:
    check(run(name, shape))


@given(st.integers(1, 16), st.integers(0, 7), st.sampled_from([8, 64, 1024]))
@settings(max_examples=25, deadline=None)
def test_the_actual_frequency_is_that_of_the_slowed_and_stopped_clock(speed: int, duty: int, window: int) -> None:
    elf = assembled(*li(T0, speed), csrw(PWCLOCK, T0), *li(T0, duty), csrw(PWDUTY, T0), *loop(20_000), *leave(0))
    done = run_elf(elf, max_cycles=20_000_000, cores=1, threads=1, power=PowerConfig(window=window))
    row = only(check(done))
    running = window - window * duty // 8
    assert row.utilisation == 1
    assert row.actual_hz == row.effective_hz == pytest.approx(SECOND * speed / 16 * running / window, rel=0.02)
    # Of each window from the write of pwduty on, to the tick; until that is done a few hundred ticks go by.
    assert row.stopped is not None
    assert row.throttled is not None
    stopped = row.stopped // NS
    assert abs(stopped - done.cycles * (window - running) / window) <= window + 300
    assert row.throttled == (0 if running == window else -(-stopped // (window - running)))


def test_a_management_interrupt_is_stolen_where_the_counter_takes_it_for_work() -> None:
    elf = assembled(*loop(20_000), *leave(0))
    done = run_elf(elf, cores=1, threads=1, smi=Smi(at=1000, every=10_000, ticks=700))
    row = only(check(done))
    assert row.smi == -(-(done.cycles - 1000) // 10_000)
    assert row.stolen == row.smi * 700 * NS
    assert row.ticks == done.harts[0]["unhalted"] - row.stolen // NS
    assert row.ticks * NS == row.busy
    assert row.actual_hz == SECOND


def test_a_processor_that_never_ran_has_no_frequency() -> None:
    done = Machine(cores=2, threads=1).run(assembled(*loop(10), *leave(0)))
    rows = check(done).processors
    assert (rows[1].utilisation, rows[1].ticks, rows[1].actual_hz) == (0, 0, None)
    assert rows[1].idle["reset"] == done.cycles * NS


def test_the_table_is_that_of_headway_cpu(tmp_path: Path) -> None:
    done = headway("run", EXAMPLES / "six-threads.elf", "--cpu", "-v")
    assert done.returncode == 0
    titles, everything, *rows = done.stderr.decode().splitlines()
    assert " ".join(titles.split()) == "cpu util user kernel poll irq │ idle │ effective actual"
    assert everything.split()[0] == "all"
    assert [row.split()[0] for row in rows[:6]] == list("012345")
    assert "noneffective.parse" in done.stderr.decode()


def test_the_json_is_headway_cpu_1_a_cycle_being_10_ns() -> None:
    done = headway("run", EXAMPLES / "six-threads.elf", "--cpu", "--json", "--", "x")
    document = json.loads(done.stderr)
    jsonschema.validate(document, cpu_schema())
    assert (document["source"], document["exit_status"]) == ("machine", 0)
    (sample,) = document["samples"]
    truth = Machine(config_of("six-threads", (1, 6, "strict"))).run(program("six-threads"))
    assert document["interval_ms"] == truth.cycles * 1000 / SECOND
    for row, processor in zip(sample["processors"], truth.ledger.processors, strict=True):
        assert {each["state"]: each["time"] for each in row["states"]} == {
            state: cell.time * NS for state, cell in processor.states.items()
        }


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_report_of_processors_that_cannot_be_written_is_a_failure(options: tuple[str, ...]) -> None:
    argv = [sys.executable, "-c", "from headway.commands import main; main()", "machine", "run", "integer", "--cpu"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*argv, *options], stdout=subprocess.DEVNULL, stderr=full, check=False)
    assert done.returncode == 125
