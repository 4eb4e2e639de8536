"""The server against everything that may come: malformed, too large, too slow, too many, gone again."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
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
def serving(limits: Limits = LONG, respond: Respond = echo) -> Iterator[tuple[str, int]]:
    """A server in a thread of its own; its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    loop = asyncio.new_event_loop()
    failures: list[object] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    ended = asyncio.Event()

    async def run() -> None:
        server = Server([listening], respond, limits)
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


def test_one_who_does_not_take_his_answer_is_given_up() -> None:
    async def much(request: Request) -> HttpResponse:
        return HttpResponse(HTTPStatus.OK, b"x" * 50_000_000)

    with serving(Limits(connections=1, answer_seconds=0.3), much) as address, socket.create_connection(address) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(GET)
        assert slow.recv(10)
        answer, deadline = b"", time.monotonic() + 60
        while not answer and time.monotonic() < deadline:  # while he has the only place, others are turned away
            answer = say(address, GET)
        assert status_of(answer) == 200


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
