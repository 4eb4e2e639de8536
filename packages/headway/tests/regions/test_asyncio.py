"""asyncio's tasks as headway's: coroutines behave as before, and the thread works on the task whose step runs."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headway.asyncio
from headway.regions import Steps, current_task, task_number

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    headway.asyncio.install()
    yield
    headway.asyncio.uninstall()


async def answer(n: int) -> int:
    await asyncio.sleep(0)
    return n


def test_a_step_is_its_task_and_what_is_between_is_none() -> None:
    seen: list[int] = []

    async def look() -> int:
        seen.append(current_task())
        await asyncio.sleep(0)
        seen.append(current_task())
        return current_task()

    async def main() -> tuple[int, int, int]:
        own = current_task()
        asyncio.get_running_loop().call_soon(lambda: seen.append(-current_task()))
        one, two = await asyncio.gather(look(), look())
        assert current_task() == own
        return own, one, two

    own, one, two = asyncio.run(main())
    assert len({own, one, two}) == 3
    assert 0 not in (own, one, two)
    assert sorted(seen) == sorted([0, one, one, two, two]), "callbacks are no task"
    assert current_task() == 0


@given(st.lists(st.sampled_from(["yield", "throw", "cancel"]), max_size=8))
def test_a_coroutine_goes_the_way_that_it_would_go_without(course: list[str]) -> None:
    async def walk(trace: list[str]) -> str:
        for what in course:
            try:
                await asyncio.sleep(0)
                if what == "throw":
                    raise LookupError
                if what == "cancel":
                    current = asyncio.current_task()
                    assert current is not None
                    current.cancel()
                    await asyncio.sleep(0)
            except (LookupError, asyncio.CancelledError) as error:
                trace.append(type(error).__name__)
            trace.append(what)
        return "end"

    async def both() -> tuple[list[str], list[str], set[str]]:
        traces: tuple[list[str], list[str]] = [], []
        plain = asyncio.Task(walk(traces[0]), loop=asyncio.get_running_loop())
        results = {await plain, await asyncio.create_task(walk(traces[1]))}
        return *traces, results

    plain, steps, results = asyncio.run(both())
    assert plain == steps
    assert results == {"end"}


def test_what_is_asked_of_the_coroutine_is_answered_by_it() -> None:
    coroutine = answer(3)
    steps = Steps(coroutine, 5, task_number("answer"))
    assert asyncio.iscoroutine(steps)
    assert isinstance(steps, Coroutine)
    assert steps.__qualname__ == "answer"  # type: ignore[attr-defined]
    assert inspect.getcoroutinestate(steps) == inspect.CORO_CREATED
    assert steps.coroutine is coroutine
    assert steps.send(None) is None
    with pytest.raises(StopIteration) as end:
        steps.send(None)
    assert end.value.value == 3
    assert current_task() == 0
    with pytest.raises(AttributeError):
        _ = steps.no_such  # type: ignore[attr-defined]


def test_an_exception_is_thrown_into_the_coroutine_and_leaves_it() -> None:
    steps = Steps(answer(3), 5, 0)
    steps.send(None)
    with pytest.raises(KeyError, match="told"):
        steps.throw(KeyError("told"))
    assert current_task() == 0
    closed = Steps(answer(3), 5, 0)
    closed.close()
    with pytest.raises(RuntimeError):
        closed.send(None)


def test_context_variables_names_and_results_stay() -> None:
    variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable")

    async def read() -> Any:
        return variable.get(), asyncio.current_task().get_name()  # type: ignore[union-attr]

    async def main() -> Any:
        variable.set(7)
        return await asyncio.create_task(read(), name="mine")

    assert asyncio.run(main()) == (7, "mine")


def test_another_factory_goes_on_making_the_tasks() -> None:
    made: list[str] = []

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(coroutine.__qualname__)
        return asyncio.Task(coroutine, loop=loop, **options)

    async def main() -> int:
        asyncio.get_running_loop().set_task_factory(factory)
        return await asyncio.create_task(answer(4))

    assert asyncio.run(main()) == 4
    assert made[0] == "answer"


def test_a_loop_that_was_running_before() -> None:
    headway.asyncio.uninstall()

    async def main() -> int:
        assert current_task() == 0
        headway.asyncio.install()

        async def look() -> int:
            return current_task()

        return await asyncio.create_task(look())

    assert asyncio.run(main()) != 0


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
def test_eager_tasks_are_tasks_within_the_step_that_makes_them() -> None:
    async def look() -> int:
        return current_task()

    async def main() -> tuple[int, int, int]:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        before = current_task()
        task = asyncio.create_task(look())
        return before, task.result(), current_task()

    before, inside, after = asyncio.run(main())
    assert before == after != inside
