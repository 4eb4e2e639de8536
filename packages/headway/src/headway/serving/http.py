"""An HTTP/1.1 server for reading only: GET and HEAD, small requests, many connections.

h11 implements the protocol; this module sets the limits. A request must arrive within a time limit and be no larger
than a limit. An answer must be taken within a time limit. What the server and the kernel keep for a connection is
limited too.

The number of connections is limited. When there is one more, the connection that has kept the server waiting longest is
closed, whether it sends its request slowly or takes its answer slowly. So slow clients cannot lock others out.

New connections have places of their own. A connection moves to another place when it asks for something, unless that
is answered to everybody at once, such as the server's health. So these answers come even if all other places are taken.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus

import h11

from .places import Places
from .turns import Turns

__all__ = ["HttpResponse", "Limits", "Request", "Server"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of time, size and number."""

    connections: int = 64
    """Connections that have asked for something."""
    newcomers: int = 192
    """Connections beside these: their first request is not complete, or is answered to everybody at once."""
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
_RECEIVE_BUFFER, _SEND_BUFFER = 32_768, 262_144
"""Bytes for which the kernel has room in a connection's buffers, half of what it takes for them (socket(7))."""
_BACKLOG = 1024
"""The number of connections that wait in the kernel to be accepted."""
_AT_ONCE = 16
"""The number of connections that are accepted in a round of the event loop, on each address."""
_TURNS = 4
"""The number of further requests on open connections that are answered in a round."""
_PAUSE = 0.05
"""Seconds until connections are accepted again after the system had no room for one."""
_FORGET = struct.pack("ii", 1, 0)
_MAX_KNOWN = 64
"""The largest number of remembered requests, each within the size limit."""


class _Connection:
    """A connection from the moment at which it is accepted: a socket at first, and a stream once something comes."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.fd = accepted.fileno()
        self.transport: asyncio.Transport | None = None
        self.late: asyncio.TimerHandle | None = None
        """What ends it if nothing comes."""
        self.silent = True
        """Whether nothing has come from it, and no task has it."""
        self.answering = False
        """Whether an answer is being made or sent."""

    def drop(self) -> None:
        """Close it at once. The kernel forgets what the other side has not taken (SO_LINGER in socket(7))."""
        with suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _FORGET)
        if self.transport is not None:
            self.transport.abort()
        elif self.silent:
            self.end_silence()
            self.socket.close()

    def end_silence(self) -> None:
        """Stop waiting for the first bytes."""
        self.silent = False
        asyncio.get_running_loop().remove_reader(self.fd)
        if self.late is not None:
            self.late.cancel()

    def let_go(self) -> None:
        """Close it at once, now that its task ends."""
        self.drop()
        if self.transport is None:
            self.socket.close()


class Server:
    """Answers requests on listening sockets until it is closed."""

    def __init__(
        self,
        listening: Sequence[socket.socket],
        respond: Respond,
        limits: Limits = Limits(),
        *,
        reserved: Collection[str] = (),
    ) -> None:
        """``reserved``: paths that are answered even if all places are taken. Their answers must be small."""
        self._listening, self._respond, self._limits, self._reserved = listening, respond, limits, frozenset(reserved)
        self._newcomers: Places[_Connection] = Places(limits.newcomers)
        self._places: Places[_Connection] = Places(limits.connections)
        self._turns = Turns(_TURNS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._known: dict[bytes, Request] = {}
        """What h11 parsed of a request, by its bytes: a client that asks repeatedly sends the same bytes."""

    async def open(self) -> None:
        """Begin to accept connections."""
        for one in self._listening:
            one.setblocking(False)
            # what is accepted inherits these
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
            one.listen(_BACKLOG)
            self._accept_on(one)

    async def close(self) -> None:
        """Stop accepting, close the connections whose request is awaited, and give the others up to a second."""
        for one in self._listening:
            asyncio.get_running_loop().remove_reader(one)
            one.close()
        for connection in (*self._newcomers, *self._places):
            if not connection.answering:
                self._drop(connection)
        for _ in range(20):
            if not self._tasks:
                break
            await asyncio.sleep(0.05)
        for connection in (*self._newcomers, *self._places):
            self._drop(connection)

    def _accept_on(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:  # it is not closed meanwhile
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Accept a few connections: as many come to be read before more are accepted."""
        for _ in range(_AT_ONCE):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no descriptor or no memory is left: free one, and do not try for a moment
                if not self._drop_longest(self._newcomers):
                    self._drop_longest(self._places)
                loop = asyncio.get_running_loop()
                loop.remove_reader(listening)
                loop.call_later(_PAUSE, self._accept_on, listening)
                return
            self._welcome(accepted)
        self._turns.defer()  # there may be more: they have waited longer than who was answered before

    def _welcome(self, accepted: socket.socket) -> None:
        """Give a new connection a place. It costs little until something comes from it."""
        loop = asyncio.get_running_loop()
        accepted.setblocking(False)
        connection = _Connection(accepted)
        if self._newcomers.full and not self._drop_longest(self._newcomers):
            connection.drop()
            return
        self._newcomers.wait_for(connection)
        loop.add_reader(connection.fd, self._begin, connection)
        connection.late = loop.call_later(self._limits.request_seconds, self._drop, connection)

    def _begin(self, connection: _Connection) -> None:
        """Begin to converse: the first bytes of a connection have come, or its end."""
        connection.end_silence()
        task = asyncio.get_running_loop().create_task(self._converse(connection))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            context = {"message": "a connection has failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)

    def _drop(self, connection: _Connection) -> None:
        self._newcomers.leave(connection)
        self._places.leave(connection)
        connection.drop()

    def _drop_longest(self, places: Places[_Connection]) -> bool:
        """Close the connection that keeps the server waiting longest. Return False if none does."""
        longest = places.longest()
        if longest is not None:
            self._drop(longest)
        return longest is not None

    def _of(self, connection: _Connection) -> Places[_Connection]:
        """Return the places in which a connection has one. Raises OSError if it has none: it has been dropped."""
        for places in (self._places, self._newcomers):
            if connection in places:
                return places
        raise ConnectionAbortedError

    async def _converse(self, connection: _Connection) -> None:
        protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=self._limits.head // 2)
        first = True
        try:
            reader, writer = await self._streams(connection)
            while await self._exchange(connection, protocol, reader, writer, first):
                if protocol.our_state is h11.DONE:
                    protocol.start_next_cycle()
                first = False
                await self._turns.mine()  # who has sent many requests at once lets others have theirs
            writer.close()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, h11.ProtocolError):
            connection.let_go()  # the other side is gone or too slow
        except BaseException:
            connection.let_go()
            raise
        finally:
            self._newcomers.leave(connection)
            self._places.leave(connection)

    async def _streams(self, connection: _Connection) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return the streams of a connection. Raises OSError if it has been dropped."""
        loop = asyncio.get_running_loop()
        self._of(connection)
        reader = asyncio.StreamReader(limit=self._limits.head, loop=loop)
        transport, protocol = await loop.connect_accepted_socket(
            lambda: asyncio.StreamReaderProtocol(reader, loop=loop), connection.socket
        )
        connection.transport = transport
        self._of(connection)
        transport.set_write_buffer_limits(high=0)  # an answer is taken when the kernel has all of it
        return reader, asyncio.StreamWriter(transport, protocol, reader, loop)

    async def _exchange(
        self,
        connection: _Connection,
        protocol: h11.Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        first: bool,
    ) -> bool:
        """Serve one request. Return whether another may follow."""
        if not first:
            self._of(connection).wait_for(connection)
            connection.answering = False
        request = await self._request_or_refusal(protocol, reader, first)
        connection.answering = True
        if request is None:
            return False
        if isinstance(request, HttpResponse):
            self._of(connection).wait_for(connection)
            await self._send(protocol, writer, request, close=True)
            return False
        if not self._admit(connection, request):
            await self._send(protocol, writer, _ALL_TAKEN, close=True)
            return False
        known = protocol.their_state is h11.IDLE  # the request was found in the table of known ones
        answer, head = await self._respond(request), request.method == "HEAD"
        self._of(connection).wait_for(connection)
        if known:
            await self._send_again(writer, answer, head=head)
            return True
        await self._send(protocol, writer, answer, head=head)
        return protocol.states == {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}

    def _admit(self, connection: _Connection, request: Request) -> bool:
        """Give a connection that asks for something the place for it. Return False if there is none."""
        of = self._of(connection)
        if of is self._newcomers and request.target.partition("?")[0] not in self._reserved:
            if self._places.full and not self._drop_longest(self._places):
                return False
            self._newcomers.leave(connection)
            of = self._places
        of.serve(connection)
        return True

    async def _request_or_refusal(
        self, protocol: h11.Connection, reader: asyncio.StreamReader, first: bool
    ) -> Request | HttpResponse | None:
        """Return the next request, or an answer that refuses it; None: the other side sends nothing more."""
        try:
            return await self._request(protocol, reader, first)
        except TimeoutError:
            return _plain(HTTPStatus.REQUEST_TIMEOUT, "the request took too long")
        except h11.RemoteProtocolError as error:
            status = HTTPStatus(error.error_status_hint or 400)
            words = (
                "the request is too large"
                if status == 431
                else f"this is not a valid request: {ascii(str(error))[1:-1]}"
            )
            return _plain(status, words)

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


_ALL_TAKEN = _plain(HTTPStatus.SERVICE_UNAVAILABLE, "as many are being answered as can be: try again")
