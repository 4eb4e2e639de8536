from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from headway.model import Behind, Cause, violations
from headway_machine.config import STATUS_REGISTERS, Range
from headway_machine.image import NumberNames
from headway_machine.ledger import EVENTS, RawCell, RawThread, ledger_of
from headway_machine.states import name_states, polled_registers

UNTIL = 10_000
NAMES = name_states(NumberNames(tags={1: "copy"}), [Range("copy", end=4, kind="noneffective")])


@st.composite
def cells(draw: st.DrawFn, span: int) -> list[RawCell]:
    """Cells whose times add up to the span."""
    cuts = sorted(draw(st.lists(st.integers(0, span), max_size=5)))
    times = [b - a for a, b in pairwise([0, *cuts, span])]
    numbers = draw(st.lists(st.integers(0, 255), min_size=len(times), max_size=len(times), unique=True))
    found: list[RawCell] = []
    for number, time in zip(numbers, times, strict=True):
        lost = tuple(draw(st.lists(st.integers(0, time // 7), min_size=7, max_size=7)))
        memory = sum(lost[3:])
        external = draw(st.integers(0, memory))
        found.append((number, time, time, time // 2, 1, sum(lost), memory, external, lost))
    return found


@st.composite
def raw_threads(draw: st.DrawFn) -> RawThread:
    birth = draw(st.sampled_from([0, 5, 9_999, UNTIL]))
    end = draw(st.just(-1) | st.integers(birth, UNTIL))
    span = (UNTIL if end < 0 else end) - birth
    number = draw(st.sampled_from([0, 1, 2, 999, 1000, 2**32 - 1]))
    return (number, draw(st.binary(max_size=31)), birth, end, draw(st.booleans()), draw(cells(span)))


@given(st.lists(raw_threads(), max_size=8), st.lists(cells(UNTIL), max_size=4))
def test_every_run_becomes_a_ledger_that_keeps_the_laws(raw: list[RawThread], harts: list[list[RawCell]]) -> None:
    ledger = ledger_of(raw, enumerate(harts), until=UNTIL, names=NAMES, losses={"uart_overruns": 0})
    assert violations(ledger) == []
    assert len(ledger.threads) == len(raw) == len({thread.key for thread in ledger.threads})
    assert sum(t.span for t in ledger.threads) == sum(cell[1] for thread in raw for cell in thread[5])
    assert {e for t in ledger.threads for c in t.states.values() for e in c.events or {}} <= set(EVENTS)
    for thread in ledger.threads:
        indices = ledger.indices(thread)
        assert indices.rpi is not None
        assert indices.mpi_external is not None
        assert indices.mpi is not None
        assert 0 <= indices.mpi_external <= indices.mpi <= indices.rpi


def test_what_the_poll_latch_saw_is_the_cause_of_polling() -> None:
    """A region that the program marks by the same name is not the latch's."""
    names = name_states(NumberNames(polls={1: "block"}))
    marked, latched = (97, 4, 4, 2, 1, 0, 0, 0, (0,) * 7), (122, 6, 6, 3, 2, 0, 0, 0, (0,) * 7)
    raw: RawThread = (1, b"t", 0, 10, False, [marked, latched])
    ledger = ledger_of([raw], [], until=10, names=names, losses={}, polled=polled_registers(STATUS_REGISTERS))
    (thread,) = ledger.threads
    assert thread.states["poll.block"].time == 10
    assert thread.causes == (Cause("poll.block", Behind.OBJECT, "status register 0x10010010", 6, 2),)
    assert violations(ledger) == []


def test_the_kernel_and_a_range_may_share_a_name() -> None:
    tag, by_range = (65, 4, 4, 2, 1, 0, 0, 0, (0,) * 7), (1, 6, 6, 3, 2, 0, 0, 0, (0,) * 7)
    ledger = ledger_of([(1, b"t", 0, 10, False, [tag, by_range])], [], until=10, names=NAMES, losses={})
    (thread,) = ledger.threads
    cell = thread.states["noneffective.copy"]
    assert (cell.time, cell.count, cell.instructions) == (10, 3, 5)


def test_harts_do_not_take_threads_ids() -> None:
    raw: list[RawThread] = [
        (3, b"", 0, -1, True, [(0, 10, 10, 1, 1, 0, 0, 0, (0,) * 7)]),
        (3, b"a", 0, -1, False, [(0, 10, 10, 1, 1, 0, 0, 0, (0,) * 7)]),
        (1003, b"b", 0, -1, False, [(0, 10, 10, 1, 1, 0, 0, 0, (0,) * 7)]),
    ]
    ledger = ledger_of(raw, [], until=10, names=NAMES, losses={})
    assert [(t.tid, t.pid, t.name) for t in ledger.threads] == [(3, 1, "a"), (1003, 1, "b"), (2003, 0, "hart 3")]
