"""Servers at saturation, each with its load generator on the same machine, over loopback.

A `Load` starts its server as a child of this process and says how many operations a second it serves. What is not
installed is a reason, not an error.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LOADS", "Load", "Running", "descendants"]

SOURCES = Path(__file__).parent / "loads"
Word = str | os.PathLike[str]
Words = Sequence[Word]
START = 20.0
"""Seconds that a server may take to answer."""


@dataclass(frozen=True)
class Running:
    """A server that answers."""

    pid: int
    serve: Callable[[float], float]
    """Loads the server for about so many seconds; returns operations a second."""

    def pids(self) -> list[int]:
        """Return the PIDs of the server and of the processes below it that are there to stay."""
        before = set(descendants(self.pid))
        time.sleep(0.3)  # what served the last connections may be about to end
        return [self.pid, *sorted(before.intersection(descendants(self.pid)))]


@dataclass(frozen=True)
class Load:
    """A server and what it is asked."""

    name: str
    programs: tuple[str, ...]
    """Programs that must be installed."""
    start: Callable[[Path], Iterator[Running]]

    def missing(self) -> list[str]:
        """Return the programs that are not installed."""
        return [program for program in self.programs if not _program(program)]

    @contextmanager
    def running(self, scratch: Path) -> Iterator[Running]:
        """Run the server, with its files in ``scratch``."""
        yield from self.start(scratch)


def descendants(pid: int) -> list[int]:
    """Return the PIDs of all living processes below this one."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _program(name: str) -> str | None:
    """Return the path of a program, also of one that Debian keeps out of PATH (nginx, PostgreSQL)."""
    places = [os.environ.get("PATH", os.defpath), "/usr/sbin"]
    places += [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    return shutil.which(name, path=os.pathsep.join(places))


def _installed(name: str) -> str:
    found = _program(name)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed")
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def _server(words: Words, port: int, **how: object) -> Iterator[int]:
    """Run a server, and wait until it accepts connections. Yields its PID."""
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **how
    )  # type: ignore[call-overload]
    try:
        end = time.monotonic() + START
        while True:
            if process.poll() is not None:
                raise RuntimeError(f"{words[0]} ended with status {process.returncode}")
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if time.monotonic() > end:
                    raise RuntimeError(f"{words[0]} did not answer within {START:.0f} s") from None
                time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _output(words: Words, **how: object) -> str:
    how |= {"check": True, "capture_output": True, "text": True, "stdin": subprocess.DEVNULL}
    return str(subprocess.run(words, **how).stdout)  # type: ignore[call-overload]


def _number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if not found:
        raise RuntimeError(f"the load generator did not say how much it did: {text.strip()[-200:]!r}")
    return float(found[1])


def _by_number(do: Callable[[int], float], probe: int) -> Callable[[float], float]:
    """Return what loads for a time, of what loads with a number of requests and returns requests a second.

    ``probe`` requests say how fast the server is, since a tool can make it a tenth as fast.
    """

    def serve(seconds: float) -> float:
        return do(max(probe, int(do(probe) * seconds)))

    return serve


# ---- redis ----


def _redis(options: Sequence[str]) -> Callable[[Path], Iterator[Running]]:
    def start(scratch: Path) -> Iterator[Running]:
        port = _free_port()
        server: list[Word] = [
            _installed("redis-server"),
            "--port",
            f"{port}",
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--dir",
            scratch,
        ]

        def do(number: int) -> float:
            words = [_installed("redis-benchmark"), "-p", f"{port}", "-t", "get", "--csv", "-n", f"{number}", *options]
            return _number(r'"GET[^"]*","([\d.]+)"', _output(words))

        with _server(server, port) as pid:
            yield Running(pid, _by_number(do, 10_000))

    return start


# ---- HTTP ----


def _ab(port: int, path: str = "/") -> Callable[[float], float]:
    def do(number: int) -> float:
        words = [_installed("ab"), "-q", "-k", "-c", "50", "-n", f"{number}", f"http://127.0.0.1:{port}{path}"]
        return _number(r"Requests per second:\s+([\d.]+)", _output(words))

    return _by_number(do, 2_000)


def _nginx(scratch: Path) -> Iterator[Running]:
    port = _free_port()
    (scratch / "small.txt").write_bytes(b"x" * 1024)
    settings = scratch / "nginx.conf"
    settings.write_text(
        f"daemon off; worker_processes 1; pid {scratch}/nginx.pid; error_log /dev/null;\n"
        f"events {{ worker_connections 512; }}\n"
        f"http {{ access_log off; keepalive_requests 1000000000; sendfile on;\n"
        + "".join(
            f"  {kind}_temp_path {scratch}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        + f"  server {{ listen 127.0.0.1:{port}; root {scratch}; }} }}\n"
    )
    scratch.chmod(0o755)
    with _server([_installed("nginx"), "-c", settings, "-p", scratch], port) as pid:
        yield Running(pid, _ab(port, "/small.txt"))


def _node(scratch: Path) -> Iterator[Running]:
    port = _free_port()
    with _server([_installed("node"), SOURCES / "hello.js", f"{port}"], port) as pid:
        yield Running(pid, _ab(port))


def _java(scratch: Path) -> Iterator[Running]:
    port = _free_port()
    subprocess.run([_installed("javac"), "-d", scratch, SOURCES / "Hello.java"], check=True)
    with _server(
        [_installed("java"), "-Dsun.net.httpserver.nodelay=true", "-cp", scratch, "Hello", f"{port}"], port
    ) as pid:
        serve = _ab(port)
        serve(5.0)  # until the just-in-time compiler has seen it
        yield Running(pid, serve)


# ---- databases ----


def _postgres(options: Sequence[str]) -> Callable[[Path], Iterator[Running]]:
    def start(scratch: Path) -> Iterator[Running]:
        port, data = _free_port(), scratch / "data"
        how: dict[str, object] = {"cwd": scratch}
        if os.geteuid() == 0:  # PostgreSQL does not run as root
            account = pwd.getpwnam("nobody")
            os.chown(scratch, account.pw_uid, account.pw_gid)
            how |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        _output([_installed("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"], **how)
        server: list[Word] = [_installed("postgres"), "-D", data, "-p", f"{port}", "-h", "127.0.0.1", "-k", scratch]
        client = [_installed("pgbench"), "-h", "127.0.0.1", "-p", f"{port}", "-U", "postgres"]

        def serve(seconds: float) -> float:
            words = [*client, "-c", "4", "-j", "1", "-T", f"{max(1, round(seconds))}", *options, "postgres"]
            return _number(r"tps = ([\d.]+)", _output(words))

        with _server(server, port, **how) as pid:
            _output([*client, "-i", "-q", "-s", "10", "postgres"])
            yield Running(pid, serve)

    return start


def _memcached(scratch: Path) -> Iterator[Running]:
    port = _free_port()
    account = ["-u", "nobody"] if os.geteuid() == 0 else []

    def serve(seconds: float) -> float:
        words = [
            _installed("memcaslap"),
            "-s",
            f"127.0.0.1:{port}",
            "-T",
            "1",
            "-c",
            "16",
            "-t",
            f"{max(1, round(seconds))}s",
        ]
        return _number(r"TPS: (\d+)", _output(words))

    with _server([_installed("memcached"), "-l", "127.0.0.1", "-p", f"{port}", "-t", "1", *account], port) as pid:
        yield Running(pid, serve)


# ---- a compile ----


def _compile(scratch: Path) -> Iterator[Running]:
    words: list[Word] = [sys.executable, SOURCES / "compile.py", _installed("cc"), SOURCES / "unit.c"]
    with ExitStack() as stack:
        process = stack.enter_context(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        stack.callback(process.kill)
        assert process.stdin is not None
        assert process.stdout is not None
        asks, answers = process.stdin, process.stdout

        def do(number: int) -> float:
            print(number, file=asks, flush=True)
            return number / float(answers.readline())

        yield Running(process.pid, _by_number(do, 4))


LOADS = (
    Load("redis GET", ("redis-server", "redis-benchmark"), _redis(())),
    Load("redis GET -P 16", ("redis-server", "redis-benchmark"), _redis(("-P", "16"))),
    Load("nginx, 1 KiB", ("nginx", "ab"), _nginx),
    Load("pgbench -S", ("postgres", "initdb", "pgbench"), _postgres(("-S",))),
    Load("pgbench, TPC-B", ("postgres", "initdb", "pgbench"), _postgres(())),
    Load("memcached", ("memcached", "memcaslap"), _memcached),
    Load("Node.js", ("node", "ab"), _node),
    Load("Java", ("java", "javac", "ab"), _java),
    Load("cc, 2 at a time", ("cc",), _compile),
)
