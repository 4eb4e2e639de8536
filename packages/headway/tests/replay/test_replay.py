"""Properties of the critical path and of the replay, on made-up runs and on rows that nothing lawful has made."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.replay.schedules import FUTEX, START, Action, Row, Schedule, made_up, rows_of

from headway.errors import HeadwayError
from headway.model import ThreadSeen, Window
from headway.replay.candidates import rank
from headway.replay.changes import Change, Faster, LockFree, MoreThreads, Processors, Without
from headway.replay.graph import build
from headway.replay.path import CriticalPath, PieceKind, critical_path, find_end
from headway.replay.predict import LEAST, MOST, Model
from headway.replay.rows import Activity, Rows
from headway.replay.wakeups import find_wakeups

pytestmark = pytest.mark.unit

HALF = Fraction(1, 2)
WORD = (1 << 64) - 1
runs = st.builds(
    lambda seed, threads, cpus: made_up(Random(seed), threads=threads, cpus=cpus).run(),
    st.integers(0, 1 << 32),
    st.integers(1, 6),
    st.integers(1, 3),
)
speeds = st.sampled_from([Fraction(0), Fraction(1, 10), HALF, Fraction(9, 10)])
whats = st.sampled_from(["user", "kernel.*", "parse", "main:*", "worker-*:*", "wait.sleep", "wait.disk", "*:*"])


def model_of(rows: Rows, *, command: bool = True) -> Model:
    return Model(build(rows, find_wakeups(rows), find_end(rows, command=command)), whole=not command)


def path_of(rows: Rows, *, command: bool = True) -> CriticalPath:
    return critical_path(rows, find_wakeups(rows), find_end(rows, command=command))


def tiles(path: CriticalPath) -> None:
    """Assert the laws of a critical path."""
    rows, pieces = path.rows, path.pieces()
    assert pieces[0].start == path.end.start
    assert pieces[-1].end == path.end.end
    assert all(a.end == b.start for a, b in pairwise(pieces))
    assert all(piece.start < piece.end for piece in pieces)
    times = path.times()
    assert sum(times.values()) == path.end.duration
    assert all(time > 0 for time in times.values())
    asleep = rows.activity[path.row] == Activity.WAITS
    assert not asleep[path.kind == PieceKind.THREAD].any()
    outside = path.row[path.kind == PieceKind.OUTSIDE]
    assert (find_wakeups(rows).source[outside] < 0).all()


def predicts(model: Model, change: Change) -> None:
    """Assert what holds for every change that makes something faster."""
    try:
        found = model.predict([change])
    except HeadwayError:
        return  # there is nothing of that name
    assert 0 <= found.low <= found.high
    assert found.high <= model.recorded or any("anomaly" in note for note in found.notes)


@given(runs)
def test_the_critical_path_tiles_the_run_and_no_sleeper_is_on_it(run: Schedule) -> None:
    tiles(path_of(run.loaded()))


@given(runs)
def test_a_replay_without_a_change_is_the_recorded_run(run: Schedule) -> None:
    rows = run.loaded()
    model = model_of(rows)
    ends = rows.end[rows.first[1:] - 1] - START
    for assumption in (LEAST, MOST):
        replay = model.unchanged[assumption]
        finish = replay.finish[: len(ends)]
        assert replay.end == model.recorded
        assert replay.forced == 0
        assert ((finish == ends) | (finish < 0)).all()  # the replay stops with the first thread
    assert model.error == 0


@given(runs, whats, speeds)
def test_what_is_faster_makes_nothing_slower(run: Schedule, what: str, keep: Fraction) -> None:
    predicts(model_of(run.loaded()), Faster(what, keep))


@given(runs, st.integers(1, 8))
def test_processors_that_nobody_waits_for_change_nothing(run: Schedule, more: int) -> None:
    rows = run.loaded()
    model = model_of(rows)
    found = model.predict([Processors(more, True)])
    assert found.low <= model.recorded
    if not (rows.activity == Activity.READY).any():
        assert found.low == found.high == model.recorded


@given(runs)
def test_one_processor_takes_at_least_all_the_work(run: Schedule) -> None:
    rows = run.loaded()
    model = model_of(rows)
    ran = rows.activity == Activity.RUNS
    before_end = ran & (rows.begin < model.graph.end.end)
    work = int((rows.end - rows.begin)[before_end & (rows.thread == 0)].sum())
    assert model.predict([Processors(1, False)]).low >= work


@given(st.integers(0, 1 << 32), st.integers(1, 6))
def test_everything_twice_as_fast_takes_half_of_the_time(seed: int, threads: int) -> None:
    """With a processor for each thread nothing but work and waits decides."""
    model = model_of(made_up(Random(seed), threads=threads, cpus=threads).run().loaded())
    found = model.predict(
        [Faster("user", HALF), Faster("kernel.*", HALF), Faster("parse", HALF), Faster("*:wait.*", HALF)]
    )
    steps = len(model.graph.kind)  # each is rounded
    assert model.recorded / 2 - steps <= found.low <= found.high <= model.recorded / 2 + steps


@given(runs)
def test_every_candidate_is_predicted(run: Schedule) -> None:
    rows = run.loaded()
    model = model_of(rows)
    found = rank(model)
    gains = [min(one.gain) for _, one in found]
    assert gains == sorted(gains, reverse=True)
    for candidate, one in found:
        assert 0 <= one.low <= one.high
        assert candidate.on_path <= model.recorded


# ---- rows that nothing lawful has made ----

STATES = ("user", "kernel.clone", "softirq.net_rx", "kernel.sendto", "ready", "wait.futex", "wait.net", "unknown")
numbers = st.integers(-1, 3)


@st.composite
def lawless(draw: st.DrawFn) -> Rows:
    rows: list[Row] = []
    for _ in range(draw(st.integers(1, 30))):
        time, length = draw(st.integers(0, 100)), draw(st.integers(0, 40))
        state = draw(st.sampled_from(STATES))
        cpu = draw(st.integers(0, 1)) if state in STATES[:4] else draw(st.integers(-1, 0))
        taken = draw(st.integers(-5, 60))
        waker, by = draw(st.integers(-1, 5)), draw(st.sampled_from(["", "irq.timer", "softirq.net_rx"]))
        rows.append((time, length, taken, cpu, draw(numbers), state, waker, by, draw(st.sampled_from([0, 1, WORD]))))
    ends = draw(st.lists(st.one_of(st.none(), st.integers(0, 100)), min_size=3, max_size=3))
    births = draw(st.lists(st.integers(0, 60), min_size=3, max_size=3))
    seen = [ThreadSeen(n, 10 + n, 10, f"t{n}", births[n], births[n], ends[n]) for n in range(3)]
    return rows_of(rows, seen, Window(5, 95))


@given(lawless(), st.booleans())
def test_lawless_rows_have_a_critical_path_and_a_replay_that_ends(rows: Rows, command: bool) -> None:
    thread = rows.thread
    assert (rows.end > rows.begin).all()
    assert (rows.begin[1:] >= rows.end[:-1])[thread[1:] == thread[:-1]].all()
    try:
        end = find_end(rows, command=command)
    except HeadwayError:
        return
    tiles(critical_path(rows, find_wakeups(rows), end))
    model = model_of(rows, command=command)
    for change in (Faster("user", HALF), Processors(1, False), Processors(1, True), LockFree("t*"), Without("others")):
        try:
            found = model.predict([change])
        except HeadwayError:
            continue
        assert 0 <= found.low <= found.high


# ---- cases ----


def work(n: int, state: str = "user") -> Action:
    return "work", state, n


def test_a_mutex_passes_the_path_to_its_holder() -> None:
    """The main thread waits for a worker, which is on the path for as long as it works."""
    main = [work(10), ("spawn", 1, 0), work(10), ("wait", 7, 0), work(10)]
    run = Schedule([main, [work(100), ("post", 7, 0), work(50)]], ["main", "worker"], 2, 1000).run()
    path = path_of(run.loaded())
    assert [(p.thread.name, p.state, p.end - p.start) for p in path.pieces()] == [
        ("main", "user", 10),
        ("worker", "user", 100),
        ("main", "user", 10),
    ]


def test_a_wait_for_a_timer_stays_on_the_path() -> None:
    main = [work(10), ("sleep", "wait.sleep", 70), work(10)]
    rows = Schedule([main], ["main"], 1, 1000).run().loaded()
    times = {(state, kind): time for (_, state, kind), time in path_of(rows).times().items()}
    assert times == {("user", PieceKind.THREAD): 20, ("wait.sleep", PieceKind.OUTSIDE): 70}
    assert model_of(rows).predict([Faster("wait.sleep", HALF)]).high == 55


def test_a_function_that_is_not_on_the_critical_path_gains_nothing() -> None:
    main = [work(10), ("spawn", 1, 0), work(200), ("join", 1, 0), work(10)]
    rows = Schedule([main, [work(100, "kernel.read")]], ["main", "worker"], 2, 1000).run().loaded()
    model = model_of(rows)
    found = model.predict([Faster("kernel.read", HALF)])
    assert (found.low, found.high) == (220, 220)
    found = model.predict([Faster("main:user", Fraction(1, 10))])
    # The main thread did not have to wait for the worker, and would now. Only `least` knows that it outlives it.
    assert (found.low, found.high) == (22, 101)


def test_two_threads_on_one_processor_take_turns() -> None:
    main = [work(10), ("spawn", 1, 0), work(100), ("join", 1, 0), work(10)]
    rows = Schedule([main, [work(100)]], ["main", "worker"], 2, 1000).run().loaded()
    found = model_of(rows).predict([Processors(-1, True)])
    assert (found.low, found.high) == (120, 220)


def test_a_lock_that_is_free_is_not_waited_for() -> None:
    """Two threads hold a lock all the time: without it they run side by side."""
    main = [work(10), ("spawn", 1, 0), ("spawn", 2, 0), ("join", 1, 0), work(1), ("join", 2, 0), work(1)]
    one = [work(100), ("post", 1, 0), work(1)]
    two = [work(5), ("wait", 1, 0), work(100), ("post", 2, 0), work(1)]
    rows = Schedule([main, one, two], ["main", "worker-1", "worker-2"], 2, 1000).run().loaded()
    model = model_of(rows)
    assert model.recorded == 10 + 100 + 101 + 1
    found = model.predict([LockFree("worker-*")])
    assert (found.low, found.high) == (117, 117)


def two_locks() -> Rows:
    """Two pairs of threads, each with a lock that one of them holds until the other one may go on."""
    pair = [
        [work(100), ("post", 1, 0), work(1)],
        [work(5), ("wait", 1, 0), work(100)],
        [work(70), ("post", 2, 0), work(1)],
        [work(5), ("wait", 2, 0), work(70)],
    ]
    main = [work(10), *(("spawn", n, 0) for n in range(1, 5)), *(("join", n, 0) for n in range(1, 5)), work(1)]
    return Schedule([main, *pair], ["main", *(f"worker-{n}" for n in range(4))], 5, 1000).run().loaded()


def test_one_lock_of_two_can_be_free() -> None:
    model = model_of(two_locks())
    assert model.recorded == 10 + 200 + 1
    # Nothing in the recording says that the main thread waits for the second pair, but that it outlives it (`least`).
    one, other = (10 + 105 + 1, 10 + 140), (211, 211)
    for what, expected in ((f"{FUTEX + 1:#x}", one), (f"worker-*:{FUTEX + 1:#x}", one), (f"{FUTEX + 2:#x}", other)):
        found = model.predict([LockFree(what)])
        assert (found.low, found.high) == expected
    both = [LockFree(f"{FUTEX + 1:#x}"), LockFree(f"worker-*:{FUTEX + 2:#x}")]
    assert model.predict(both).high == model.predict([LockFree("worker-*")]).high == 10 + 105 + 1
    with pytest.raises(HeadwayError, match="at 0x7f0000000003 that another one"):
        model.predict([LockFree(f"{FUTEX + 3:#x}")])


def test_the_lock_on_the_critical_path_is_named_by_its_address() -> None:
    found = [str(one.change) for one, _ in rank(model_of(two_locks()))]
    assert f"no waiting for the lock {FUTEX + 1:#x} among worker-*" in found
    assert not any(f"{FUTEX + 2:#x}" in change for change in found)


@given(st.integers(1, WORD), st.sampled_from(["", "worker-*:", "a:b:"]))
def test_a_lock_is_read_from_what_is_written(address: int, threads: str) -> None:
    change = LockFree(f"{threads}{address:#x}")
    assert (change.address, change.state) == (address, None)
    assert change.threads == (threads[:-1] or "*")


@pytest.mark.parametrize("what", ["worker", "worker:wait.futex", "0x", "0x123456789abcdef01", "worker:0xg", ":0"])
def test_what_is_no_address_is_a_name_or_a_state(what: str) -> None:
    assert LockFree(what).address == 0


def test_calls_around_a_lock_that_is_free_may_be_gone() -> None:
    main = [work(10), ("spawn", 1, 0), ("spawn", 2, 0), ("join", 1, 0), work(1), ("join", 2, 0), work(1)]
    one = [work(100), work(7, "kernel.futex"), ("post", 1, 0), work(1)]
    two = [work(5), work(20, "kernel.futex"), ("wait", 1, 0), work(30, "kernel.futex"), work(100)]
    rows = Schedule([main, one, two], ["main", "worker-1", "worker-2"], 2, 1000).run().loaded()
    model = model_of(rows)
    assert model.recorded == 10 + 107 + 130 + 1
    found = model.predict([LockFree("worker-*")])
    assert (found.low, found.high) == (10 + 105 + 1, 10 + 155 + 1)


def test_interrupts_within_what_is_faster_may_come_less_often() -> None:
    main = [*[work(100), work(10, "irq.timer")] * 4, work(100), work(8, "kernel.read"), work(6, "irq.timer"), work(4)]
    model = model_of(Schedule([main], ["main"], 1, 10_000).run().loaded())
    assert model.recorded == 500 + 40 + 8 + 6 + 4
    found = model.predict([Faster("user", HALF)])
    assert (found.low, found.high) == (250 + 20 + 8 + 6 + 2, 250 + 40 + 8 + 6 + 2)
    found = model.predict([Faster("user", Fraction(2))])
    assert (found.low, found.high) == (1000 + 40 + 8 + 6 + 8, 1000 + 80 + 8 + 6 + 8)


@pytest.mark.parametrize("call", ["kernel.clone", "kernel.vfork", "kernel.spawn"])
def test_a_thread_is_created_in_the_call_that_its_birth_lies_in(call: str) -> None:
    """Linux calls it clone, the reference machine's kernel spawn."""
    main = [work(10), work(5, call), ("spawn", 1, 0), work(5, call), work(10), ("join", 1, 0)]
    rows = Schedule([main, [work(40)]], ["main", "worker"], 2, 1000).run().loaded()
    assert find_wakeups(rows).creator.tolist()[1] >= 0


def test_a_pool_with_twice_as_many_threads_shares_its_sleeps() -> None:
    main = [work(10), ("spawn", 1, 0), ("join", 1, 0), work(10)]
    worker: list[Action] = [work(1)]
    for _ in range(10):
        worker += [("sleep", "wait.disk", 100), work(1)]
    rows = Schedule([main, worker], ["main", "worker"], 2, 1000).run().loaded()
    model = model_of(rows)
    assert model.recorded == 10 + 1011 + 10
    found = model.predict([MoreThreads("worker", 2)])
    assert 500 <= found.low <= found.high <= 640


def test_a_pipeline_is_as_fast_as_its_slowest_stage_at_least() -> None:
    """The consumer is what limits it. If it is faster, the producer is, which only `least` knows."""
    main = [work(1), ("spawn", 1, 0), ("spawn", 2, 0), ("join", 1, 0), work(1), ("join", 2, 0), work(1)]
    producer: list[Action] = []
    consumer: list[Action] = []
    for _ in range(20):
        producer += [work(50), ("post", 1, 0), ("wait", 2, 0)]
        consumer += [("wait", 1, 0), work(100), ("post", 2, 0)]
    producer += [work(1)]
    consumer += [work(1)]
    rows = Schedule([main, producer, [work(1), *consumer]], ["main", "producer", "consumer"], 3, 1000).run().loaded()
    model = model_of(rows)
    found = model.predict([Faster("consumer:user", Fraction(1, 10))])
    assert found.low >= 20 * 50


def test_a_run_without_a_command_ends_when_all_its_work_is_done() -> None:
    main = [work(10), ("spawn", 1, 0), work(10)]
    rows = Schedule([main, [work(100)]], ["main", "worker"], 2, 1000).run().loaded()
    model = model_of(rows, command=False)
    assert model.recorded == 110
    found = model.predict([Faster("worker:user", HALF)])
    assert (found.low, found.high) == (60, 60)


def test_waits_in_a_circle_are_given_up() -> None:
    """Each of two threads is said to have woken the other one while it slept."""
    rows: list[Row] = [
        (0, 10, 0, 0, 0, "user", -1, "", 0),
        (10, 20, 0, -1, 0, "wait.futex", 1, "", 0),
        (30, 10, 0, 0, 0, "user", -1, "", 0),
        (0, 12, 0, 1, 1, "user", -1, "", 0),
        (12, 20, 0, -1, 1, "wait.futex", 0, "", 0),
        (32, 10, 0, 1, 1, "user", -1, "", 0),
    ]
    seen = [ThreadSeen(n, 10 + n, 10, f"t{n}", 0, 0, None) for n in range(2)]
    loaded = rows_of(rows, seen, Window(0, 50))
    tiles(path_of(loaded))
    model = model_of(loaded)
    assert model.error == 0


def test_no_name_is_a_sentence() -> None:
    rows = Schedule([[work(10)]], ["main"], 1, 1000).run().loaded()
    model = model_of(rows)
    for change in (Faster("nothing", HALF), LockFree("main"), Without("7"), MoreThreads("nobody", 2)):
        with pytest.raises(HeadwayError, match=r"recording|waited"):
            model.predict([change])
    with pytest.raises(HeadwayError, match="leave at least 1"):
        model.predict([Processors(-1, True)])


def test_a_word_with_two_meanings_is_asked_about() -> None:
    rows = Schedule([[work(10, "user")]], ["user"], 1, 1000).run().loaded()
    with pytest.raises(HeadwayError, match="may mean"):
        model_of(rows).predict([Faster("user", HALF)])
    assert model_of(rows).predict([Faster("user:*", HALF)]).high == 5


def test_amounts_within_spans_are_on_the_path_as_what_they_are() -> None:
    """A marked region had 30 of a span of 100, and headway took 10 of it."""
    rows: list[Row] = [
        (0, 100, 40, 0, 0, "user", -1, "", 0),
        (0, 0, -30, 0, 0, "noneffective.parse", -1, "", 0),
    ]
    loaded = rows_of(rows, [ThreadSeen(0, 10, 10, "main", 0, 0, 100)], Window(0, 100))
    times = {state: time for (_, state, _), time in path_of(loaded).times().items()}
    assert times == {"user": 60, "noneffective.parse": 30, "overhead": 10}
    model = model_of(loaded)
    assert model.predict([Faster("parse", HALF)]).high == 85
    assert model.predict([Faster("main", Fraction(0))]).high == 10
    assert np.array_equal(model.graph.copy_of, [0])
