"""An HTTP/1.1 server for reading only: GET and HEAD, small requests, many connections.

h11 implements the protocol; this module sets the limits. The number of connections is limited. When there is one more,
the connection that has kept the server waiting longest is closed, so that slow clients cannot lock others out. A
request must arrive within a time limit and be no larger than a limit. An answer must be read within a time limit.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

import h11

__all__ = ["HttpResponse", "Limits", "Request", "Server"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of time, size and number."""

    connections: int = 64
    head: int = 16_384
    """Bytes of a request's line and headers. More are refused; half as many are always accepted."""
    request_seconds: float = 10.0
    """Seconds from a request's first byte, or the connection's beginning, to the request's last byte."""
    idle_seconds: float = 120.0
    """Seconds between two requests."""
    answer_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request without a body."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    """Names in lower case."""

    def header(self, name: str) -> str:
        """Return a header's values, joined by commas (RFC 9110, 5.3); empty: there is none."""
        return ", ".join(value for other, value in self.headers if other == name)


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An answer to a request."""

    status: HTTPStatus
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = field(default=())


Respond = Callable[[Request], Awaitable[HttpResponse]]
_CHUNK = 65_536
_MAX_KNOWN = 64
"""The largest number of remembered requests, each within the size limit."""


class Server:
    """Answers requests on listening sockets until it is closed."""

    def __init__(self, listening: Sequence[socket.socket], respond: Respond, limits: Limits = Limits()) -> None:
        self._listening, self._respond, self._limits = listening, respond, limits
        self._servers: list[asyncio.Server] = []
        self._open: set[asyncio.StreamWriter] = set()
        self._waiting: dict[asyncio.StreamWriter, None] = {}
        """The connections whose request is awaited, the longest waiting first."""
        self._known: dict[bytes, Request] = {}
        """What h11 parsed of a request, by its bytes: a client that asks repeatedly sends the same bytes."""

    async def open(self) -> None:
        """Begin to accept connections."""
        for one in self._listening:
            # asyncio sets it only if it recognises the socket as TCP
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._servers.append(await asyncio.start_server(self._converse, sock=one, limit=_CHUNK))

    async def close(self) -> None:
        """Stop accepting, close the connections that wait, and give the others up to a second."""
        for server in self._servers:
            server.close()
        for writer in list(self._waiting):
            writer.transport.abort()
        for _ in range(20):
            if not self._open:
                break
            await asyncio.sleep(0.05)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= self._limits.connections and not self._drop_one():
            writer.transport.abort()
            return
        self._open.add(writer)
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head // 2)
        first = True
        try:
            while await self._exchange(connection, reader, writer, first):
                if connection.our_state is h11.DONE:
                    connection.start_next_cycle()
                first = False
        except (OSError, TimeoutError, asyncio.IncompleteReadError, h11.ProtocolError):
            pass  # the other side is gone or too slow
        finally:
            self._open.discard(writer)
            self._waiting.pop(writer, None)
            with suppress(OSError):
                writer.close()

    def _drop_one(self) -> bool:
        """Close the connection that has been waited for longest. Return False if none is waiting."""
        oldest = next(iter(self._waiting), None)
        if oldest is None:
            return False
        del self._waiting[oldest]
        self._open.discard(oldest)
        oldest.transport.abort()
        return True

    async def _exchange(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, first: bool
    ) -> bool:
        """Serve one request. Return whether another may follow."""
        self._waiting[writer] = None
        try:
            request: Request | HttpResponse | None = await self._request(connection, reader, first)
        except TimeoutError:
            request = _plain(HTTPStatus.REQUEST_TIMEOUT, "the request took too long")
        except h11.RemoteProtocolError as error:
            status = HTTPStatus(error.error_status_hint or 400)
            words = (
                "the request is too large"
                if status == 431
                else f"this is not a valid request: {ascii(str(error))[1:-1]}"
            )
            request = _plain(status, words)
        finally:
            self._waiting.pop(writer, None)
        if request is None:
            return False
        if isinstance(request, HttpResponse):
            await self._send(connection, writer, request, close=True)
            return False
        if connection.their_state is h11.IDLE:  # the request was found in the table of known ones
            await self._send_again(writer, await self._respond(request), head=request.method == "HEAD")
            return True
        await self._send(connection, writer, await self._respond(request), head=request.method == "HEAD")
        return connection.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}

    async def _request(
        self, connection: h11.Connection, reader: asyncio.StreamReader, first: bool
    ) -> Request | HttpResponse | None:
        """Return the next request, or an answer that refuses it; None: the other side sends nothing more.

        Raises TimeoutError if a request began and did not end in time, and h11.RemoteProtocolError.
        """
        limits, begun, whole = self._limits, False, b""
        try:
            async with asyncio.timeout(limits.request_seconds if first else limits.idle_seconds) as deadline:
                while (event := connection.next_event()) is h11.NEED_DATA:
                    data = await reader.read(limits.head // 2)  # h11 checks the size when data is missing
                    if data and not begun and not first:
                        deadline.reschedule(asyncio.get_running_loop().time() + limits.request_seconds)
                    if not begun and data in self._known and not connection.trailing_data[0]:
                        return self._known[data]
                    whole = data if not begun and not connection.trailing_data[0] else b""
                    begun = begun or bool(data)
                    connection.receive_data(data)
        except TimeoutError:
            if begun:
                raise
            return None
        if not isinstance(event, h11.Request):
            return None
        if not isinstance(connection.next_event(), h11.EndOfMessage):
            return _plain(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "requests must not have a body")
        request = Request(
            event.method.decode("ascii"),
            event.target.decode("ascii", "replace"),
            tuple((name.decode("ascii"), value.decode("latin-1")) for name, value in event.headers),
        )
        lasting = event.http_version == b"1.1" and not request.header("connection") and not request.header("expect")
        if whole and lasting and not connection.trailing_data[0] and len(self._known) < _MAX_KNOWN:
            self._known[whole] = request
        return request

    async def _send_again(self, writer: asyncio.StreamWriter, answer: HttpResponse, *, head: bool) -> None:
        """Send the answer to a known request."""
        data = _head_bytes(answer.status, int(time.time()), len(answer.body), answer.headers)
        body = memoryview(b"" if head else answer.body)
        writer.write(data + bytes(body[:_CHUNK]))
        async with asyncio.timeout(self._limits.answer_seconds):
            for at in range(_CHUNK, len(body), _CHUNK):
                await writer.drain()
                writer.write(bytes(body[at : at + _CHUNK]))
            await writer.drain()

    async def _send(
        self,
        connection: h11.Connection,
        writer: asyncio.StreamWriter,
        answer: HttpResponse,
        *,
        close: bool = False,
        head: bool = False,
    ) -> None:
        if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        headers = answer.headers if not close else (*answer.headers, ("Connection", "close"))
        data = connection.send(_head(answer.status, int(time.time()), len(answer.body), headers)) or b""
        body = memoryview(b"" if head else answer.body)
        async with asyncio.timeout(self._limits.answer_seconds):
            for at in range(0, len(body), _CHUNK):
                data += connection.send(h11.Data(data=bytes(body[at : at + _CHUNK]))) or b""
                if len(data) >= _CHUNK:
                    writer.write(data)
                    data = b""
                    await writer.drain()
            writer.write(data + (connection.send(h11.EndOfMessage()) or b""))
            await writer.drain()


@lru_cache(maxsize=64)
def _head(status: HTTPStatus, second: int, length: int, headers: tuple[tuple[str, str], ...]) -> h11.Response:
    """Return the status and headers, which are the same for all answers within a second."""
    all_headers = [("Date", formatdate(second, usegmt=True)), ("Content-Length", str(length)), *headers]
    return h11.Response(status_code=status, headers=all_headers, reason=status.phrase.encode())


@lru_cache(maxsize=64)
def _head_bytes(status: HTTPStatus, second: int, length: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    """Return the bytes that h11 sends for them on a connection that is kept open."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    connection.next_event()
    return connection.send(_head(status, second, length, headers)) or b""


def _plain(status: HTTPStatus, words: str) -> HttpResponse:
    """Return a plain text answer."""
    headers = ("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff")
    return HttpResponse(status, f"{words}\n".encode(), headers)
