"""The server against everything that may come: malformed, too large, too slow, too many, gone again."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from threading import Thread

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.serving.http import HttpResponse, Limits, Request, Server

LONG = Limits(connections=8, request_seconds=30, idle_seconds=30, answer_seconds=30)
Respond = Callable[[Request], Awaitable[HttpResponse]]


async def echo(request: Request) -> HttpResponse:
    return HttpResponse(HTTPStatus.OK, f"{request.method} {request.target}".encode(), (("Content-Type", "text/plain"),))


@contextmanager
def serving(limits: Limits = LONG, respond: Respond = echo, reserved: str = "/healthy") -> Iterator[tuple[str, int]]:
    """A server in a thread of its own, which always answers ``reserved``; its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    loop = asyncio.new_event_loop()
    failures: list[object] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    ended = asyncio.Event()

    async def run() -> None:
        server = Server([listening], respond, limits, reserved=(reserved,))
        await server.open()
        await ended.wait()
        await server.close()

    running = Thread(target=lambda: loop.run_until_complete(run()))
    running.start()
    try:
        yield listening.getsockname()
    finally:
        loop.call_soon_threadsafe(ended.set)
        running.join()
        loop.close()
    assert failures == []


def say(address: tuple[str, int], *pieces: bytes, half: bool = True) -> bytes:
    """Everything that is answered to this, until the other side closes; ``half``: we have nothing more to say."""
    with socket.create_connection(address, timeout=30) as one:
        with suppress(OSError):  # it may have heard enough
            for piece in pieces:
                one.sendall(piece)
            if half:
                one.shutdown(socket.SHUT_WR)
        return all_of(one)


def all_of(one: socket.socket) -> bytes:
    found = bytearray()  # to which is added in place: an answer may be large
    try:
        while data := one.recv(65536):
            found += data
    except ConnectionResetError:
        pass
    return bytes(found)


def status_of(answer: bytes) -> int:
    assert answer.startswith(b"HTTP/1.1 ")
    return int(answer[9:12])


GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"


def test_a_request_and_its_answer() -> None:
    with serving() as address:
        answer = say(address, GET)
    assert status_of(answer) == 200
    assert b"\r\nContent-Length: 6\r\n" in answer or b"\r\ncontent-length: 6\r\n" in answer
    assert answer.endswith(b"\r\n\r\nGET /x")


def test_head_has_no_body_but_its_length() -> None:
    with serving() as address:
        answer = say(address, b"HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n")
    assert status_of(answer) == 200
    assert b"content-length: 7\r\n" in answer.lower()
    assert answer.endswith(b"\r\n\r\n")


def test_many_requests_on_one_connection_even_without_waiting_for_the_answers() -> None:
    with serving() as address:
        answer = say(address, GET * 5)
    assert answer.count(b"HTTP/1.1 200") == 5


def test_who_asks_again_in_the_same_words_gets_the_same_and_others_what_they_ask_for() -> None:
    head, post = b"HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n", b"POST /y HTTP/1.1\r\nHost: a\r\n\r\n"
    last = b"GET /z HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    with serving() as address:
        for _ in range(2):
            with socket.create_connection(address, timeout=30) as one:
                answers = []
                for request in (GET, GET, head, post, GET, head, post):
                    one.sendall(request)
                    length = 7 if request.startswith((b"HEAD", b"POST")) else 6
                    answer = one.recv(1000)
                    assert f"content-length: {length}".encode() in answer.lower()
                    answers.append(answer.partition(b"\r\n\r\n")[2])
                assert answers == [b"GET /x", b"GET /x", b"", b"POST /y", b"GET /x", b"", b"POST /y"]
                one.sendall(GET[:9])
                one.sendall(GET[9:] + last)
                assert all_of(one).count(b"HTTP/1.1 200") == 2
        assert b"connection: close" in say(address, last, half=False).lower()


def test_a_request_may_come_in_pieces() -> None:
    with serving() as address:
        assert status_of(say(address, *(GET[at : at + 3] for at in range(0, len(GET), 3)))) == 200


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 tls\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),  # no Host
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nBad Header: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", 413),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 413),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * 5_000 + b"\r\n", 431),
    ],
)
def test_what_is_no_good_request_is_told_so_and_the_connection_closed(request_: bytes, status: int) -> None:
    with serving() as address:
        answer = say(address, request_, half=False)
        assert status_of(answer) == status
        assert b"connection: close" in answer.lower()
        assert status_of(say(address, GET)) == 200


@given(
    st.lists(st.binary(max_size=200) | st.sampled_from([b"GET / HTTP/1.1\r\n", b"Host: a\r\n", b"\r\n"]), max_size=8)
)
@settings(max_examples=30)
def test_whatever_comes_the_next_one_is_answered(pieces: list[bytes]) -> None:
    with serving() as address:
        answer = say(address, *pieces)
        assert answer == b"" or status_of(answer) in (200, 400, 413, 431)
        assert status_of(say(address, GET)) == 200


def test_one_who_goes_away_in_the_midst_harms_nobody() -> None:
    body = b"x" * 5_000_000

    async def much(request: Request) -> HttpResponse:
        return HttpResponse(HTTPStatus.OK, body)

    with serving(respond=much) as address:
        for sent in (b"", b"GET", GET):
            with socket.create_connection(address) as one:
                one.sendall(sent)
                if sent == GET:
                    one.recv(100)
        assert say(address, GET).endswith(body)


def test_a_request_that_does_not_end_is_given_up() -> None:
    with serving(Limits(request_seconds=1.0)) as address:
        assert status_of(say(address, GET[:-2], half=False)) == 408
    with serving(Limits(request_seconds=0.2)) as address:
        assert say(address, half=False) == b""  # nothing was begun: nothing is said


def test_a_connection_that_is_not_used_any_more_is_closed() -> None:
    with serving(Limits(idle_seconds=0.2)) as address:
        assert say(address, GET, half=False).count(b"HTTP/1.1") == 1


def test_those_who_do_not_take_their_answers_are_given_up() -> None:
    """Their connections are closed, although something is left to send: otherwise they would stay for ever."""
    many = 20
    before = open_sockets()
    with serving(Limits(answer_seconds=0.1), much) as address, ExitStack() as kept:
        slow = [kept.enter_context(not_reading(address)) for _ in range(many)]
        until(lambda: open_sockets() <= before + many + FEW_OF_A_LOOP)
        assert all(len(rest_of(one)) < MUCH for one in slow)


def test_the_slow_cannot_lock_others_out() -> None:
    with serving(LONG) as address:
        slow = [socket.create_connection(address) for _ in range(3 * LONG.connections)]
        try:
            for one in slow:
                one.sendall(GET[:-2])
            for _ in range(2 * LONG.connections):
                assert status_of(say(address, GET)) == 200
        finally:
            for one in slow:
                one.close()


# ---- the siege ----

MUCH = 4_000_000
FEW_OF_A_LOOP = 5
"""Sockets of the server itself at most: the one that listens, and those by which its loop is woken."""
HEALTHY = b"GET /healthy?now HTTP/1.1\r\nHost: a\r\n\r\n"
BESIEGED = Limits(connections=4, newcomers=6, request_seconds=60, idle_seconds=60, answer_seconds=60)


async def much(request: Request) -> HttpResponse:
    """An answer that no socket's buffers hold, but to what is no ``/much``."""
    return await echo(request) if request.target == "/x" else HttpResponse(HTTPStatus.OK, b"x" * MUCH)


@contextmanager
def not_reading(address: tuple[str, int]) -> Iterator[socket.socket]:
    """One who has asked for much, and takes the first bytes of the answer, so that it has begun, and no more."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(60)
        one.connect(address)
        one.sendall(GET.replace(b"/x", b"/much"))
        assert one.recv(10) == b"HTTP/1.1 2"
        yield one


@contextmanager
def half_asking(address: tuple[str, int]) -> Iterator[socket.socket]:
    """One who was answered, and has sent half of the next request."""
    with socket.create_connection(address, timeout=60) as one:
        one.sendall(GET)
        assert one.recv(1000).endswith(b"GET /x")
        one.sendall(GET[:9])
        yield one


def rest_of(one: socket.socket) -> bytes:
    """What still comes of an answer, of which 10 bytes were taken, and nothing that follows it."""
    found = bytearray()
    with suppress(ConnectionResetError):
        while len(found) < MUCH and (data := one.recv(1 << 20)):
            found += data
    return bytes(found)


def is_served(one: socket.socket, *, asking: bool) -> bool:
    """Whether a connection goes on: the rest of a request is answered, or the rest of an answer comes."""
    if not asking:
        return len(rest_of(one)) >= MUCH
    with suppress(OSError):
        one.sendall(GET[9:])
        return one.recv(1000).endswith(b"GET /x")
    return False


def open_sockets() -> int:
    """How many sockets are open in this process."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
    return found


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@given(st.lists(st.booleans(), min_size=BESIEGED.connections, max_size=BESIEGED.connections), st.integers(1, 3))
@settings(max_examples=20)
def test_those_who_keep_the_server_waiting_longest_are_dropped_in_whichever_direction(
    asking: list[bool], more: int
) -> None:
    with serving(BESIEGED, much) as address, ExitStack() as kept:
        held = [kept.enter_context(half_asking(address) if asks else not_reading(address)) for asks in asking]
        for _ in range(more):
            kept.enter_context(half_asking(address))
        for place, (one, asks) in enumerate(zip(held, asking, strict=True)):
            assert is_served(one, asking=asks) is (place >= more)


def test_who_takes_his_answer_slowly_keeps_the_server_waiting_since_it_began() -> None:
    with serving(BESIEGED, much) as address, ExitStack() as kept:
        dripping = kept.enter_context(not_reading(address))
        others = [kept.enter_context(half_asking(address)) for _ in range(BESIEGED.connections - 1)]
        assert dripping.recv(500_000)
        kept.enter_context(half_asking(address))
        assert len(rest_of(dripping)) < MUCH - 500_000
        assert all(is_served(one, asking=True) for one in others)


def test_health_is_answered_though_those_who_do_not_read_have_all_places() -> None:
    with serving(BESIEGED, much) as address, ExitStack() as kept:
        held = [kept.enter_context(not_reading(address)) for _ in range(BESIEGED.connections)]
        for _ in range(3):
            assert status_of(say(address, HEALTHY)) == 200
        assert all(is_served(one, asking=False) for one in held), "and nobody lost his place by it"


def test_health_is_answered_though_all_places_wait_for_the_server() -> None:
    asked: list[str] = []
    ended = asyncio.Event()

    async def waiting(request: Request) -> HttpResponse:
        asked.append(request.target)
        if request.target == "/x":
            await ended.wait()
            return await echo(request)
        return HttpResponse(HTTPStatus.OK, b"healthy")

    with serving(BESIEGED, waiting) as address, ExitStack() as kept:
        for _ in range(BESIEGED.connections):
            kept.enter_context(socket.create_connection(address)).sendall(GET)
        until(lambda: len(asked) == BESIEGED.connections)
        assert status_of(say(address, GET)) == 503
        assert say(address, HEALTHY).endswith(b"healthy")
        assert say(address, HEALTHY * 3).count(b"200 OK") == 3


def test_the_silent_cannot_lock_others_out_nor_have_more_than_their_places() -> None:
    before = open_sockets()
    with serving(BESIEGED) as address, ExitStack() as kept:
        silent = [kept.enter_context(socket.create_connection(address)) for _ in range(10 * BESIEGED.newcomers)]
        for request in (GET, HEALTHY):
            assert status_of(say(address, request)) == 200
        most = before + len(silent) + BESIEGED.newcomers + BESIEGED.connections + FEW_OF_A_LOOP
        until(lambda: open_sockets() <= most)


def test_the_longest_silent_are_dropped_first() -> None:
    with serving(BESIEGED) as address, ExitStack() as kept:
        silent = [kept.enter_context(socket.create_connection(address)) for _ in range(BESIEGED.newcomers)]
        assert status_of(say(address, HEALTHY)) == 200
        for place, one in enumerate(silent):
            one.settimeout(60)
            with suppress(OSError):
                one.sendall(HEALTHY)
            assert bool(all_but_reset(one)) is (place > 0)


def all_but_reset(one: socket.socket) -> bytes:
    try:
        return one.recv(1000)
    except ConnectionResetError:
        return b""


def test_who_sends_many_requests_at_once_lets_others_have_their_turn() -> None:
    order: list[str] = []
    loops: list[asyncio.AbstractEventLoop] = []
    go = asyncio.Event()

    async def noted(request: Request) -> HttpResponse:
        order.append(request.target)
        loops.append(asyncio.get_running_loop())
        await go.wait()
        return await echo(request)

    many = 1000
    with serving(BESIEGED, noted) as address, socket.create_connection(address, timeout=60) as greedy:
        greedy.sendall(GET * many)
        until(lambda: bool(loops))
        with socket.create_connection(address, timeout=60) as other:
            other.sendall(GET.replace(b"/x", b"/other"))
            loops[0].call_soon_threadsafe(go.set)
            assert other.recv(1000).endswith(b"/other")
        found = bytearray()
        while found.count(b"GET /x") < many:
            data = greedy.recv(65536)
            assert data
            found += data
    assert order.index("/other") < many / 20
