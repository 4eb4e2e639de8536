"""Tasks as the eBPF programs see them: by a program's own clock, at each change, and if the program lies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import dropwhile
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.compiling import Compile, script
from tests.effort import exhaustive

from headway.commands import stat
from headway.linux.options import MeasureOptions
from headway.model import Task, Thread

from .attached import measure_attached, until_it_has_worked
from .measuring import Together, disturbed, measure, measure_intervals, measure_together, only
from .recorded import record

pytestmark = [pytest.mark.root, pytest.mark.kernel]

TASKS = MeasureOptions(tasks=True)


def tasks(thread: Thread) -> dict[str, Task]:
    """The tasks of a thread and the time between them, by title; they add up to the thread in every state."""
    found = {task.title: task for task in thread.tiles()}
    assert sum(task.time for task in found.values()) == thread.span
    return found


def time_in(task: Task, state: str) -> int:
    return task.states[state].time if state in task.states else 0


def assert_within(thread: Thread, task: Task, work: int, around: int) -> None:
    """The task has the time of work in it on the program's clock, less what disturbed it, and no more than there was.

    A hypervisor may take time between two pieces of work, which the program sees only around them.
    """
    assert time_in(task, "user") >= work - disturbed(thread, waits=False), task.title
    assert time_in(task, "user") <= around + 2_000_000, task.title


PROGRAMS = "tasks", "task_changes", "task_in_fork", "task_threads", "task_regions", "task_signals"


@pytest.fixture(scope="module")
def together(compile_c: Compile) -> Together:
    programs: dict[str, list[str | Path]] = {name: [compile_c(name)] for name in PROGRAMS}
    programs["python"] = [sys.executable, "-c", PYTHON]
    programs["asyncio"] = [*script("asyncio_tasks", "coroutine")]
    return measure_together(programs, options=TASKS)


def test_tasks_have_the_time_that_the_program_worked_on_them(together: Together) -> None:
    ledger, said = together["tasks"]
    thread = only(ledger)
    first, in_first, second, in_second, named, in_named, none, slept = map(int, said)
    found = tasks(thread)
    assert set(found) == {"task 1", "task 2", "checkout", "no task"}
    assert_within(thread, found["task 1"], first, in_first)
    assert_within(thread, found["task 2"], second, in_second)
    assert_within(thread, found["checkout"], named, in_named)
    assert time_in(found["no task"], "user") >= none - disturbed(thread, waits=False)
    assert time_in(found["checkout"], "wait.sleep") == thread.states["wait.sleep"].time
    assert time_in(found["checkout"], "wait.sleep") >= slept - disturbed(thread)
    assert found["checkout"].states["kernel.getppid"].count == 200
    assert found["task 1"].changes == 400, "coming back from an inner task is a change too"
    assert found["task 2"].changes == 200
    assert found["checkout"].changes == 201


def test_changes_between_two_events_are_told_apart(together: Together) -> None:
    ledger, said = together["task_changes"]
    thread = only(ledger)
    rounds, *times = map(int, said)
    found = tasks(thread)
    for task, truth in enumerate(times, 1):
        of = found[f"task {task}"]
        assert of.changes == rounds
        assert time_in(of, "user") >= truth - disturbed(thread)
    assert "other tasks" not in found


def test_tasks_without_room_are_other_tasks(compile_c: Compile) -> None:
    ledger, said = measure(compile_c("many_tasks"), options=TASKS, allowed=["tasks_without_room"])
    thread = only(ledger)
    n, truth = map(int, said)
    found = tasks(thread)
    assert ledger.losses["tasks_without_room"] > 0
    assert len(found) < n
    all_of_them = sum(time_in(task, "user") for title, task in found.items() if title != "no task")
    assert all_of_them >= truth - disturbed(thread)
    assert found["other tasks"].changes == ledger.losses["tasks_without_room"]


def test_a_child_goes_on_with_the_task_and_a_new_program_begins_without(together: Together) -> None:
    ledger, _ = together["task_in_fork"]
    parent, child = only(ledger, "task_in_fork"), only(ledger, "exe")
    assert time_in(tasks(parent)["task 5"], "user") >= 10_000_000 - disturbed(parent)
    found = tasks(child)
    assert time_in(found["task 5"], "user") >= 30_000_000 - disturbed(child)
    assert time_in(found["task 6"], "user") >= 20_000_000 - disturbed(child)
    assert time_in(found["no task"], "user") >= 30_000_000 - disturbed(child)


def test_threads_that_end_in_a_task_of_one_name(together: Together) -> None:
    ledger, _ = together["task_threads"]
    threads = [t for t in ledger.threads if t.tid != t.pid]
    assert len(threads) == 24
    for thread in threads:
        found = tasks(thread)
        assert time_in(found["shared"], "user") >= 2_000_000 - disturbed(thread)
        assert found["shared"].changes == 1


def test_regions_belong_to_the_task_that_they_are_in(together: Together) -> None:
    ledger, said = together["task_regions"]
    thread = only(ledger)
    one, plain = map(int, said)
    found = tasks(thread)
    assert time_in(found["task 1"], "noneffective.parse") >= one - disturbed(thread)
    assert time_in(found["task 2"], "user") >= plain - disturbed(thread)
    assert time_in(found["task 2"], "noneffective.parse") < time_in(found["task 1"], "noneffective.parse")


def test_signal_handlers_that_set_tasks(together: Together) -> None:
    ledger, said = together["task_signals"]
    handled, wrong = map(int, said)
    assert not wrong
    assert tasks(only(ledger))["task 77"].changes >= handled


@pytest.mark.parametrize("how", ["random", "unmapped", *exhaustive("future", "number", "back", "names", "address")])
def test_lies_are_limited_to_the_possible_and_counted(compile_c: Compile, how: str) -> None:
    allowed = ["task_logs_unread", "task_changes_overwritten", "tasks_without_room", "exits_lost"]
    ledger, _ = measure(compile_c("hostile_tasks"), how, options=TASKS, allowed=allowed)
    thread = only(ledger)
    tasks(thread)
    for task in thread.tiles():
        assert all(cell.time >= 0 for cell in task.states.values())
    if how in ("future", "number", "address", "unmapped"):
        assert sum(ledger.losses[name] for name in allowed[:2]) > 0


def test_intervals_add_up_to_the_tasks_of_the_whole(compile_c: Compile) -> None:
    whole, parts = measure_intervals(0.01, compile_c("tasks"), options=TASKS)
    assert parts
    thread = only(whole)
    found = tasks(thread)
    rows = [one for part in parts for one in part.threads]
    for one in dropwhile(lambda one: not one.tiles(), rows):  # before the program says of its first task there are none
        tasks(one)
    assert {"task 1", "task 2", "checkout"} <= set(found)
    assert found["task 2"].changes == 200


def test_tasks_of_a_program_that_had_them_before(compile_c: Compile) -> None:
    program = subprocess.Popen([compile_c("task_changes"), "1500000"], stdout=subprocess.DEVNULL)
    try:
        until_it_has_worked(program.pid)
        ledger = measure_attached(program.pid, TASKS)
    finally:
        program.kill()
        program.wait()
    found = tasks(only(ledger))
    assert {"task 1", "task 2", "task 3"} <= set(found)
    times = [time_in(found[f"task {i}"], "user") for i in (1, 2, 3)]
    assert times[0] < times[1] < times[2]


def test_without_tasks_asked_for_there_are_none(compile_c: Compile) -> None:
    ledger, _ = measure(compile_c("tasks"))
    assert only(ledger).tiles() == ()


PYTHON = """
import headway, time
def busy(ns):
    end = time.monotonic_ns() + ns
    while time.monotonic_ns() < end: pass
with headway.task("checkout", 12):
    assert headway.current_task() == 12
    busy(20_000_000)
    with headway.task(3):
        busy(10_000_000)
    time.sleep(0.01)
headway.set_task("plain")
busy(10_000_000)
headway.clear_task()
"""


def test_tasks_of_a_program_in_python(together: Together) -> None:
    ledger, _ = together["python"]
    thread = next(t for t in ledger.threads if t.tasks)
    found = tasks(thread)
    assert time_in(found["checkout"], "user") >= 20_000_000 - disturbed(thread)
    assert time_in(found["checkout"], "wait.sleep") >= 10_000_000 - disturbed(thread)
    assert time_in(found["task 3"], "user") >= 10_000_000 - disturbed(thread)
    assert time_in(found["plain"], "user") >= 10_000_000 - disturbed(thread)


@pytest.mark.parametrize("by", ["coroutine", *exhaustive("name")])
def test_tasks_of_asyncio(by: str, together: Together) -> None:
    ledger, said = together["asyncio"] if by == "coroutine" else measure(*script("asyncio_tasks", by), options=TASKS)
    thread = next(t for t in ledger.threads if t.tasks)
    first, second = map(int, said)
    found = tasks(thread)
    assert time_in(found["first"], "user") >= first - disturbed(thread)
    named = "named" if by == "name" and sys.version_info >= (3, 14) else "second"
    assert time_in(found[named], "user") >= second - disturbed(thread)
    assert found["first"].changes == 21
    assert "wait.epoll" in found["no task"].states, "waiting for all of them is the loop's"


# ---- transitions ----


@pytest.mark.parametrize("program", ["tasks", *exhaustive("task_threads", "task_changes", "task_in_fork")])
def test_rows_of_a_task_add_up_to_the_task(compile_c: Compile, program: str) -> None:
    recorded = record(compile_c(program), options=TASKS)  # its rows add up to the threads, and tile them
    of_rows: dict[tuple[int, int], dict[str, int]] = {}
    for batch in recorded.batches:
        rows = batch.transitions
        for at in range(len(rows)):
            number = int(rows.thread[at])
            if number < 0 or rows.task is None or rows.task_id is None or rows.task[at] < 0:
                continue
            seen = recorded.threads[number]
            title = rows.tasks[rows.task[at]] or f"task {rows.task_id[at]}"
            times = of_rows.setdefault((seen.tid, seen.birth), {})
            times[title] = times.get(title, 0) + int(rows.duration[at] - rows.taken[at])
    for thread in recorded.ledger.threads:
        for task in thread.tasks:
            alone = task.time - time_in(task, "overhead") - time_in(task, "stolen")
            told = of_rows[thread.key][task.title]
            stolen = thread.states["stolen"].time if "stolen" in thread.states else 0
            assert abs(told - alone) <= stolen + 10, (task.title, told, alone)


# ---- Python without a change ----

UNCHANGED = """
import asyncio, sys, threading, time

async def handle(n):
    end = time.monotonic_ns() + 2_000_000
    while time.monotonic_ns() < end: pass
    await asyncio.sleep(0)

async def main():
    await asyncio.gather(*(handle(n) for n in range(10)))

worker = threading.Thread(target=time.sleep, args=(0.05,), name="résumé-worker-one")
worker.start()
asyncio.run(main())
worker.join()
import sitecustomize
assert sitecustomize.mine == 5, "that of the program's own environment is executed, too"
"""


def test_a_program_in_python_needs_no_change(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("mine = 5\n")
    arguments = ["stat", "--python-tasks", "--json", "-o", str(tmp_path / "out"), "--", sys.executable, "-c", UNCHANGED]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "headway", *arguments], env=environment, check=True, timeout=250)
    document = json.loads((tmp_path / "out").read_text())
    assert "résumé-worker" in {thread["name"] for thread in document["threads"]}
    (found,) = (thread["tasks"] for thread in document["threads"] if "tasks" in thread)
    titles = {task["title"]: task for task in found}
    assert titles["handle"]["changes"] == 20
    assert sum(state["time"] for state in titles["handle"]["states"] if state["state"] == "user") >= 10_000_000


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--python-tasks", "-a"], "--python-tasks is for a command"),
        (["--tasks", "--level", "switches", "--", "true"], "--tasks needs the states"),
    ],
)
def test_what_does_not_go_together_is_said(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(stat.command, arguments)
    assert done.exit_code != 0
    assert words in " ".join(done.output.split())
