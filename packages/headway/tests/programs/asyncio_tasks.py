"""Coroutines that compute for a known time in each step, as headway's tasks; prints how long each kind did, ns."""

import asyncio
import sys
import time

import headway.asyncio

spent = {"first": 0, "second": 0}


def work(name: str, ns: int) -> None:
    begun = time.monotonic_ns()
    while time.monotonic_ns() < begun + ns:
        pass
    spent[name] += time.monotonic_ns() - begun


async def first() -> str:
    for _ in range(20):
        work("first", 1_000_000)
        await asyncio.sleep(0)
    return "done"


async def second() -> None:
    for _ in range(20):
        work("second", 500_000)
        await asyncio.sleep(0.001)
    raise LookupError("told")


async def main() -> None:
    if "eager" in sys.argv:
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
    results = await asyncio.gather(
        asyncio.create_task(first()), asyncio.create_task(second(), name="named"), return_exceptions=True
    )
    assert results[0] == "done"
    assert isinstance(results[1], LookupError)
    assert headway.current_task() != 0, "main is a task, too"


headway.asyncio.install(by="name" if "name" in sys.argv else "coroutine")
asyncio.run(main())
assert headway.current_task() == 0
print(spent["first"], spent["second"])
