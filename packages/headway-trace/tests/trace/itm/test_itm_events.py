"""What a program and its processor told, and when: exactly where the trace says so, else within bounds."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from tests.trace.itm import encoding as itm

from headway_trace.itm.events import Event, Happening, events_of
from headway_trace.itm.exceptions import exception_name
from headway_trace.itm.moment import change_stack
from headway_trace.itm.packets import Parser
from headway_trace.itm.text import lines_of
from headway_trace.records import Timestamp, Why

SEEDS = st.integers(0, 2**32)
A, B = itm.source(0, b"a"), itm.source(0, b"b")


def records(data: bytes, *, synchronises: bool = True) -> list[Event | Timestamp]:
    parser = Parser()
    return list(events_of([parser.feed(data), parser.finish()], synchronises=synchronises))


def events(data: bytes, *, synchronises: bool = True) -> list[Event]:
    return [one for one in records(data, synchronises=synchronises) if isinstance(one, Event)]


def told(found: list[Event]) -> list[tuple[object, ...]]:
    """What was told, without the page of stimulus ports: damage that looks like another one lasts."""
    return [(one.what, (one.source or 0) & 31, one.address, one.value) for one in found]


@given(SEEDS)
def test_times_never_go_back(seed: int) -> None:
    found = events(itm.packets(random.Random(seed)))
    ticks = [one.tick for one in found if one.tick is not None]
    assert ticks == sorted(ticks)


@given(SEEDS, st.integers(0, 10_000), st.binary(max_size=8))
def test_damage_costs_nothing_before_it_and_nothing_after_the_next_synchronisation(
    seed: int, at: int, instead: bytes
) -> None:
    draw = random.Random(seed)
    head, body, tail = itm.packets(draw, 30), itm.packets(draw, 30), itm.packets(draw, 30)
    at %= len(body)
    damaged = body[:at] + instead + body[at + draw.randrange(20) :]
    whole = told(events(head)), told(events(tail))
    found = told(events(head + itm.SYNC + damaged + itm.SYNC + tail))
    assert found[: len(whole[0])] == whole[0]
    assert found[-len(whole[1]) :] == whole[1]


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_become_events_in_order(data: bytes, synchronises: bool) -> None:
    found = events(data, synchronises=synchronises)
    starts = [one.start for one in found]
    assert starts == sorted(starts)


def test_a_timestamp_belongs_to_what_came_before_it_as_exactly_as_it_says() -> None:
    found = events(itm.SYNC + A + itm.local(100) + A + itm.local(50, 1) + B + itm.local(5, 2) + B)
    assert [(one.tick, one.earlier) for one in found] == [(100, 0), (150, 50), (155, 5), (None, None)]


def test_after_an_overflow_a_time_is_the_least_that_it_may_be() -> None:
    found = events(itm.SYNC + A + itm.local(100) + itm.OVERFLOW + A + itm.local(50) + A + itm.local(7))
    assert [(one.tick, one.earlier, one.epoch) for one in found] == [
        (100, 0, 0),
        (150, None, 1),
        (150, None, 1),
        (157, 0, 1),
    ]
    assert found[1].why is Why.OVERFLOW


def test_a_global_time_needs_all_its_bits() -> None:
    time = 5 << 26 | 77
    low, high = itm.global_low(time), itm.global_high(time)
    data = itm.SYNC + low + A + itm.local(10) + itm.global_low(time, wrap=True) + high
    data += A + itm.local(10) + itm.global_low(time + 9)
    found = [(one.time, one.cycle) for one in records(data) if isinstance(one, Timestamp)]
    assert found == [(time, 10), (time + 9, 20)]


def test_what_comes_before_the_first_synchronisation_is_believed_only_if_it_is_whole() -> None:
    assert told(events(A + B + itm.SYNC + A)) == told(events(itm.SYNC + A + B + A))
    first, *rest = events(b"\x04" + A + itm.SYNC + B)
    assert (first.why, first.start, first.end) == (Why.UNSYNCHRONISED, 0, 3)
    assert told(rest) == told(events(itm.SYNC + B))


def test_a_stream_without_synchronisation_goes_on_after_damage() -> None:
    found = events(A + b"\x04" + B, synchronises=False)
    assert [one.what for one in found] == [Happening.WRITE, Happening.LOSS, Happening.WRITE]


def test_an_extension_selects_the_page_of_stimulus_ports() -> None:
    found = events(itm.SYNC + itm.page(7) + itm.source(31, b"x") + itm.page(0) + itm.source(31, b"x"))
    assert [one.source for one in found] == [255, 31]


def test_lines_are_those_of_each_port() -> None:
    data = itm.SYNC + itm.source(0, b"a") + itm.source(1, b"xy\r\n") + itm.source(0, b"b\n") + itm.source(0, b"\xff")
    assert [(line.event.source, line.text) for line in lines_of(events(data))] == [(1, "xy"), (0, "ab"), (0, "\\xff")]
    assert [line.text for line in lines_of(events(data), [1])] == ["xy"]


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from([0, 3, 15, 16])), max_size=30))
def test_a_stack_of_exceptions_follows_whatever_is_told(functions: list[tuple[int, int]]) -> None:
    stack = list[int]()
    for event in events(itm.SYNC + b"".join(itm.exception(number, function) for function, number in functions)):
        change_stack(stack, event)
        assert len(set(stack)) == len(stack)
        if not event.source:
            assert stack == []
        elif event.what is not Happening.EXIT:
            assert stack[-1] == event.source


def test_exceptions_have_the_names_of_the_architecture() -> None:
    names = [exception_name(number) for number in (2, 3, 11, 15, 16, 40, 8)]
    assert names == ["NMI", "HardFault", "SVCall", "SysTick", "IRQ0", "IRQ24", "exception 8"]
