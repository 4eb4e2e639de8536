"""Triggers, the sequencer, what it does, and profiling windows: from the configuration, and from a program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine.elves import RAM, addi, bne, csrw, jump, li, lw, sw
from tests.machine.examples import config_of
from tests.machine.examples import program as example
from tests.machine.programs import DATA, leave, program
from tests.trace.threads.runs import Run, run, strayed, untrue

from headway_machine.config import Action, Config, SequencerMove, TraceUnitConfig, Trigger
from headway_machine.image import MachineImage

SELECT, VALUE = 0x7D8, 0x7D9
STORE = RAM + 4 * 4
"""The address of the loop's store."""


def loop(times: int) -> bytes:
    """Stores times, times - 1 … 1 into the first word of the data."""
    body = (sw(5, 6), lw(7, 6), addi(5, 5, -1), bne(5, 0, -12))
    return program(li(6, DATA + 0x100), li(5, times), *body, jump(0))


def traced(elf: bytes, cycles: int = 3000, **trace: Any) -> Run:
    return run(Config.of(threads=1, trace=TraceUnitConfig(enabled=True, **trace)), MachineImage.of(elf), cycles)


def executed(ran: Run) -> list[int]:
    """Addresses that are known to have been executed, in order."""
    rows, decoder = ran.decode(0)
    assert decoder.contradictions == 0
    for hart, stretches in ran.stretches(0, rows).items():
        assert untrue(stretches, ran.log[hart]) == []
    return [row[3] for row in rows if row[5] in (16, 17)]


def ran_at(ran: Run, address: int) -> int:
    """The instruction there."""
    (data,) = (part[address - start :][:4] for start, part in ran.program if address - start in range(len(part)))
    return int.from_bytes(data, "little")


def sequence(trigger: Trigger, **values: Any) -> dict[str, Any]:
    """Enter state 1 when it fires."""
    return {"triggers": (trigger,), "moves": (SequencerMove(0, 1, 1),), **values}


@given(count=st.integers(1, 30))
@settings(max_examples=15, deadline=None)
def test_tracing_begins_when_an_instruction_was_executed_so_often(count: int) -> None:
    found = executed(traced(loop(30), **sequence(Trigger(first=STORE, count=count), states=0b110)))
    assert found.count(STORE) == 30 - count
    assert found[0] == STORE + 4


@pytest.mark.parametrize("watch", ["store", "access"])
def test_a_trigger_compares_addresses_and_data(watch: str) -> None:
    trigger = Trigger(watch=watch, first=DATA + 0x100, mask=0xFF, value=11)
    assert executed(traced(loop(30), **sequence(trigger, states=0b110))).count(STORE) == 10


def test_a_load_is_compared_by_what_it_brought() -> None:
    trigger = Trigger(watch="load", first=DATA, second=DATA + 0x1000, range=True, mask=0xFFFF_FFFF, value=11)
    found = executed(traced(loop(30), **sequence(trigger, states=0b110)))
    assert (found[0], found.count(STORE)) == (STORE + 8, 10)


def test_a_trigger_that_looks_elsewhere_does_not_fire() -> None:
    for trigger in (
        Trigger(first=STORE, states=0b110),
        Trigger(first=STORE, harts=0),
        Trigger(watch="load", first=STORE),
        Trigger(watch="store", first=DATA + 0x100, mask=1 << 20, value=1 << 20),
    ):
        assert executed(traced(loop(30), **sequence(trigger, states=0b110))) == []


def test_two_moves_of_the_sequencer_at_once_move_nothing() -> None:
    triggers = (Trigger(first=STORE), Trigger(first=STORE))
    moves = (SequencerMove(0, 1, 1), SequencerMove(0, 2, 2))
    assert executed(traced(loop(30), triggers=triggers, moves=moves, states=0b110)) == []
    assert executed(traced(loop(30), triggers=triggers, moves=moves[:1], states=0b110)) != []


def test_a_marker_ends_what_the_trace_buffer_takes() -> None:
    trigger = Trigger(first=RAM, range=True, second=RAM + 4096, count=9000)
    trace = TraceUnitConfig(
        enabled=True, buffer=256, after=64, sync=128, **sequence(trigger, actions=(Action(1, mark=True),))
    )
    ran = run(replace(config_of("sort", (1, 1, "strict")), trace=trace), MachineImage.of(example("sort")), 50_000)
    rows, decoder = ran.decode(0)
    assert decoder.triggers == 1
    before = [row for row in rows if row[1] is not None and row[5] in (16, 17)]
    assert before
    assert before[-1][1] is not None
    last = next(cycle for cycle, _, _, what in reversed(ran.log[0]) if what in (16, 17))
    assert before[-1][1] < last
    for hart, stretches in ran.stretches(0, rows).items():
        assert untrue(stretches, ran.log[hart]) == []


def test_a_breakpoint_is_taken_before_the_next_instruction() -> None:
    ran = traced(loop(30), **sequence(Trigger(first=STORE, count=3), actions=(Action(1, stop=True),)))
    traps = [address for _, _, address, what in ran.log[0] if what == 18]
    assert traps[0] == STORE + 4
    executed(ran)


def test_a_program_sets_triggers_itself() -> None:
    def put(register: int, value: int) -> tuple[Any, ...]:
        return (li(8, register), csrw(SELECT, 8), li(8, value), csrw(VALUE, 8))

    trigger = Trigger(first=RAM + 4 * (24 * 6 + 4 + 4)).registers()
    setup = [put(number, value) for number, value in (*enumerate(trigger[:3]), (5, 2), (32, 1), (41, 0b110))]
    body = (sw(5, 6), lw(7, 6), addi(5, 5, -1), bne(5, 0, -12))
    flat: list[Any] = [word for part in setup for word in part]
    size = len(b"".join(bytes(4) for word in flat for _ in (word if isinstance(word, tuple) else (word,))))
    first = RAM + size + 16
    setup[1] = put(1, first)
    flat = [word for part in setup for word in part]
    ran = traced(program(*flat, li(6, DATA + 0x100), li(5, 10), *body, jump(0)), states=0b111)
    found = executed(ran)
    assert found.count(first) == 8


def stalls_before(ran: Run, end: int) -> dict[int, int]:
    """Cycles of each stall that was over by then, of all harts."""
    found = dict.fromkeys(range(19), 0)
    for log in ran.log.values():
        for cycle, cycles, _, what in log:
            if cycle + cycles <= end:
                found[what] += cycles
    return found


@given(
    window=st.integers(50, 70_000),
    cycles=st.integers(1, 60_000),
    threads=st.sampled_from([1, 3]),
    port=st.sampled_from([0, 8]),
)
@settings(max_examples=15, deadline=None)
def test_windows_of_the_profile_have_all_stalls(window: int, cycles: int, threads: int, port: int) -> None:
    trace = TraceUnitConfig(enabled=True, window=window, port=port)
    ran = run(Config.of(threads=threads, trace=trace), MachineImage.of(example("pointer-chase")), cycles)
    _, decoder = ran.decode(0)
    windows = decoder.profile()
    stalls = stalls_before(ran, cycles)
    assert all(end % window == 0 for end, *_ in windows[:-1])
    assert all(end <= cycles for end, *_ in windows)
    assert sum(one[6] for one in windows) == sum(stalls[code] for code in range(1, 12))
    assert sum(one[2] for one in windows) == sum(stalls[code] for code in (6, 7, 9, 10))
    assert sum(one[4] for one in windows) == stalls[4] + stalls[5]


def test_a_window_that_a_program_cuts_short_is_sent() -> None:
    def body(times: int) -> tuple[Any, ...]:
        return (li(6, DATA + 0x100), li(5, times), sw(5, 6), lw(7, 6), addi(5, 5, -1), bne(5, 0, -12))

    stop = (li(8, 44), csrw(SELECT, 8), csrw(VALUE, 0))
    ran = traced(program(*body(40), *stop, *body(40), jump(0)), 3000, window=100_000)
    ((end, *_, stalled),) = ran.decode(0)[1].profile()
    (wrote,) = (
        cycle for cycle, _, address, what in ran.log[0] if what == 16 and ran_at(ran, address) == csrw(VALUE, 0)
    )
    assert end == wrote + 1
    assert stalled == sum(stalls_before(ran, end)[code] for code in range(1, 12)) > 0


def test_the_profile_counts_only_chosen_harts_and_states() -> None:
    for chosen in ({"counted": 0}, {"profiled": 0b110}):
        _, decoder = traced(example("pointer-chase"), 60_000, window=1000, **chosen).decode(0)
        assert decoder.profile() == []


def test_a_configuration_with_triggers_reads_back() -> None:
    trace = TraceUnitConfig(
        enabled=True,
        triggers=(Trigger(first=STORE, watch="access", count=3),),
        moves=(SequencerMove(0, 2, 1), SequencerMove(2, 0, 8)),
        actions=(Action(2, mark=True, reload=True),),
    )
    config = Config(trace=trace)
    assert Config.from_text(config.to_toml()) == config


def test_code_that_changes_itself_is_not_guessed() -> None:
    nop = addi(0, 0, 0)
    change = (li(5, RAM + 4 * 6), li(6, addi(0, 0, 1)), sw(6, 5), 0x0000_100F, nop)
    ran = traced(program(*change, *leave(0)), 2000)
    rows, _ = ran.decode(0)
    assert any(row[5] == 38 for row in rows)
    for hart, stretches in ran.stretches(0, rows).items():
        assert untrue(stretches, ran.log[hart]) == []
    assert max(row[3] for row in rows if row[5] == 16) == RAM + 4 * 5


def test_a_return_from_a_call_that_was_not_seen_is_not_guessed() -> None:
    called, returns, nop = jump(12) | 1 << 7, 0x8067, addi(0, 0, 0)
    change = (li(5, RAM + 4 * 8), li(6, called), sw(6, 5), 0x0000_100F, li(7, RAM + 4 * 12))
    # Where the first nop was there is a call now, to an indirect jump, which goes to the return.
    ran = traced(program(*change, nop, addi(9, 9, 1), jump(16), 7 << 15 | 0x67, returns, nop, *leave(0)), 2000)
    rows, decoder = ran.decode(0)
    assert [row[3] for row in rows if row[3] >= RAM + 4 * 8 and row[5] == 16] == [RAM + 4 * 12]
    assert strayed(rows, 0, ran.log[0]) == []
    assert decoder.contradictions == 0
