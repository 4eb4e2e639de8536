"""What the guest's thread blocks say at the end is what the run's ledger says, to the cycle."""

from __future__ import annotations

import struct

import pytest
from tests.machine.examples import MAX_CYCLES, Shape, config_of, program

from headway.model import Ledger, Thread
from headway_machine import _processor
from headway_machine.config import RAM
from headway_machine.console import Console
from headway_machine.host import Host
from headway_machine.image import MachineImage
from headway_machine.ledger import ledger_of
from headway_machine.states import name_states

EPC, MPCI, MPCX, KPC, IOPC, RPC, SPC, OPC = range(8)
SHAPES: tuple[Shape, ...] = ((1, 1, "strict"), (1, 6, "strict"), (1, 3, "skip"), (2, 2, "skip"))


def run(name: str, shape: Shape) -> tuple[Ledger, bytes]:
    """The ledger of a run, and the RAM at its end."""
    config, image = config_of(name, shape), MachineImage.of(program(name))
    processor = _processor.MachineProcessor(config)
    for segment in image.segments:
        processor.write(segment.address, segment.data)
    host = Host(processor, Console())
    processor.start(image.entry, image.tohost)
    assert image.tohost is not None
    while host.exit_status is None:
        assert processor.run(MAX_CYCLES) == _processor.HTIF
        host.htif(image.tohost, image.fromhost)
    assert host.exit_status == 0
    ledger = ledger_of(
        processor.threads(),
        processor.processors(),
        until=processor.now,
        names=name_states(image.names),
        losses=processor.losses,
    )
    return ledger, processor.read(RAM, config.memory.ram)


def block_of(thread: Thread, memory: bytes) -> tuple[int, ...]:
    """The eight counters of a thread's block, found by its id and its name."""
    number = struct.pack("<I", thread.tid)
    mark, at = thread.name.encode() + b"\0", -1
    while (at := memory.find(mark, at + 1)) >= 0:
        if at % 8 == 0 and memory[at - 16 : at - 12] == number:
            return struct.unpack("<8Q", memory[at - 80 : at - 16])
    raise AssertionError(f"no block of {thread.name}")


def counted(ledger: Ledger, thread: Thread) -> tuple[int, ...]:
    """The same counters by the model's projection of the ledger."""
    indices, amounts = ledger.indices(thread), ledger.amounts(thread)
    overhead = thread.states.get("overhead")
    internal = (indices.mpi or 0) - (amounts.external or 0)
    loss = (indices.rpi or 0) - sum(x or 0 for x in (indices.epi, indices.mpi, indices.kpi, indices.iopi))
    found = (indices.epi, internal, amounts.external, indices.kpi, indices.iopi, indices.rpi)
    return (*(value or 0 for value in found), loss, overhead.cycles or 0 if overhead else 0)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["mix", "six-threads", "region", "malloc-heavy", "mutex", "uart-interrupt", "stats"])
def test_the_blocks_say_what_the_ledger_says(name: str, shape: Shape) -> None:
    ledger, memory = run(name, shape)
    ended = [thread for thread in ledger.threads if thread.pid and thread.end is not None]
    assert ended
    for thread in ended:
        assert block_of(thread, memory) == counted(ledger, thread)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_all_of_a_threads_time_is_in_one_counter(shape: Shape) -> None:
    """RPC is the sum of the others, in every block, and what corrections took out is in neither."""
    ledger, memory = run("region", shape)
    for thread in ledger.threads:
        if thread.pid and thread.end is not None:
            block = block_of(thread, memory)
            assert block[RPC] == sum(block[at] for at in (EPC, MPCI, MPCX, KPC, IOPC, SPC))
            assert block[OPC] > 0
