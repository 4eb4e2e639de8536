"""The speed of the reference machine's simulation in millions of instructions a second, beside QEMU and Unicorn.

    python -m benchmarks.machine [--embench FOLDER]

Real code first: programs that come with the machine and run on all of its harts, and with ``--embench`` those of
Embench (a folder with a copy of github.com/embench/embench-iot), which need a RISC-V gcc and picolibc. Each of these
runs alone on 1 x 1, traced and not. On larger machines every hart runs one of them, from a place of its own.

Then one loop of ten instructions (a load, a multiplication, a store, six of arithmetic, a branch) in a 1 KiB array, on
machines of several shapes, with everything counted. It is faster than real code: it never leaves a cache line or page.

The other simulators, used if installed, have no timing model: QEMU translates whole blocks, or with ``-singlestep`` one
instruction at a time, and Unicorn calls a C function before every instruction. QEMU's start-up time is measured with a
short run and subtracted. All of it is processor time, so that what else runs on the computer counts little.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from headway_machine._processor import HTIF, SEMIHOST, MachineProcessor
from headway_machine.building import find_compiler
from headway_machine.config import Config, MemoryConfig
from headway_machine.image import MachineImage
from headway_machine.programs import programs

from .common import compiled, heading, load, table
from .semihosting import answered

ROUNDS = 5
BASE = 0x80000000
SHAPES = ((1, 1), (1, 2), (1, 6), (2, 6), (4, 6), (4, 8), (8, 8), (16, 8))
TICKS = 12_000_000
"""The approximate number of instructions that each shape runs."""

LOOP = (
    0x80001437,  # lui  s0, 0x80001
    0x00000013,  # lui  s1, iterations >> 12
    0x001969B7,  # lui  s3, 0x196
    0x60D98993,  # addi s3, s3, 1549
    0x00000E13,  # li   t3, 0
    0x00040913,  # mv   s2, s0
    0x00092283,  # loop: lw t0, 0(s2)
    0x03328333,  # mul  t1, t0, s3
    0x3F530393,  # addi t2, t1, 1013
    0x0053CA33,  # xor  s4, t2, t0
    0x01492023,  # sw   s4, 0(s2)
    0x004E0E13,  # addi t3, t3, 4
    0x3FCE7E13,  # andi t3, t3, 1020
    0x01C40933,  # add  s2, s0, t3
    0xFFF48493,  # addi s1, s1, -1
    0xFC049EE3,  # bnez s1, loop
)
SYSTEM_END = (0x001002B7, 0x00005337, 0x55530313, 0x0062A023, 0x0000006F)
"""Instructions that write 0x5555 to 0x100000, which ends QEMU's `virt` machine."""
USER_END = (0x00000513, 0x05D00893, 0x00000073)
"""Instructions that call exit(0)."""


PROGRAMS = ("matmul", "crc32", "pointer-chase")
"""Programs that come with the machine and run on all of its harts."""
REAL_SHAPES = ((1, 1), (1, 6), (2, 6), (8, 8))
REAL_TICKS = 3_000_000
"""Ticks for which real code runs, divided by the cores."""
CHUNK = 1 << 19
PLACE = 2 << 20
"""Bytes of RAM that each program of Embench has where several run at once."""
SCALE = 4
"""How often a program of Embench does its work, so that the start is a small part."""
START = (
    0xF1402573,  # csrr a0, mhartid
    0x00251293,  # slli t0, a0, 2
    0x80001337,  # lui  t1, 0x80001
    0x00628333,  # add  t1, t0, t1
    0x00032303,  # lw   t1, 0(t1)
    0x00030067,  # jr   t1
)
"""Instructions that jump to an address from a table at BASE + 4096, by the hart's number."""


def _program(iterations: int, end: tuple[int, ...] = ()) -> bytes:
    words = list(LOOP)
    words[1] = (iterations >> 12) << 12 | 0x4B7
    return struct.pack(f"<{len(words) + len(end)}I", *words, *end)


def _elf(code: bytes) -> bytes:
    """Return an ELF file with one segment of two pages from BASE on."""
    head = struct.pack("<16s2H5I6H", b"\x7fELF\1\1\1", 2, 243, 1, BASE, 52, 0, 0, 52, 32, 1, 40, 0, 0) + struct.pack(
        "<8I", 1, 0x1000, BASE, BASE, len(code), 0x2000, 7, 0x1000
    )
    return head.ljust(0x1000, b"\0") + code


def _speed(cores: int, threads: int, issue: str) -> float:
    """Return the millions of instructions a second of all harts together."""
    config = Config.of(cores=cores, threads=threads, issue=issue, boot="all")
    speeds = []
    for _ in range(ROUNDS):
        processor = MachineProcessor(config)
        processor.write(BASE, _program(1 << 30))
        processor.start(BASE, None)
        processor.run(10_000)
        before, start = processor.instructions, time.process_time()
        processor.run(10_000 + TICKS // cores)
        speeds.append((processor.instructions - before) / (time.process_time() - start) / 1e6)
    return statistics.median(speeds)


def _rate(config: Config, images: Iterable[MachineImage], entry: int, ticks: int) -> float:
    """Return the millions of instructions a second of all harts together, up to a tick or a program's end."""
    speeds = []
    for _ in range(ROUNDS):
        processor = MachineProcessor(config)
        for image in images:
            for segment in image.segments:
                processor.write(segment.address, segment.data)
        processor.start(entry, None)
        seconds, goes_on = 0.0, True
        while processor.now < ticks and goes_on:
            start = time.process_time()
            stop = processor.run(min(ticks, processor.now + CHUNK))
            seconds += time.process_time() - start
            goes_on = stop != HTIF and (stop != SEMIHOST or answered(processor))
            for core in range(config.cores if config.trace.enabled else 0):
                processor.trace(core)
        speeds.append(processor.instructions / seconds / 1e6)
    return statistics.median(speeds)


def _traced(config: Config) -> Config:
    return replace(config, trace=replace(config.trace, enabled=True))


def _shipped() -> list[list[str]]:
    """Return the rows of the programs that come with the machine: geometric means."""
    rows = []
    for cores, threads in REAL_SHAPES:
        row = [f"{cores} × {threads}"]
        for issue in ("strict", "skip"):
            config = Config.of(cores=cores, threads=threads, issue=issue)
            for chosen in (config, _traced(config)):
                images = [programs()[name].image() for name in PROGRAMS]
                speeds = [_rate(chosen, [image], image.entry, REAL_TICKS // cores) for image in images]
                row.append(f"{statistics.geometric_mean(speeds):.0f}")
        rows.append(row)
    return rows


class _Embench:
    """Embench's programs, compiled once and linked to where they run."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self._scratch, self._compiler = scratch, find_compiler().path
        board = scratch / "board.c"
        board.write_text("void initialise_board(void) {}\nvoid start_trigger(void) {}\nvoid stop_trigger(void) {}\n")
        support = [folder / "support" / "main.c", folder / "support" / "beebsc.c", board]
        flags = ["-c", "-O2", "-w", f"-I{folder / 'support'}", "-DWARMUP_HEAT=1", f"-DGLOBAL_SCALE_FACTOR={SCALE}"]
        self.objects: dict[str, list[Path]] = {}
        for source in sorted((folder / "src").iterdir()):
            files = sorted(source.glob("*.c"))
            if files:
                self.objects[source.name] = []
                for file in (*files, *support):
                    target = scratch / f"{source.name}-{file.stem}.o"
                    self._gcc([*flags, file, "-o", target])
                    self.objects[source.name].append(target)

    def _gcc(self, arguments: Sequence[str | Path]) -> None:
        target = ["--specs=picolibc.specs", "-march=rv32imac", "-mabi=ilp32"]
        subprocess.run([self._compiler, *target, *map(str, arguments)], check=True)

    def elf(self, name: str, base: int = BASE) -> Path:
        """Return a program that is linked to run at an address."""
        path = self._scratch / f"{name}-{base:x}.elf"
        places = {"flash": base, "flash_size": PLACE // 2, "ram": base + PLACE // 2, "ram_size": PLACE // 2}
        linked = [f"-Wl,--defsym=__{word}={value:#x}" for word, value in places.items()]
        self._gcc([*self.objects[name], "--oslib=semihost", "--crt0=semihost", "-lm", *linked, "-o", path])
        return path


def _embench(folder: Path) -> None:
    """Print the tables of Embench."""
    with tempfile.TemporaryDirectory() as scratch:
        embench = _Embench(folder, Path(scratch))
        names = list(embench.objects)
        one = Config.of(cores=1, threads=1)
        qemu = shutil.which("qemu-system-riscv32")
        columns: dict[str, list[float]] = {"1 × 1": [], "traced": []}
        if qemu:
            columns["QEMU -singlestep"] = []
        rows = []
        short = 0.0 if qemu is None else min(_semihosted(qemu, "") for _ in range(ROUNDS))
        for name in names:
            path = embench.elf(name)
            image = MachineImage.load(path)
            speeds = [_rate(config, [image], image.entry, REAL_TICKS) for config in (one, _traced(one))]
            if qemu:
                processor = MachineProcessor(one)
                for segment in image.segments:
                    processor.write(segment.address, segment.data)
                processor.start(image.entry, None)
                while processor.run(processor.now + (1 << 24)) != SEMIHOST or answered(processor):
                    pass
                speeds.append(processor.instructions / max(_semihosted(qemu, str(path)) - short, 1e-3) / 1e6)
            for column, speed in zip(columns.values(), speeds, strict=True):
                column.append(speed)
            rows.append([name, *(f"{speed:.0f}" for speed in speeds)])
        rows.append(["geometric mean", *(f"{statistics.geometric_mean(all_):.0f}" for all_ in columns.values())])
        print("\n" + table(["Embench, alone", *columns], rows), flush=True)
        rows = []
        for cores, threads in REAL_SHAPES[1:]:
            harts = cores * threads
            bases = [BASE + PLACE * (1 + hart) for hart in range(harts)]
            images = [MachineImage.load(embench.elf(names[hart % len(names)], base)) for hart, base in enumerate(bases)]
            entries = struct.pack(f"<{harts}I", *(image.entry for image in images))
            start = MachineImage.of(_elf(struct.pack(f"<{len(START)}I", *START).ljust(4096, b"\0") + entries))
            row = [f"{cores} × {threads}"]
            for issue in ("strict", "skip"):
                memory = MemoryConfig(ram=f"{1 << (PLACE * (harts + 1) - 1).bit_length() >> 20}MiB")
                config = Config.of(cores=cores, threads=threads, issue=issue, boot="all", memory=memory)
                for chosen in (config, _traced(config)):
                    row.append(f"{_rate(chosen, [start, *images], BASE, REAL_TICKS // cores):.0f}")
            rows.append(row)
        print("\n" + table(["Embench, one a hart", "strict", "traced", "skip", "traced"], rows), flush=True)


def _taken(before: os.times_result) -> float:
    """Return the processor time in seconds of the processes that have ended since."""
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _semihosted(qemu: str, path: str) -> float:
    """Return the processor time in seconds that QEMU takes for a program; "": one that ends at once."""
    with tempfile.NamedTemporaryFile(suffix=".elf") as file:
        if not path:
            file.write(_elf(struct.pack("<5I", *SYSTEM_END)))
            file.flush()
        command = [qemu, "-singlestep", "-machine", "virt", "-bios", "none", "-display", "none"]
        before = os.times()
        subprocess.run(
            [*command, "-semihosting-config", "enable=on,target=native", "-kernel", path or file.name],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False,
        )  # fmt: skip
        return _taken(before)


def _process(command: list[str], program: Callable[[int], bytes]) -> float:
    """Return the millions of instructions a second of a simulator that is a process, without its start-up time."""
    iterations = 1 << 24

    def seconds(count: int) -> float:
        with tempfile.NamedTemporaryFile(suffix=".elf") as file:
            file.write(program(count))
            file.flush()
            Path(file.name).chmod(0o755)
            before = os.times()
            subprocess.run(
                [*command, file.name], check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=300
            )
            return _taken(before)

    return statistics.median(
        10 * (iterations - 4096) / (seconds(iterations) - seconds(4096)) / 1e6 for _ in range(ROUNDS)
    )


def _qemu() -> list[tuple[str, float]]:
    found = []
    system, user = shutil.which("qemu-system-riscv32"), shutil.which("qemu-riscv32")
    if system:
        base = [system, "-machine", "virt", "-bios", "none", "-display", "none", "-kernel"]
        for name, more in (("", []), (" -icount shift=0", ["-icount", "shift=0"]), (" -singlestep", ["-singlestep"])):
            command = [system, *more, *base[1:]]
            found.append((f"qemu-system-riscv32{name}", _process(command, lambda n: _elf(_program(n, SYSTEM_END)))))
    if user:
        found.append(("qemu-riscv32", _process([user], lambda n: _elf(_program(n, USER_END)))))
        found.append(
            ("qemu-riscv32 -singlestep", _process([user, "-singlestep"], lambda n: _elf(_program(n, USER_END))))
        )
    return found


def _unicorn() -> list[tuple[str, float]]:
    try:
        unicorn: Any = importlib.import_module("unicorn")
    except ImportError:
        return []
    library = ctypes.CDLL(str(next(Path(unicorn.__file__).parent.rglob("libunicorn.so*"))))
    iterations = 1 << 20

    def once(hook: int | None) -> float:
        engine = unicorn.Uc(unicorn.UC_ARCH_RISCV, unicorn.UC_MODE_RISCV32)
        engine.mem_map(BASE, 0x2000)
        engine.mem_write(BASE, _program(iterations))
        if hook is not None:
            kind, begin, end = ctypes.c_int(unicorn.UC_HOOK_CODE), ctypes.c_uint64(1), ctypes.c_uint64(0)
            made = ctypes.c_size_t()
            if library.uc_hook_add(engine._uch, ctypes.byref(made), kind, ctypes.c_void_p(hook), None, begin, end):
                raise SystemExit("unicorn does not take the hook")
        start = time.process_time()
        engine.emu_start(BASE, BASE + 4 * len(LOOP))
        return 10 * iterations / (time.process_time() - start) / 1e6

    with compiled("hook", shared=True) as path:
        hook = ctypes.cast(ctypes.CDLL(str(path)).headway_count, ctypes.c_void_p).value
        return [
            ("Unicorn", statistics.median(once(None) for _ in range(ROUNDS))),
            ("Unicorn, a C function an instruction", statistics.median(once(hook) for _ in range(ROUNDS))),
        ]


def main(arguments: Sequence[str] = ()) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.machine", description="The machine's speed.")
    parser.add_argument("--embench", type=Path, metavar="FOLDER", help="a copy of github.com/embench/embench-iot")
    given = parser.parse_args(arguments)
    print(f"\n## The reference machine\n\n{heading()}, {load()}; medians of {ROUNDS}\n")
    if given.embench:
        _embench(given.embench)
    print("\n" + table([", ".join(PROGRAMS), "strict", "traced", "skip", "traced"], _shipped()) + "\n", flush=True)
    rows = [
        [f"{cores} × {threads}", f"{_speed(cores, threads, 'strict'):.0f}", f"{_speed(cores, threads, 'skip'):.0f}"]
        for cores, threads in SHAPES
    ]
    print(table(["cores × threads", "strict", "skip"], rows), flush=True)
    peers = [[name, f"{speed:.0f}"] for name, speed in (*_qemu(), *_unicorn())]
    if peers:
        print("\n" + table(["without a timing model", "MIPS"], peers), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
