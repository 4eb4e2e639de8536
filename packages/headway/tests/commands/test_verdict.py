"""The verdict on real programs, whose time goes into what they wait for, however busy the machine is."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.compiling import Compile
from tests.running import headway

pytestmark = pytest.mark.root

_CLIENT = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); s.recv(1)"


def said(cause: str, *words: str | Path) -> dict[str, Any]:
    """What the verdict of ``headway stat`` says of this cause."""
    done = headway("stat", "--source", "bpf", "--json", *words)
    assert done.returncode == 0, done.stderr
    (found,) = [one for one in json.loads(done.stderr)["verdict"] if one["cause"] == cause]
    return dict(found)


@contextmanager
def late_server() -> Iterator[int]:
    """Answer one connection, after a second. Yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            one, _ = server.accept()
            with one:
                time.sleep(1)
                one.send(b"x")

        thread = threading.Thread(target=answer)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_who_sleeps_does_so_on_purpose() -> None:
    found = said("sleep", "--", "sh", "-c", "sleep 1; true")
    assert found["time"] >= 990_000_000
    assert found["text"].startswith("sleep (")


def test_a_lock_has_its_name_and_its_holder(compile_c: Compile) -> None:
    found = said("lock", "--why", "wait", "--", compile_c("held_for_a_second"))
    assert found["time"] >= 990_000_000
    assert found["text"].startswith("request (")
    assert "held_for_a_second: cache_lock, 100 % of that in waits that began while refresher had it" in found["text"]


def test_who_waits_for_an_answer_waits_for_the_network() -> None:
    with late_server() as port:
        found = said("network", "--", sys.executable, "-c", _CLIENT, str(port))
    assert found["time"] >= 990_000_000
    assert found["option"] == "--why wait"


def test_the_first_line_of_the_report_is_the_verdict() -> None:
    done = headway("stat", "--source", "bpf", "--", "sleep", "1")
    assert "of its time" in done.stderr.splitlines()[0]
    assert "on purpose" in " ".join(done.stderr.splitlines()[:2])
    quiet = headway("stat", "-q", "--source", "bpf", "--", "sleep", "1")
    assert quiet.stderr.startswith("thread ")
