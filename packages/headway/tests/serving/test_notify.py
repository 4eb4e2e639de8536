"""Messages to a service manager: what is sent, when, and that nothing goes wrong where there is none."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headway.serving.notify import Notifier

pytestmark = pytest.mark.unit


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    """Listens at an abstract address."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as one:
        one.bind(f"\0headway-test-{os.getpid()}")
        yield one


def address_of(manager: socket.socket) -> str:
    return bytes(manager.getsockname()).decode().replace("\0", "@")


def received(manager: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(manager.recv(4096).decode())
        except BlockingIOError:
            return found


def test_the_service_manager_is_told_and_the_environment_is_clean(manager: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": address_of(manager), "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": str(os.getpid())}
    one = Notifier(environment)
    assert environment == {}
    one.ready("serving\nhere\tand there")
    assert received(manager) == ["READY=1\nSTATUS=serving here and there"]
    rest = one.alive()
    assert rest is not None
    assert 0 < rest < 0.5
    assert one.alive() is not None  # not yet time again
    one.stopping()
    assert received(manager) == ["WATCHDOG=1", "STOPPING=1"]


def test_a_socket_in_the_file_system_is_notified(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")}).ready("x")
        assert manager.recv(100) == b"READY=1\nSTATUS=x"


def test_a_watchdog_of_another_process_is_not_ours(manager: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": address_of(manager), "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"}
    assert Notifier(environment).alive() is None
    assert received(manager) == []


@example("", "1" * 400, "")
@example("", "1" * 5000, "")
@given(st.text(st.characters(blacklist_characters="\0"), max_size=200), st.text(max_size=20), st.text(max_size=20))
def test_whatever_the_environment_says_nothing_fails(address: str, usec: str, pid: str) -> None:
    one = Notifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": usec, "WATCHDOG_PID": pid})
    one.ready("x")
    one.alive()
    one.stopping()


def test_without_a_manager_nothing_is_sent() -> None:
    one = Notifier({})
    one.ready("x")
    assert one.alive() is None
    gone = Notifier({"NOTIFY_SOCKET": "/nowhere/notify", "WATCHDOG_USEC": "10"})
    gone.ready("x")
    assert gone.alive() is not None
