"""Bursts change nothing: a machine whose harts are logged takes every turn by itself, and comes to the same.

What is logged is never taken in a burst, so the log is the switch. The machine keeps no other trace of either.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.effort import FEW
from tests.machine.examples import SHAPES, Shape, config_of, program
from tests.machine.streams import ALL, ANY, PLAIN, Kind, arithmetic, bench, jump, memory

from headway_machine._processor import STANDSTILL, MachineProcessor
from headway_machine.config import RAM, Config, TraceUnitConfig
from headway_machine.image import MachineImage

PROGRAMS = ("integer", "mix", "pointer-chase", "spin-lock", "malloc-heavy", "interrupt-storm")
SEEDS = range(12 if FEW else 60)
KINDS: tuple[tuple[Kind, ...], ...] = (PLAIN, ALL, ANY, (arithmetic, memory), (arithmetic, jump), (memory,))


def everything(processor: MachineProcessor, config: Config) -> list[object]:
    """All that can be seen of a machine."""
    return [
        (processor.now, processor.instructions, dict(processor.losses), processor.transmitted()),
        [dict(processor.hart(hart)) for hart in range(config.harts)],
        [[processor.register(hart, n) for n in range(32)] for hart in range(config.harts)],
        [(dict(processor.core(core)), processor.throttled(core)) for core in range(config.cores)],
        processor.threads(),
        processor.processors(),
        processor.read(RAM, config.memory.ram),
        processor.block_image(),
    ]


def random_machine(seed: int, kinds: Sequence[Kind], *, traced: bool, alone: bool, logged: bool) -> list[object]:
    """Run a random program in stretches, and return all that can be seen of it on the way."""
    r = random.Random(seed)
    trace = TraceUnitConfig(enabled=traced, start=r.randrange(4) > 0, sync=r.choice((64, 512, 4096)))
    values = {"cores": 1, "threads": 1} if alone else {}
    b = bench(r, kinds, trace=trace, **values)
    if logged:
        b.processor.log()
    found: list[object] = []
    for _ in range(12):
        stop = b.processor.run(b.processor.now + r.choice((1, 2, 17, 700, 5000)))
        found.append([everything(b.processor, b.config), [b.processor.trace(core) for core in range(b.config.cores)]])
        if stop == STANDSTILL:
            break
    b.processor.end_trace()
    return [found, [b.processor.trace(core) for core in range(b.config.cores)]]


@pytest.mark.parametrize("traced", [False, True], ids=["", "traced"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program_runs_the_same_in_bursts(seed: int, traced: bool) -> None:
    kinds = KINDS[seed % len(KINDS)]
    runs = [random_machine(seed, kinds, traced=traced, alone=bool(seed & 1), logged=logged) for logged in (False, True)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("shape", [*SHAPES, (3, 1, "strict")], ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_runs_the_same_in_bursts(name: str, shape: Shape) -> None:
    config = config_of(name, shape)
    config = replace(config, trace=replace(config.trace, enabled=sum(shape[:2]) == 2))
    image = MachineImage.of(program(name), name)
    seen = []
    for logged in (False, True):
        processor = MachineProcessor(config)
        for segment in image.segments:
            processor.write(segment.address, segment.data)
        processor.start(image.entry, image.tohost)
        if logged:
            processor.log()
        processor.run(150_000)
        seen.append([everything(processor, config), [processor.trace(core) for core in range(config.cores)]])
    assert seen[0] == seen[1]
