"""Every example computes what it must, on machines of several shapes, and no cycle of it is lost."""

from __future__ import annotations

import re

import pytest
from tests.effort import FEW
from tests.machine import jobs
from tests.machine.examples import EXAMPLES, MAX_CYCLES, SHAPES, Shape, config_of, names, program, run

from headway.model import Kind, violations
from headway_machine.config import L2, Bus, Cache, Config, MemoryConfig, Tlb
from headway_machine.machine import Machine
from headway_machine.run import Result

JOBS = ("matmul", "pointer-chase", "integer", "sort", "crc32")
ALL = (1 << len(JOBS)) - 1


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("name", names())
def test_an_example_is_right_and_no_cycle_is_lost(name: str, shape: Shape) -> None:
    done = run(name, shape)
    text = (done.output + done.console).decode()
    assert (done.ended, done.exit_status) == ("exit", 0), text
    assert text.splitlines()[-1].startswith(f"{name}: ")
    assert text.endswith("\n")
    assert violations(done.ledger) == []
    assert not any(done.ledger.losses.values())


def test_every_example_has_its_line_in_the_table() -> None:
    table = (EXAMPLES / "machine/README.md").read_text()
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE)) == names()


@pytest.mark.parametrize("job", JOBS)
def test_a_job_must_compute_what_python_computes(job: str) -> None:
    """The programs compare with constants; here they are computed by other means."""
    name = job.removeprefix("pointer-")
    header = (EXAMPLES / "machine/jobs/jobs.h").read_text()
    right = f"0x{getattr(jobs, name)():08X}"
    assert re.search(rf"^#define {name.upper()}_RIGHT {right}$", header, re.MULTILINE)
    assert right in (EXAMPLES / "machine/README.md").read_text()


def epi(done: Result) -> dict[str, tuple[int | None, int | None]]:
    """EPI and RPI of every job that ran."""
    found = ((thread.name, done.ledger.indices(thread)) for thread in done.ledger.threads)
    return {name: (of.epi, of.rpi) for name, of in found if name in JOBS}


SHARED = ((1, 1, "strict"), (1, 6, "strict"), (2, 2, "skip"))


@pytest.mark.parametrize("shape", SHARED[::2] if FEW else SHARED, ids=str)
def test_the_epi_of_a_job_is_the_same_alone_and_beside_any_of_the_others(shape: Shape) -> None:
    """T11, to the cycle, while its RPI depends on what else runs; on one hart the jobs preempt each other as well."""
    alone = {name: epi(run("mix", shape, {"mix_choice": 1 << at}))[name] for at, name in enumerate(JOBS)}
    varied = set()
    for choice in (0b00011, 0b00110, 0b11001, 0b10101, 0b01111, ALL):
        beside = epi(run("mix", shape, {"mix_choice": choice}))
        assert sorted(beside) == sorted(name for at, name in enumerate(JOBS) if choice >> at & 1)
        for name, (progress, had) in beside.items():
            assert progress == alone[name][0]
            if had != alone[name][1]:
                varied.add(name)
    assert varied == set(JOBS)


def test_the_progress_of_a_thread_that_spins_depends_on_the_others() -> None:
    """The limit of T11: what spins executes more when it waits longer."""
    spun = set()
    for shape in ((1, 1, "skip"), (1, 2, "skip"), (1, 6, "skip")):
        done = run("spin-lock", shape)
        spun.add(sum(done.ledger.indices(thread).epi or 0 for thread in done.ledger.threads if thread.name == "spin"))
    assert len(spun) > 1


def state_times(done: Result, state: str) -> dict[str, int]:
    return {t.name: t.states[state].time for t in done.ledger.threads if state in t.states}


@pytest.mark.parametrize(
    ("name", "state", "thread"),
    [
        ("six-threads", "poll.block", "poll"),
        ("six-threads", "noneffective.parse", "parse"),
        ("six-threads", "noneffective.malloc", "allocate"),
        ("six-threads", "wait.sleep", "sleep"),
        ("six-threads", "wait.join", "main"),
        ("malloc-heavy", "wait.mutex", "churn"),
        ("mutex", "wait.mutex", "worker"),
        ("mutex", "kernel.unlock", "worker"),
        ("mutex", "kernel.yield", "worker"),
        ("producer-consumer", "wait.queue", "consumer-1"),
        ("work-queue", "wait.condition", "worker"),
        ("uart-poll", "poll.uart_rx", "main"),
        ("uart-poll", "poll.uart_tx", "main"),
        ("uart-interrupt", "wait.uart", "receive"),
        ("spin-lock", "poll.spin", "marked"),
        ("region", "noneffective.collect", "regions"),
        ("region", "poll.wait", "regions"),
        ("mix", "irq.timer", "matmul"),
    ],
)
def test_a_thread_is_seen_in_the_state_that_its_program_puts_it_in(name: str, state: str, thread: str) -> None:
    assert state_times(run(name, (1, 2, "skip")), state)[thread] > 0


def test_what_polls_is_not_the_thread_that_sleeps() -> None:
    done = run("six-threads", (2, 6, "strict"))
    indices = {t.name: done.ledger.indices(t) for t in done.ledger.threads}
    assert (indices["poll"].iopi or 0) > (indices["poll"].epi or 0)
    assert indices["sleep"].iopi == 0
    assert (indices["compute"].te or 0) > 0.5 > (indices["allocate"].te or 0)


@pytest.mark.parametrize("name", ["uart-poll", "uart-interrupt"])
def test_who_waits_for_input_by_interrupt_loses_no_processor_time_by_it(name: str) -> None:
    done = run(name, (1, 6, "strict"))
    waited = sum(done.ledger.times(t)[Kind.WAIT] for t in done.ledger.threads if t.name in ("main", "receive"))
    polled = sum(done.ledger.indices(t).iopi or 0 for t in done.ledger.threads if t.name in ("main", "receive"))
    assert polled > waited if name == "uart-poll" else polled == 0 < waited


def test_more_threads_than_harts_share_them() -> None:
    done = run("region", (1, 2, "strict"))
    ready = [t.states["ready"].time for t in done.ledger.threads if t.name == "regions"]
    assert len(ready) == 8
    assert all(time > 0 for time in ready)


def test_the_same_run_twice_is_the_same_to_the_cycle() -> None:
    assert run("six-threads", (2, 6, "skip")).digest == run("six-threads", (2, 6, "skip")).digest


@pytest.mark.parametrize("shape", [(4, 8, "skip"), (16, 8, "strict")], ids=str)
@pytest.mark.parametrize("name", ["mix", "mutex", "sleepers", "matmul"])
def test_the_kernel_boots_on_as_many_harts_as_there_are(name: str, shape: Shape) -> None:
    done = run(name, shape)
    assert done.exit_status == 0
    assert all(hart["instret"] > 0 for hart in done.harts)
    assert violations(done.ledger) == []


SLOW = {
    "2x3, one page in the micro-TLB": Config.of(cores=2, threads=3, tlb=Tlb(entries=1, page=256, miss=333)),
    "3x5, each line and each store on a slow bus": Config.of(
        cores=3, threads=5, l1d=Cache(write="through"), bus=Bus(line=500)
    ),
    "1x1, memory that is further away than a turn lasts": Config.of(threads=1, memory=MemoryConfig(latency=5000)),
}


@pytest.mark.parametrize("machine", SLOW)
@pytest.mark.parametrize("name", ["mix", "equal-progress"])
def test_threads_make_progress_where_beginning_a_turn_takes_the_kernel_longer_than_a_quantum(
    name: str, machine: str
) -> None:
    done = Machine(SLOW[machine]).run(program(name), max_cycles=2 * MAX_CYCLES)
    assert (done.ended, done.exit_status) == ("exit", 0)
    assert violations(done.ledger) == []
    working = [t for t in done.ledger.threads if t.pid and t.name != "main"]
    assert all((done.ledger.indices(thread).epi or 0) > 0 for thread in working)


def turns(result: Result, thread: str) -> float:
    """The mean ticks of processor time between two interrupts of the timer."""
    (row,) = (one for one in result.ledger.threads if one.name == thread)
    rpi = result.ledger.indices(row).rpi
    assert rpi is not None
    return rpi / (row.states["irq.timer"].count or 1)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_turn_is_a_quantum_of_4000_cycles_where_memory_is_not_slow(shape: Shape) -> None:
    """As long as the kernel needs less than a quarter of it; a hart that shares its core with others has longer."""
    done = run("mix", shape)
    assert 0.9 * 4000 * shape[1] < turns(done, "matmul") < 1.2 * 4000 * shape[1]


@pytest.mark.parametrize("entries", [0, 1, 2])
def test_a_micro_tlb_that_does_not_hold_all_pages_of_an_instruction_is_slow_and_no_more(entries: int) -> None:
    config = config_of("stats", (1, 3, "strict")).with_values(tlb=Tlb(entries=entries))
    done = Machine(config).run(program("stats"), max_cycles=MAX_CYCLES)
    assert done.exit_status == 0
    assert violations(done.ledger) == []


@pytest.mark.parametrize("write", ["back", "through"])
def test_a_second_level_cache_makes_a_memory_bound_thread_no_slower_in_its_progress(write: str) -> None:
    """What it changes is where the thread waits: inside the machine instead of outside, and for less long."""
    without = config_of("pointer-chase", (2, 2, "skip")).with_values(l1d=Cache(write=write))
    runs = []
    for config in (without, without.with_values(l2=L2("256KiB"))):
        done = Machine(config).run(program("pointer-chase"), max_cycles=MAX_CYCLES)
        assert done.exit_status == 0
        assert violations(done.ledger) == []
        chasing = next(thread for thread in done.ledger.threads if thread.name == "hart 1")
        runs.append(sum(cell.external_stall_cycles or 0 for cell in chasing.states.values()))
    assert runs[1] < runs[0] / 2
