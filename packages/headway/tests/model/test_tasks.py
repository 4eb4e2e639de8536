"""Tasks tile a thread's time: whatever the kernel took back, whatever is merged or subtracted."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.model import (
    NO_TASK,
    OTHER_TASKS,
    Cell,
    Ledger,
    Task,
    Thread,
    Window,
    fitted,
    merge,
    merged_by_name,
    since,
    subtract_tasks,
    tiles,
    violations,
)

pytestmark = pytest.mark.unit

STATES = ("user", "kernel.read", "wait.futex", "ready")
states = st.dictionaries(st.sampled_from(STATES), st.builds(Cell, st.integers(0, 10**9), st.integers(0, 99)))
names = st.sampled_from(["", "checkout", "search"])


@st.composite
def divided(draw: st.DrawFn) -> tuple[dict[str, Cell], list[Task]]:
    """A thread's states, and tasks that have parts of them."""
    parts = draw(st.lists(st.tuples(names, st.integers(0, 3), states), max_size=4, unique_by=lambda part: part[:2]))
    tasks = [Task(name, 0 if name else number, 1, cells) for name, number, cells in parts if name or number]
    tasks = list({task.key: task for task in tasks}.values())
    total = dict(draw(states))
    for task in tasks:
        for state, cell in task.states.items():
            total[state] = total.get(state, Cell(0, 0)) + cell
    return total, tasks


def times(of: object) -> dict[str, int]:
    assert isinstance(of, dict)
    return {state: cell.time for state, cell in of.items() if cell.time}


def added(tasks: tuple[Task, ...]) -> dict[str, int]:
    total: dict[str, int] = {}
    for task in tasks:
        for state, cell in task.states.items():
            total[state] = total.get(state, 0) + cell.time
    return {state: time for state, time in total.items() if time}


@given(divided())
def test_tasks_and_the_time_between_add_up_to_the_thread(given_: tuple[dict[str, Cell], list[Task]]) -> None:
    total, tasks = given_
    found = tiles(total, tasks)
    if not tasks:
        assert found == ()
        return
    assert added(found) == times(total)
    assert found[-1].title == NO_TASK
    assert all(cell.time >= 0 for task in found for cell in task.states.values())
    assert fitted(total, tasks) == tuple(
        replace(task, states={s: c for s, c in task.states.items() if c.time or c.count}) for task in tasks
    ), "what fits is not changed"


@given(divided(), st.lists(st.tuples(st.integers(0, 3), st.sampled_from(STATES), st.integers(-(10**9), 10**9))))
def test_time_that_was_taken_back_from_the_wrong_task_is_put_right(
    given_: tuple[dict[str, Cell], list[Task]], moves: list[tuple[int, str, int]]
) -> None:
    total, tasks = given_
    for which, state, time in moves:
        if which < len(tasks):
            changed = {**tasks[which].states, state: tasks[which].states.get(state, Cell(0, 0)) + Cell(time, 0)}
            tasks[which] = replace(tasks[which], states=changed)
    found = tiles(total, fitted(total, tasks))
    assert all(cell.time >= 0 for task in found for cell in task.states.values())
    if tasks:
        assert added(found) == times(total)


def ledger_of(total: dict[str, Cell], tasks: list[Task], end: int, birth: int = 0) -> Ledger:
    span = sum(cell.time for cell in total.values())
    thread = Thread(1, 1, "a", birth, end - span, None, end, span, total, tasks=tuple(tasks))
    return Ledger("bpf", Window(end - max(span, 1), end), (thread,))


@given(divided(), divided())
def test_ledgers_that_are_merged_keep_the_tasks_of_both(
    one: tuple[dict[str, Cell], list[Task]], two: tuple[dict[str, Cell], list[Task]]
) -> None:
    first, second = ledger_of(*one, 10**11), ledger_of(*two, 10**12)
    both = merge(first, second)
    assert violations(both) == []
    for task in both.threads[0].tasks:
        parts = [t for ledger in (first, second) for t in ledger.threads[0].tasks if t.key == task.key]
        assert task.time == sum(part.time for part in parts)
        assert task.changes == sum(part.changes for part in parts)


@given(divided(), divided())
def test_what_came_since_an_earlier_reading_are_the_tasks_of_then(
    one: tuple[dict[str, Cell], list[Task]], two: tuple[dict[str, Cell], list[Task]]
) -> None:
    first, second = ledger_of(*one, 10**11), ledger_of(*two, 10**12)
    later = merge(first, second)
    difference = since(later, first)
    assert violations(difference) == []
    found = {task.key: task for task in difference.threads[0].tasks}
    for task in second.threads[0].tasks:
        if task.time:
            assert found[task.key].time == task.time
    assert subtract_tasks(first.threads[0].tasks, first.threads[0].tasks) == ()


def test_a_task_with_more_time_than_its_thread_breaks_the_law() -> None:
    broken = ledger_of({"user": Cell(5, 1)}, [Task("a", 0, 1, {"user": Cell(6, 1)})], 100)
    assert violations(broken) == ["thread 1 (a): no task has time -1 in user"]


def test_waits_for_the_gil_are_futexes_of_a_task() -> None:
    total = {"wait.gil": Cell(7, 1), "wait.futex": Cell(3, 1)}
    (task, between) = tiles(total, [Task("a", 0, 1, {"wait.futex": Cell(8, 1)})])
    assert (task.time, between.time) == (8, 2)


def test_titles() -> None:
    assert [Task("a", 0, 1, {}).title, Task("", 7, 1, {}).title] == ["a", "task 7"]
    assert [Task("", 0, 1, {}, other=True).title, Task("", 0, 1, {}).title] == [OTHER_TASKS, NO_TASK]
    several = [Task("a", 0, 1, {"user": Cell(1, 1)}), Task("b", 0, 1, {"user": Cell(5, 1)}), Task("a", 0, 2, {})]
    assert [(task.title, task.changes) for task in merged_by_name(several)] == [("b", 1), ("a", 3)]
