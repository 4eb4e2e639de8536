"""headway serve under siege: idle, dripping, deaf and greedy clients at once, whether health and figures still come.

The clients are in a process of their own and come from many addresses of loopback, so that ports suffice. Whoever is
closed connects again, until the end. Meanwhile this process asks for health, with a new connection each time, and for
the metrics as Prometheus does. The times of a reading must add up to the same window for each processor, and grow as
much for the thread that is measured.
"""

from __future__ import annotations

import http.client
import os
import re
import resource
import selectors
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from .common import heading, load, table
from .serve import Served, serving

SECONDS = 20.0
IDLE, DRIPPING, DEAF, GREEDY = 10_000, 300, 64, 16
"""How many of each kind want to be connected at any time."""
HEALTH_SECONDS = 0.5
"""The goal: health is answered within this time."""
_AGAIN = 2_000
"""The number of connections that are made again each second, at most."""
_FROM_EACH = 5_000
"""The number of connections from one address."""
_METRICS = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
_AT_ONCE = 50
"""The number of requests that the deaf and the greedy send at once."""


@dataclass(eq=False)
class _Client:
    """One who besieges the server."""

    kind: str
    address: str
    one: socket.socket | None = None
    sent: int = 0


class _Besiegers:
    """All clients, in one loop."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._selector = selectors.DefaultSelector()
        kinds = ["deaf"] * DEAF + ["greedy"] * GREEDY + ["dripping"] * DRIPPING + ["idle"] * IDLE
        clients = [_Client(kind, f"127.0.1.{1 + place // _FROM_EACH}") for place, kind in enumerate(kinds)]
        self._out = clients[::-1]
        self._dripping = [client for client in clients if client.kind == "dripping"]

    def run(self) -> None:
        """Besiege the server until this process is ended."""
        began = time.monotonic()
        made = 0
        drip = began
        while True:
            now = time.monotonic()
            while self._out and made < _AGAIN * (now - began):
                self._connect(self._out.pop())
                made += 1
            began, made = (now, 0) if now - began > 1 else (began, made)
            if now >= drip:
                drip = now + 1
                for client in self._dripping:
                    self._drip(client)
            for key, events in self._selector.select(0.01):
                self._serve(key.data, events)

    def _connect(self, client: _Client) -> None:
        client.one = one = socket.socket()
        client.sent = 0
        one.setblocking(False)
        if client.kind == "deaf":
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
        one.bind((client.address, 0))
        with suppress(BlockingIOError):
            one.connect(("127.0.0.1", self._port))
        talks = client.kind in ("deaf", "greedy")
        self._selector.register(one, selectors.EVENT_READ | (selectors.EVENT_WRITE if talks else 0), client)

    def _lose(self, client: _Client) -> None:
        if client.one is not None:
            self._selector.unregister(client.one)
            client.one.close()
            client.one = None
            self._out.insert(0, client)

    def _drip(self, client: _Client) -> None:
        if client.one is None:
            return
        try:
            client.one.send(_METRICS[client.sent : client.sent + 1])
            client.sent += client.sent < len(_METRICS) - 1
        except OSError:
            self._lose(client)

    def _serve(self, client: _Client, events: int) -> None:
        assert client.one is not None
        try:
            if events & selectors.EVENT_WRITE:
                client.one.send(_METRICS * _AT_ONCE)
                if client.kind == "deaf":  # from now on it notices nothing but its end
                    self._selector.modify(client.one, selectors.EVENT_WRITE, client)
            elif not client.one.recv(1 << 18):
                self._lose(client)
        except BlockingIOError:
            pass
        except OSError:
            self._lose(client)


@contextmanager
def _besieged(port: int) -> Iterator[None]:
    """Have the server besieged meanwhile."""
    pid = os.fork()
    if pid == 0:
        try:
            _Besiegers(port).run()
        finally:
            os._exit(1)
    try:
        time.sleep(IDLE / _AGAIN + 1)  # until all have been there
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _get(server: Served, path: str) -> tuple[float, bytes]:
    """Return how long an answer took on a new connection, s, and its body. Raises OSError and HTTPException."""
    start = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            raise http.client.HTTPException(answer.status)
        return time.monotonic() - start, body
    finally:
        connection.close()


def _sums(body: bytes) -> tuple[float, list[float]]:
    """Return the sum of all states' times, s: of the thread that is measured, and of each processor."""
    sums: Counter[str] = Counter()
    pattern = r'^headway_(thread|processor)_state_seconds_total\{(?:pid|cpu)="(\d+)".*\} (\S+)$'
    for what, number, seconds in re.findall(pattern, body.decode(), re.MULTILINE):
        sums[f"{what} {number}"] += float(seconds)  # type: ignore[assignment]
    threads = sum(found for name, found in sums.items() if name.startswith("thread"))
    return float(threads), [float(found) for name, found in sums.items() if name.startswith("processor")]


class _Asked:
    """What one who asks again and again has met with."""

    def __init__(self, ask: Callable[[], tuple[float, bytes]]) -> None:
        self._ask = ask
        self.took: list[float] = []
        self.refused = 0
        self.read: list[tuple[float, list[float]]] = []
        """The sums of each reading (`_sums`)."""

    def once(self) -> None:
        """Ask once."""
        try:
            took, body = self._ask()
        except (OSError, http.client.HTTPException):
            self.refused += 1
            return
        self.took.append(took)
        if body.startswith(b"#"):
            self.read.append(_sums(body))

    def row(self, name: str) -> list[str]:
        """Return a line of the table."""
        took = sorted(self.took) or [float("nan")]
        asked = len(self.took) + self.refused
        times = [f"{took[int(len(took) * share)] * 1000:.1f} ms" for share in (0.5, 0.99)]
        return [name, f"{asked}", f"{self.refused}", *times, f"{took[-1] * 1000:.0f} ms"]


def _ask_for(seconds: float, server: Served) -> tuple[_Asked, _Asked, list[int]]:
    """Ask for health five times a second, and for the metrics once; return that, and the most memory in bytes."""
    health, metrics = (_Asked(partial(_get, server, path)) for path in ("/-/healthy", "/metrics"))
    most = server.memory()
    end = time.monotonic() + seconds
    turn = 0
    while time.monotonic() < end:
        health.once()
        if turn % 5 == 0:
            metrics.once()
        most = [max(pair) for pair in zip(most, server.memory(), strict=True)]
        turn += 1
        time.sleep(0.2)
    return health, metrics, most


def _wrong(read: list[tuple[float, list[float]]]) -> int:
    """Return how many readings break a law.

    All processors have the same window. The thread's began a moment later, and from then on grows with it.
    """
    late = read[0][1][0] - read[0][0] if read else 0.0
    before, wrong = 0.0, 0
    for thread, processors in read:
        window = processors[0]
        apart = max(processors) - min(processors)
        wrong += apart > 1e-6 or abs(window - thread - late) > 1e-6 or window < before
        before = window
    return wrong


def main() -> None:
    """Print the table, and whether the goals are reached."""
    print("\n## Serving under siege")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    wanted = IDLE + DRIPPING + DEAF + GREEDY + 100
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(wanted, 1024), max(wanted, hard)))
    sleeper = subprocess.Popen(["sleep", "3600"])
    rows = []
    try:
        with serving(["-p", str(sleeper.pid)]) as server:
            before = _ask_for(5, server)
            with _besieged(server.port):
                during = _ask_for(SECONDS, server)
            after = _ask_for(5, server)
    finally:
        sleeper.kill()
        sleeper.wait()
    for name, (health, metrics, most) in (("before", before), ("under siege", during), ("after", after)):
        memory = " + ".join(f"{size >> 20}" for size in most)
        rows.append([*health.row(f"health, {name}"), ""])
        rows.append([*metrics.row(f"metrics, {name}"), f"{memory} MiB"])
    greedy = f"{GREEDY} with {_AT_ONCE} requests at once"
    print(f"\n### {IDLE:,} idle, {DRIPPING} dripping, {DEAF} that do not read, {greedy}\n")
    print(table(["", "asked", "refused", "median", "99 %", "worst", "resident, most"], rows))
    health = during[0]
    read = [found for _, metrics, _ in (before, during, after) for found in metrics.read]
    worst = max(health.took, default=float("inf"))
    reached = worst <= HEALTH_SECONDS and not health.refused
    print(f"\nhealth within {HEALTH_SECONDS} s each time: {'yes' if reached else 'NO'}")
    print(f"readings that do not add up, or go backwards: {_wrong(read)} of {len(read)}")
    print(f"\n({load()} at the end)")


if __name__ == "__main__":
    print(heading())
    main()
