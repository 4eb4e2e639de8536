"""The speed of the reference machine's simulation in millions of instructions a second, beside QEMU and Unicorn.

Every hart runs one loop of ten instructions (a load, a multiplication, a store, six of arithmetic, a branch) in a 1 KiB
array, on machines of several shapes, with everything counted. The other simulators, used if installed, have no timing
model: QEMU translates whole blocks, or with ``-singlestep`` one instruction at a time, and Unicorn calls a C function
before every instruction. QEMU's start-up time is measured with a short run and subtracted.
"""

from __future__ import annotations

import ctypes
import importlib
import shutil
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway.machine._processor import MachineProcessor
from headway.machine.config import Config

from .common import compiled, heading, load, table

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
        before, start = processor.instructions, time.perf_counter()
        processor.run(10_000 + TICKS // cores)
        speeds.append((processor.instructions - before) / (time.perf_counter() - start) / 1e6)
    return statistics.median(speeds)


def _process(command: list[str], program: Callable[[int], bytes]) -> float:
    """Return the millions of instructions a second of a simulator that is a process, without its start-up time."""
    iterations = 1 << 24

    def seconds(count: int) -> float:
        with tempfile.NamedTemporaryFile(suffix=".elf") as file:
            file.write(program(count))
            file.flush()
            Path(file.name).chmod(0o755)
            start = time.perf_counter()
            subprocess.run(
                [*command, file.name], check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=300
            )
            return time.perf_counter() - start

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
        start = time.perf_counter()
        engine.emu_start(BASE, BASE + 4 * len(LOOP))
        return 10 * iterations / (time.perf_counter() - start) / 1e6

    with compiled("hook", shared=True) as path:
        hook = ctypes.cast(ctypes.CDLL(str(path)).headway_count, ctypes.c_void_p).value
        return [
            ("Unicorn", statistics.median(once(None) for _ in range(ROUNDS))),
            ("Unicorn, a C function an instruction", statistics.median(once(hook) for _ in range(ROUNDS))),
        ]


def main() -> None:
    """Print the tables."""
    print(f"\n## The reference machine\n\n{heading()}, {load()}; medians of {ROUNDS}\n")
    rows = [
        [f"{cores} × {threads}", f"{_speed(cores, threads, 'strict'):.0f}", f"{_speed(cores, threads, 'skip'):.0f}"]
        for cores, threads in SHAPES
    ]
    print(table(["cores × threads", "strict", "skip"], rows), flush=True)
    peers = [[name, f"{speed:.0f}"] for name, speed in (*_qemu(), *_unicorn())]
    if peers:
        print("\n" + table(["without a timing model", "MIPS"], peers), flush=True)


if __name__ == "__main__":
    main()
