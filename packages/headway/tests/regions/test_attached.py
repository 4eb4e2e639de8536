"""Marks that are installed while event loops run, and taken out again: the program's own stay as they are."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

import headway.asyncio
import headway.web
from headway.asyncio import attached
from headway.when_imported import WhenImported

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    methods, finders = vars(asyncio.BaseEventLoop).copy(), list(sys.meta_path)
    yield
    for who in ("one", "two"):
        attached.end(who)
    headway.asyncio.uninstall()
    for finder in [each for each in sys.meta_path if each not in finders]:
        sys.meta_path.remove(finder)
    assert vars(asyncio.BaseEventLoop) == methods


async def given() -> bool:
    """Whether tasks of this loop are marked."""
    return asyncio.get_running_loop().get_task_factory() is not None


def test_loops_that_run_in_any_thread_are_marked_until_the_end() -> None:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    ask = asyncio.run_coroutine_threadsafe
    try:
        assert not ask(given(), loop).result(20)
        assert attached.begin("one")
        assert attached.begin("two")
        assert attached.begin("two")
        assert ask(given(), loop).result(20)
        assert asyncio.run(given()), "those that begin later are, too"
        assert attached.end("one")
        assert ask(given(), loop).result(20), "the other one still measures"
        assert attached.end("two")
        assert attached.end("two")
        assert not ask(given(), loop).result(20)
        assert not asyncio.run(given())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_what_the_program_has_installed_stays() -> None:
    headway.asyncio.install()
    headway.web.install()
    attached.begin("one")
    attached.end("one")
    assert asyncio.run(given())
    assert any(isinstance(finder, WhenImported) for finder in sys.meta_path)


def test_a_framework_is_as_before_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    class Route:
        async def handle(self) -> None: ...

    class WebSocketRoute(Route): ...

    class Mount(Route): ...

    handle = Route.handle
    routing = SimpleNamespace(Route=Route, WebSocketRoute=WebSocketRoute, Mount=Mount, __name__="starlette.routing")
    monkeypatch.setitem(sys.modules, "starlette.routing", routing)
    attached.begin("one")
    assert Route.handle is not handle
    attached.end("one")
    assert Route.handle is handle
    assert "handle" not in vars(Mount)
