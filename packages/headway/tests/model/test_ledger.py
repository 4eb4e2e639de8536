from dataclasses import replace
from functools import partial

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.ledgers import causes, ledgers, states

from headway.model import (
    EXACT,
    Behind,
    Cause,
    Cell,
    Counted,
    Estimate,
    Ledger,
    Overhead,
    Processor,
    Thread,
    Window,
    add_causes,
    add_sampled,
    add_states,
    merge,
    since,
    unit_of,
    violations,
)

three = st.tuples(ledgers(), ledgers(), ledgers())


@given(three)
def test_merging_is_associative(found: tuple[Ledger, Ledger, Ledger]) -> None:
    a, b, c = found
    assert merge(merge(a, b), c) == merge(a, merge(b, c))


@given(ledgers(), ledgers())
def test_merging_is_commutative(a: Ledger, b: Ledger) -> None:
    assert merge(a, b) == merge(b, a)


@given(states(), states(), states())
def test_adding_states_keeps_every_unit(a: dict[str, Cell], b: dict[str, Cell], c: dict[str, Cell]) -> None:
    total = add_states(a, b, c)
    assert sum(x.time for x in total.values()) == sum(x.time for s in (a, b, c) for x in s.values())
    assert add_states(a, b, c) == add_states(c, a, b) == add_states(add_states(a, b), c)


def test_of_two_names_the_later_one_is_kept_whichever_way_they_are_merged() -> None:
    early = Thread(7, 7, "bash", 0, 0, None, 10, 10, {"user": Cell(10)})
    late = Thread(7, 7, "xz", 0, 10, 15, 15, 5, {"user": Cell(5)})
    one, two = Ledger("bpf", Window(0, 10), (early,)), Ledger("bpf", Window(10, 20), (late,))
    for both in (merge(one, two), merge(two, one)):
        (thread,) = both.threads
        assert (thread.name, thread.start, thread.end, thread.until, thread.span) == ("xz", 0, 15, 15, 15)
        assert violations(both) == []


def test_ledgers_in_different_units_are_not_merged() -> None:
    with pytest.raises(ValueError, match="cycles"):
        merge(Ledger("bpf", Window(0, 1)), Ledger("machine", Window(0, 1), time_unit="cycles"))


@given(st.data())
def test_consecutive_windows_of_one_source_merge_into_one_that_keeps_the_law(data: st.DataObject) -> None:
    middle, end = data.draw(st.integers(0, 10**6)), data.draw(st.integers(10**6, 10**7))
    first = data.draw(ledgers(window=Window(0, middle), tids=(1, 2)))
    second = data.draw(ledgers(window=Window(middle, end), tids=(3, 4)))
    assert violations(first) == violations(second) == []
    assert violations(merge(first, second)) == []


def _continue(data: st.DataObject, earlier: Ledger) -> Ledger:
    """A later cumulative reading of the same source."""
    end = earlier.window.end + data.draw(st.integers(0, 10**9))
    passed = end - earlier.window.end

    def go_on(thread: Thread) -> Thread:
        if thread.end is not None:
            return thread
        stop = data.draw(st.none() | st.integers(earlier.window.end, end))
        until = end if stop is None else stop
        passed = until - thread.until
        state = data.draw(st.sampled_from(["user", "wait.futex"]))
        more = {state: Cell(passed, 1, 2, 3, 4, 5)}
        part = Estimate(data.draw(st.integers(0, passed)), data.draw(st.integers(0, 99)))
        by_samples = {state: part} if state == "user" and (part.time or part.samples) else {}
        states = add_states(thread.states, more)
        behind = add_causes(thread.causes, data.draw(causes(more)))
        span = thread.span + until - thread.until
        every = add_sampled(thread.sampled, by_samples)
        lasted = thread.durations
        if lasted is not None and state in lasted:
            lasted = {**lasted, state: replace(lasted[state], unplaced=lasted[state].unplaced + 1)}
        return replace(
            thread, end=stop, until=until, span=span, states=states, causes=behind, sampled=every, durations=lasted
        )

    new = Thread(10**7, 1, "new", earlier.window.end, earlier.window.end, None, end, passed, {"ready": Cell(passed, 1)})
    return replace(
        earlier,
        window=Window(earlier.window.start, end),
        threads=(*map(go_on, earlier.threads), new),
        processors=tuple(
            replace(p, span=p.span + passed, states=add_states(p.states, {"idle": Cell(passed, 1)}))
            for p in earlier.processors
        ),
        losses={**earlier.losses, "more": 3},
        overhead=earlier.overhead + Overhead(5, 1),
    )


@given(st.data(), ledgers(precision=st.just(EXACT)))
def test_an_interval_merged_with_what_came_before_it_gives_the_whole(data: st.DataObject, earlier: Ledger) -> None:
    later = _continue(data, earlier)
    interval = since(later, earlier)
    assert violations(later) == violations(interval) == []
    assert interval.window == Window(earlier.window.end, later.window.end)
    assert merge(interval, earlier) == merge(earlier, interval) == later


def test_figures_that_changed_without_time_passing_are_in_the_interval() -> None:
    def reading(cell: Cell) -> Ledger:
        return Ledger("bpf", Window(0, 10), (Thread(1, 1, "a", 0, 0, None, 10, 10, {"user": cell}),))

    (thread,) = since(reading(Cell(10, 1, instructions=7)), reading(Cell(10, 1, instructions=3))).threads
    assert thread.states == {"user": Cell(0, 0, instructions=4)}


@given(ledgers(), st.data())
def test_any_single_cell_changed_is_found(ledger: Ledger, data: st.DataObject) -> None:
    assert violations(ledger) == []
    rows: list[Thread | Processor] = [*ledger.threads, *ledger.processors]
    assume(rows)
    row = data.draw(st.sampled_from(rows))
    state = data.draw(st.sampled_from(sorted(row.states)))
    by = data.draw(st.integers(-(10**15), 10**15).filter(bool))
    cell = row.states[state]
    changed = replace(row, states={**row.states, state: replace(cell, time=cell.time + by)})
    swap = partial(map, lambda r: changed if r is row else r)
    assert violations(replace(ledger, threads=tuple(swap(ledger.threads)), processors=tuple(swap(ledger.processors))))


def test_a_wait_that_began_before_an_interval_has_no_more_behind_it_than_the_interval_has_of_it() -> None:
    def reading(end: int, *found: Cause) -> Ledger:
        thread = Thread(1, 1, "a", 0, 0, None, end, end, {"wait.futex": Cell(end, 1)}, found)
        return Ledger("bpf", Window(0, end), (thread,))

    ended = reading(
        11, Cause("wait.futex", Behind.OBJECT, "lock", 11, 1), Cause("wait.futex", Behind.WAKER, "b", 9, 1, 2)
    )
    interval = since(ended, reading(8))
    (thread,) = interval.threads
    assert [(cause.name, cause.time, cause.count) for cause in thread.causes] == [("lock", 3, 1), ("b", 3, 1)]
    assert violations(interval) == []


THREAD = Thread(1, 1, "a", 0, 0, 10, 10, 10, {"user": Cell(10)})


@pytest.mark.parametrize(
    ("thread", "word"),
    [
        (replace(THREAD, states={"user": Cell(12), "poll": Cell(-2)}), "poll has time -2"),
        (replace(THREAD, states={"user": Cell(10, -1)}), "count -1"),
        (replace(THREAD, sampled={"user": Estimate(11, 3)}), "of user 11 was divided by samples, it has 10"),
        (replace(THREAD, sampled={"kernel.read": Estimate(1, 3)}), "of kernel.read 1 was divided by samples, it has 0"),
        (replace(THREAD, sampled={"user": Estimate(-1, 3)}), "of user -1 was divided"),
        (replace(THREAD, sampled={"user": Estimate(1, -3)}), "user has -3 samples"),
        (replace(THREAD, start=5), "longer than"),
        (replace(THREAD, until=30, end=30), "not within"),
        (replace(THREAD, end=8), "ended at 8"),
        (replace(THREAD, causes=(Cause("user", Behind.OBJECT, "a", 11, 1),)), "the objects of user add up to 11"),
        (replace(THREAD, causes=(Cause("ready", Behind.HOLDER, "a", 1, 1),)), "the holders of ready add up to 1"),
        (replace(THREAD, causes=(Cause("user", Behind.WAKER, "a", 5, -1),)), "time 5, count -1"),
    ],
)
def test_each_way_of_breaking_the_law_is_named(thread: Thread, word: str) -> None:
    assert word in " ".join(violations(Ledger("bpf", Window(0, 20), (thread,))))


def test_the_unit_is_cycles_where_all_of_the_time_on_a_processor_has_them() -> None:
    counted = Thread(7, 7, "a", 0, 0, None, 9, 9, {"user": Cell(5, 1, 50), "wait.futex": Cell(4)})
    blind = Thread(8, 7, "b", 0, 0, None, 9, 9, {"user": Cell(5, 1, 50), "kernel.read": Cell(4, 1)})
    assert unit_of([counted]) == "cycles"
    assert unit_of([counted, blind]) == "ns"


def test_cycles_and_time_together_are_time() -> None:
    in_cycles, in_time = Ledger("bpf", Window(0, 1), unit="cycles"), Ledger("bpf", Window(1, 2))
    assert merge(in_cycles, in_cycles).unit == "cycles"
    assert merge(in_cycles, in_time).unit == merge(in_time, in_cycles).unit == "ns"


def test_a_ledger_without_counters_takes_no_notice_of_figures_in_its_cells() -> None:
    thread = Thread(7, 7, "a", 0, 0, None, 9, 9, {"user": Cell(9, 1, 10, 10, 5, 5)})
    plain = Ledger("bpf", Window(0, 9), (thread,))
    assert plain.indices(thread).epi == 9
    counting = replace(plain, counted={"cycles": Counted(9, 9)}, unit="cycles")
    assert (counting.indices(thread).epi, counting.indices(thread).mpi) == (5, 5)


def test_an_interval_has_the_events_of_its_own_time() -> None:
    def at(time: int) -> Ledger:
        cell = Cell(time, 1, events={"page-faults": time})
        thread = Thread(7, 7, "a", 0, 0, None, time, time, {"user": cell})
        return Ledger("bpf", Window(0, time), (thread,), counted={"page-faults": Counted(time, time)})

    between = since(at(9), at(4))
    assert between.threads[0].states["user"].events == {"page-faults": 5}
    assert between.counted == {"page-faults": Counted(5, 5)}
