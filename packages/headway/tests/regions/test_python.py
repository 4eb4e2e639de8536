"""`headway.noneffective`, `poll`, `state` and the bare pairs: held against a model, and seen as observers see them."""

from __future__ import annotations

import asyncio
import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headway
from headway.linux.regions.blocks import BlocksReading, RegionBlock, RegionBlocks

pytestmark = pytest.mark.kernel

DEEPEST = 16


def look() -> BlocksReading:
    blocks = RegionBlocks(os.getpid())
    blocks.find()
    return blocks.read()


def own() -> RegionBlock:
    """This thread's block."""
    return look().blocks[threading.get_native_id()]


def entries(block: RegionBlock) -> Counter[str]:
    return Counter({state: spent.entries for state, spent in block.times.items()})


def total(block: RegionBlock) -> int:
    return sum(spent.time for spent in block.times.values())


@pytest.fixture(autouse=True)
def balanced() -> Iterator[None]:
    """Every test ends the regions that it begins."""
    with headway.noneffective("test"):
        pass
    assert own().depth == 0
    yield
    assert own().depth == 0


MARKS = {
    "noneffective": headway.noneffective(),
    "noneffective.a": headway.noneffective("a"),
    "noneffective.b": headway.noneffective("b"),
    "poll": headway.poll(),
    "poll.ring": headway.poll("ring"),
    "user.render": headway.state("render"),
}
moves = st.lists(st.sampled_from([*MARKS, "", ""]), max_size=60)


@given(moves)
def test_any_sequence_of_sets_and_clears_is_what_a_stack_says(sequence: list[str]) -> None:
    before = own()
    stack: list[str] = []
    kept: list[str] = []
    entered: Counter[str] = Counter()
    errors = 0
    start = time.monotonic_ns()
    for state in sequence:
        if state:
            if len(stack) < DEEPEST:
                entered[state] += not kept or kept[-1] != state
                kept.append(state)
            else:
                errors += 1
            stack.append(state)
            MARKS[state].__enter__()
        else:
            errors += not stack
            kept = kept[: max(len(stack) - 1, 0)]
            stack = stack[:-1]
            headway.clear_noneffective()
        now = own()
        assert (now.depth, now.open) == (len(stack), kept[-1] if kept else None)
    for _ in stack:
        headway.clear_noneffective()
    after = own()
    passed = time.monotonic_ns() - start
    assert (after.depth, after.open, after.errors - before.errors) == (0, None, errors)
    assert entries(after) - entries(before) == +entered
    assert 0 <= total(after) - total(before) <= passed
    assert look().lies == 0


def test_a_region_is_left_when_something_is_raised() -> None:
    region = headway.poll("raise")
    seen: list[RegionBlock] = []

    @region
    def fail() -> None:
        with region:
            seen.append(own())
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    assert (seen[0].depth, seen[0].open) == (2, "poll.raise")


def test_decorators_keep_the_function_and_mark_its_calls() -> None:
    @headway.noneffective("decorated")
    def add(a: int, *, b: int = 1) -> int:
        """Add."""
        assert own().open == "noneffective.decorated"
        return a + b

    assert (add(1, b=2), add.__name__, add.__doc__) == (3, "add", "Add.")
    assert own().times["noneffective.decorated"].entries >= 1
    with pytest.raises(TypeError):
        add()  # type: ignore[call-arg]


async def coroutine() -> None: ...


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    "function", [coroutine, generator, async_generator, functools.partial(coroutine), int, "text", None]
)
def test_what_can_be_suspended_is_refused(function: object) -> None:
    with pytest.raises(TypeError) as raised:
        headway.noneffective("x")(function)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)


def test_async_with_is_refused() -> None:
    async def wrong() -> None:
        async with headway.noneffective("x"):  # type: ignore[attr-defined]
            pass

    with pytest.raises((TypeError, AttributeError)):
        asyncio.run(wrong())


@pytest.mark.parametrize("tag", [3, b"x", None, test_async_with_is_refused])
def test_tags_are_text(tag: object) -> None:
    for marks in (headway.noneffective, headway.poll, headway.set_noneffective, headway.state, headway.set_state):
        with pytest.raises(TypeError, match="region"):
            marks(tag)  # type: ignore[arg-type]


@pytest.mark.parametrize("tag", ["", "ä€", "a b", "x" * 1000, "\udcff", "a\0b", "..", "-"])
def test_any_text_is_a_tag(tag: str) -> None:
    with headway.noneffective(tag):
        state = own().open
    assert state is not None
    assert state.startswith("noneffective")
    assert len(state) <= 31
    assert look().lies == 0


def test_a_state_has_a_name() -> None:
    for marks in (headway.state, headway.set_state):
        with pytest.raises(ValueError, match="a state has a name"):
            marks("")
    with pytest.raises(TypeError):
        headway.state()  # type: ignore[call-arg]


def test_a_state_is_progress_and_nests_with_other_regions() -> None:
    @headway.state("draw")
    def draw() -> str | None:
        return own().open

    assert draw() == "user.draw"
    headway.set_state("outer")
    with headway.noneffective("inner"):
        assert (own().open, draw()) == ("noneffective.inner", "user.draw")
    assert own().open == "user.outer"
    headway.clear_state()
    assert own().open is None
    assert look().lies == 0


def test_each_thread_is_in_its_own_regions() -> None:
    region = headway.noneffective("shared")
    inside, done = threading.Event(), threading.Event()
    seen: list[RegionBlock] = []

    def work() -> None:
        with region, region:
            inside.set()
            done.wait()
            seen.append(own())

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait()
    with region:
        assert own().depth == 1
        reading = look()
        assert reading.blocks[thread.native_id or 0].depth == 2
    assert reading.blocks[thread.native_id or 0].address != own().address
    done.set()
    thread.join()
    assert seen[0].depth == 2
    while Path(f"/proc/self/task/{thread.native_id}").exists():  # Python joins it a little before it ends
        time.sleep(0.001)
    assert thread.native_id not in look().blocks, "a thread that has ended is in no region"


def test_a_fork_goes_on_in_the_region_with_a_time_of_its_own() -> None:
    with headway.noneffective("forked"):
        time.sleep(0.02)
        forked = time.monotonic_ns()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                block = look().blocks[os.getpid()]
                right = block.open == "noneffective.forked" and block.since >= forked
                right = right and total(block) <= time.monotonic_ns() - forked
                status = 0 if right and len(look().blocks) == 1 else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert own().open == "noneffective.forked"


def _in_child(_: int) -> tuple[int, str | None]:
    with headway.poll("pool"):
        return os.getpid(), own().open


def test_regions_in_processes_of_multiprocessing_are_their_own() -> None:
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for pid, state in pool.map(_in_child, range(4)):
            assert (pid != os.getpid(), state) == (True, "poll.pool")


def test_a_signal_handler_marks_its_own_time() -> None:
    states: list[str | None] = []

    def handler(number: int, frame: object) -> None:
        with headway.noneffective("handler"):
            states.append(own().open)

    previous = signal.signal(signal.SIGUSR1, handler)
    try:
        with headway.noneffective("outside"):
            for _ in range(100):
                signal.raise_signal(signal.SIGUSR1)
                assert own().open == "noneffective.outside"
    finally:
        signal.signal(signal.SIGUSR1, previous)
    assert set(states) == {"noneffective.handler"}


def test_importing_headway_loads_no_compiled_code() -> None:
    lines = "import sys, headway; assert not any(m.startswith('headway.') for m in sys.modules), sys.modules"
    subprocess.run([sys.executable, "-c", lines], check=True)


def test_the_header_is_where_get_include_says() -> None:
    assert os.path.isfile(os.path.join(headway.get_include(), "headway.h"))
    with pytest.raises(AttributeError):
        _ = headway.nothing
