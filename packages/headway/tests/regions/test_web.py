"""Requests as tasks: each framework's, by driving a small application of it in this process."""

from __future__ import annotations

import asyncio
import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import headway.asyncio
import headway.web
from headway.regions import numbered_task, task_number
from headway.when_imported import WhenImported

pytestmark = pytest.mark.unit

IDLE = (0, 0)


@pytest.fixture
def seen() -> Iterator[list[tuple[int, int]]]:
    """What handlers note: the task that their thread works on. Nobody works on any afterwards."""
    headway.asyncio.install()
    headway.web.install()
    yield []
    headway.asyncio.uninstall()
    assert numbered_task() == IDLE


def names(seen: list[tuple[int, int]], *expected: str) -> None:
    assert [number for number, _ in seen] == [task_number(name) for name in expected]
    assert all(id for _, id in seen)


def asgi(application: Any, *paths: str) -> list[int]:
    """Ask an ASGI application for these paths, each in a task of its own, as a server does; return the statuses."""
    statuses: list[int] = []

    async def ask(path: str) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        scope = {"type": "http", "method": "GET", "path": path, "root_path": "", "query_string": b"", "headers": []}
        await application(scope, receive, send)

    async def every() -> None:
        for path in paths:
            await asyncio.get_running_loop().create_task(ask(path))

    asyncio.run(every())
    return statuses


def test_a_request_of_starlette_has_the_name_of_its_route(seen: list[tuple[int, int]]) -> None:
    applications = pytest.importorskip("starlette.applications")
    routing = pytest.importorskip("starlette.routing")
    responses = pytest.importorskip("starlette.responses")

    async def item(request: Any) -> Any:
        seen.append(numbered_task())
        await asyncio.sleep(0)
        seen.append(numbered_task())
        return responses.PlainTextResponse("x")

    def in_a_worker(request: Any) -> Any:
        seen.append(numbered_task())
        return responses.PlainTextResponse("x")

    inner = [routing.Route("/y/{z}", item)]
    application = applications.Starlette(
        routes=[
            routing.Route("/items/{n}", item),
            routing.Route("/sync", in_a_worker),
            routing.Mount("/of/{whom}", routes=inner),
        ]
    )
    assert asgi(application, "/items/1", "/items/2", "/sync", "/of/a/y/1", "/nowhere") == [200, 200, 200, 200, 404]
    expected = ["GET /items/{n}"] * 4 + ["GET /sync"] + ["GET /of/{whom}/y/{z}"] * 2
    names(seen, *expected)
    assert len({id for _, id in seen}) == 4, "each request is a task of its own"


def test_a_request_of_flask_has_the_name_of_its_rule(seen: list[tuple[int, int]]) -> None:
    flask = pytest.importorskip("flask")
    application = flask.Flask("application")

    def user(n: int) -> str:
        seen.append(numbered_task())
        return "x"

    application.add_url_rule("/u/<int:n>", view_func=user)
    client = application.test_client()
    assert [client.get(path).status_code for path in ("/u/1", "/u/2", "/u/x")] == [200, 200, 404]
    names(seen, "GET /u/<int:n>", "GET /u/<int:n>")


def test_a_request_of_aiohttp_has_the_name_of_its_resource(seen: list[tuple[int, int]]) -> None:
    web = pytest.importorskip("aiohttp.web")
    utilities = pytest.importorskip("aiohttp.test_utils")

    async def user(request: Any) -> Any:
        seen.append(numbered_task())
        await asyncio.sleep(0)
        seen.append(numbered_task())
        return web.Response(text="x")

    async def every() -> list[int]:
        application = web.Application()
        application.add_routes([web.get("/u/{n}", user)])
        async with utilities.TestClient(utilities.TestServer(application)) as client:
            return [(await client.get(path)).status for path in ("/u/1", "/u/2", "/nowhere")]

    assert asyncio.run(every()) == [200, 200, 404]
    names(seen, *["GET /u/{n}"] * 4)
    assert len({id for _, id in seen}) == 2


def test_a_request_of_django_has_the_name_of_its_route(seen: list[tuple[int, int]]) -> None:
    pytest.importorskip("django")
    urls = ModuleType("urls_of_a_test")
    conf = importlib.import_module("django.conf")
    if not conf.settings.configured:
        conf.settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=urls.__name__, SECRET_KEY="x")
        importlib.import_module("django").setup()

    def user(request: Any, n: int) -> Any:
        seen.append(numbered_task())
        return importlib.import_module("django.http").HttpResponse("x")

    urls.urlpatterns = [importlib.import_module("django.urls").path("u/<int:n>", user)]  # type: ignore[attr-defined]
    sys.modules[urls.__name__] = urls
    client = importlib.import_module("django.test").Client()
    assert [client.get(path).status_code for path in ("/u/1", "/u/x")] == [200, 404]
    names(seen, "GET /u/<int:n>")


def test_a_program_names_what_no_framework_does(seen: list[tuple[int, int]]) -> None:
    async def request() -> None:
        headway.web.name_request("GET /own")
        await asyncio.sleep(0)
        seen.append(numbered_task())

    asyncio.run(request())
    names(seen, "GET /own")


def test_a_coroutine_that_is_no_task_of_headway_leaves_no_name_behind() -> None:
    """Its thread goes on with other coroutines, and nothing tells."""

    async def request() -> tuple[int, int]:
        headway.web.name_request("GET /own")
        await asyncio.sleep(0)
        return numbered_task()

    assert asyncio.run(request()) == IDLE
    assert numbered_task() == IDLE


def test_requests_in_another_kind_of_event_loop_have_their_names(seen: list[tuple[int, int]]) -> None:
    uvloop = pytest.importorskip("uvloop")
    headway.asyncio.install(kind=uvloop.Loop)

    async def request() -> None:
        headway.web.name_request("GET /own")
        await asyncio.sleep(0)
        seen.append(numbered_task())

    async def main() -> None:
        await asyncio.get_running_loop().create_task(request())

    uvloop.run(main())
    names(seen, "GET /own")


def test_what_is_there_already_is_called_for_at_once() -> None:
    called: list[ModuleType] = []
    WhenImported({"sys": called.append})
    assert called == [sys]
    assert not isinstance(sys.meta_path.pop(0), type)


def test_a_function_is_called_once_when_its_module_has_been_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "module_of_a_test.py").write_text("answer = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    called: list[ModuleType] = []
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    WhenImported({"module_of_a_test": called.append})
    importlib.import_module("json")
    assert called == []
    module: Any = importlib.import_module("module_of_a_test")
    assert called == [module]
    assert called[0].answer == 42
    sys.modules.pop("module_of_a_test")
    importlib.import_module("module_of_a_test")
    assert len(called) == 1


def test_what_is_put_into_python_knows_the_same_frameworks() -> None:
    text = (Path(headway.asyncio.__file__).parent / "startup" / "sitecustomize.py").read_text()
    listed = re.search(r"_FRAMEWORKS = \(([^)]*)\)", text)
    assert listed is not None
    assert re.findall(r'"([^"]+)"', listed[1]) == list(headway.web.FRAMEWORKS)
