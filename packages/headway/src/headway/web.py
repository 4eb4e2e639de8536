"""Requests of web applications as headway's tasks: each is named after its route, as in ``GET /items/{id}``.

`install` is all that a program needs. It works with Starlette and FastAPI, aiohttp, Flask and Django, also where they
are imported later. A request is a task from when its route is known until it is answered. What the server does before
that is a task of asyncio's, or no task. What a framework gives to a worker thread of anyio is a part of its request.

Names are routes as the program wrote them, and never paths: there are as many as routes.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .regions import Steps, numbered_task, set_numbered_task, task_number
from .when_imported import WhenImported

__all__ = ["FRAMEWORKS", "install", "name_request", "uninstall"]

_Coroutine = Callable[..., Awaitable[Any]]

_ids = itertools.count(1 << 32)
"""Ids of requests that are no tasks of asyncio's, which have smaller ones."""
_replaced: list[tuple[Any, str, Any, bool]] = []
"""What `_replace` has put elsewhere: its owner, its name, what it was made of, and whether that was the owner's own."""
_PREFIX = "headway.prefix"
"""Where an ASGI scope has the routes under which the application is mounted."""


def install() -> None:
    """Make tasks of the requests of all frameworks: of those that are imported, and of those that will be."""
    if not any(isinstance(finder, WhenImported) for finder in sys.meta_path):
        WhenImported(FRAMEWORKS)


def uninstall() -> None:
    """Leave requests alone that begin from now on."""
    for finder in [one for one in sys.meta_path if isinstance(one, WhenImported)]:
        finder.stop()
    while _replaced:
        owner, name, inner, own = _replaced.pop()
        if getattr(getattr(owner, name, None), "__wrapped__", None) is not inner:
            continue  # somebody else has replaced it since
        if own:
            setattr(owner, name, inner)
        else:
            delattr(owner, name)


def name_request(name: str) -> None:
    """Name the request that this thread works on: the task of asyncio's whose step runs, or else the thread's own.

    For frameworks that `install` does not know. Call it once the route is known. A task of asyncio's that
    `headway.asyncio` has not made one of headway's stays without a name: the thread goes on with others unseen.
    """
    coroutine = _running_coroutine()
    if coroutine is None:
        set_numbered_task(task_number(name), numbered_task()[1])
    elif isinstance(coroutine, Steps):
        coroutine.name = task_number(name)
        set_numbered_task(coroutine.name, coroutine.id)


def _running_coroutine() -> object:
    """Return the coroutine of the running task of asyncio's; None: none runs in this thread."""
    asyncio = sys.modules.get("asyncio")
    try:
        running = None if asyncio is None else asyncio.current_task()
    except RuntimeError:  # this thread has no event loop
        return None
    return None if running is None else running.get_coro()


@contextmanager
def _request(number: int, id: int) -> Iterator[None]:
    """Have this thread work on a request meanwhile."""
    before = numbered_task()
    set_numbered_task(number, id)
    try:
        yield
    finally:
        set_numbered_task(*before)


def _replace(owner: Any, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace a method or a function by a wrapped one; where there is none, leave the framework alone."""
    inner = getattr(owner, name, None)
    if inner is not None and not hasattr(inner, "_headway"):
        wrapped = functools.wraps(inner)(wrap(inner))
        wrapped._headway = True  # type: ignore[attr-defined]
        _replaced.append((owner, name, inner, name in vars(owner)))
        setattr(owner, name, wrapped)


# ---- Starlette; the routes of FastAPI are derived from its ----


def _starlette(routing: Any) -> None:
    for kind in (routing.Route, routing.WebSocketRoute):
        _replace(kind, "handle", _named_by_path)
    _replace(routing.Mount, "handle", _with_prefix)


def _named_by_path(handle: _Coroutine) -> _Coroutine:
    async def named(self: Any, scope: Any, receive: Any, send: Any) -> None:
        name_request(f"{scope.get('method', 'WEBSOCKET')} {scope.get(_PREFIX, '')}{self.path}")
        await handle(self, scope, receive, send)

    return named


def _with_prefix(handle: _Coroutine) -> _Coroutine:
    async def prefixed(self: Any, scope: Any, receive: Any, send: Any) -> None:
        await handle(self, {**scope, _PREFIX: scope.get(_PREFIX, "") + self.path}, receive, send)

    return prefixed


def _anyio(to_thread: Any) -> None:
    _replace(to_thread, "run_sync", _carrying_the_task)


def _carrying_the_task(run_sync: _Coroutine) -> _Coroutine:
    async def carrying(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        number, id = numbered_task()

        def in_task(*passed: Any) -> Any:
            with _request(number, id):
                return function(*passed)

        return await run_sync(in_task if number or id else function, *arguments, **options)

    return carrying


# ---- aiohttp: all requests of a connection are one task of asyncio's ----


def _aiohttp(application: Any) -> None:
    _replace(application.Application, "_handle", _until_answered)


def _aiohttp_routes(routes: Any) -> None:
    _replace(routes.UrlDispatcher, "resolve", _named_by_resource)


def _until_answered(handle: _Coroutine) -> _Coroutine:
    async def until_answered(self: Any, request: Any) -> Any:
        steps = _running_coroutine()
        if not isinstance(steps, Steps):
            return await handle(self, request)
        before = steps.name, steps.id
        steps.id = next(_ids)
        set_numbered_task(steps.name, steps.id)
        try:
            return await handle(self, request)
        finally:
            steps.name, steps.id = before
            set_numbered_task(*before)

    return until_answered


def _named_by_resource(resolve: _Coroutine) -> _Coroutine:
    async def named(self: Any, request: Any) -> Any:
        found = await resolve(self, request)
        resource = getattr(getattr(found, "route", None), "resource", None)
        if resource is not None:
            name_request(f"{request.method} {resource.canonical}")
        return found

    return named


# ---- Flask and Django, whose requests are calls ----


def _flask(app: Any) -> None:
    _replace(app.Flask, "full_dispatch_request", functools.partial(_named_by_rule, app))


def _named_by_rule(app: Any, dispatch: Callable[..., Any]) -> Callable[..., Any]:
    def named(*arguments: Any, **options: Any) -> Any:
        request = app.request
        rule = request.url_rule
        name = f"{request.method} {rule.rule}" if rule is not None else request.method
        with _request(task_number(name), next(_ids)):
            return dispatch(*arguments, **options)

    return named


def _django(base: Any) -> None:
    _replace(base.BaseHandler, "_get_response", _in_a_request)
    _replace(base.BaseHandler, "resolve_request", _named_by_match)


def _in_a_request(respond: Callable[..., Any]) -> Callable[..., Any]:
    def in_a_request(self: Any, request: Any) -> Any:
        with _request(task_number(request.method), next(_ids)):
            return respond(self, request)

    return in_a_request


def _named_by_match(resolve: Callable[..., Any]) -> Callable[..., Any]:
    def named(self: Any, request: Any) -> Any:
        match = resolve(self, request)
        name_request(f"{request.method} /{match.route}")
        return match

    return named


FRAMEWORKS: Mapping[str, Callable[[Any], None]] = {
    "starlette.routing": _starlette,
    "anyio.to_thread": _anyio,
    "aiohttp.web_app": _aiohttp,
    "aiohttp.web_urldispatcher": _aiohttp_routes,
    "flask.app": _flask,
    "django.core.handlers.base": _django,
}
"""What makes tasks of a framework's requests, by the module that is given to it."""
