from __future__ import annotations

import pytest

from headway.model import Kind, kind_of
from headway_machine.config import Range, StatusRegister
from headway_machine.image import NumberNames
from headway_machine.states import name_states, poll_states, polled_registers

NAMES = NumberNames(
    calls={7: "sleep"}, tags={0: "malloc", 3: "parse"}, polls={1: "ring"}, waits={9: "printer", 2: "lock"}
)
RANGES = (Range("inner", end=4), Range("copy", end=4, kind="noneffective"), Range("spin", end=4, kind="poll"))


@pytest.mark.parametrize(
    ("number", "plain", "named"),
    [
        (0, "user", "user"),
        (1, "unknown.1", "user.inner"),
        (2, "unknown.2", "noneffective.copy"),
        (3, "unknown.3", "poll.spin"),
        (64, "noneffective", "noneffective.malloc"),
        (67, "noneffective.3", "noneffective.parse"),
        (96, "poll", "poll"),
        (97, "poll.1", "poll.ring"),
        (120, "poll.uart_rx", "poll.uart_rx"),
        (123, "stall.marked", "stall.marked"),
        (130, "kernel.illegal", "kernel.illegal"),
        (131, "kernel.breakpoint", "kernel.breakpoint"),
        (133, "kernel.load_fault", "kernel.load_fault"),
        (142, "kernel.exception_14", "kernel.exception_14"),
        (147, "irq.software", "irq.software"),
        (151, "irq.timer", "irq.timer"),
        (155, "irq.external", "irq.external"),
        (167, "kernel.call_7", "kernel.sleep"),
        (192, "kernel.machine", "kernel.machine"),
        (200, "idle.c1", "idle.c1"),
        (204, "idle.reset", "idle.reset"),
        (208, "stolen.smi", "stolen.smi"),
        (210, "overhead", "overhead"),
        (220, "ready", "ready"),
        (222, "wait.mutex", "wait.lock"),
        (229, "wait.9", "wait.printer"),
        (255, "unknown.255", "unknown.255"),
    ],
)
def test_a_number_has_its_name(number: int, plain: str, named: str) -> None:
    assert name_states(NumberNames())[number] == plain
    assert name_states(NAMES, RANGES)[number] == named


POLLS = tuple(
    StatusRegister(name=name, address=0x0C00_0004 + 4 * place)
    for place, name in enumerate(["disk", "net", "", "disk", "clock", "a", "b", "c"])
)


def test_status_registers_have_the_states_of_their_names() -> None:
    assert poll_states(POLLS) == [120, 121, 122, 120, 124, 125, 126, 127]
    names = name_states(NAMES, RANGES, POLLS)
    assert [names[number] for number in (120, 121, 122, 123, 124, 127)] == [
        *("poll.disk", "poll.net", "poll.0xc00000c", "stall.marked", "poll.clock", "poll.c"),
    ]
    assert name_states(NAMES, RANGES, ())[120] == "unknown.120"
    assert polled_registers(POLLS)[120] == "status registers 0x0c000004, 0x0c000010"
    assert polled_registers(POLLS)[121] == "status register 0x0c000008"


def test_every_number_has_the_kind_of_its_range() -> None:
    kinds = {number: kind_of(name) for number, name in name_states(NAMES, RANGES).items()}
    assert len(kinds) == 256
    expected = {
        Kind.EFFECTIVE: {0, 1},
        Kind.KERNEL: {2, *range(64, 96), *range(128, 193)},
        Kind.POLL: {3, *range(96, 123)},
        Kind.STALL: {123},
        Kind.WAIT: {*range(200, 206), *range(221, 251)},
        Kind.STOLEN: {208},
        Kind.OVERHEAD: {210},
        Kind.READY: {220},
    }
    for kind, numbers in expected.items():
        assert {number for number, found in kinds.items() if found is kind} == numbers
