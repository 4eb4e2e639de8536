"""Measuring that fails while a command runs: the command goes on to its end, and is waited for."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest

from headway.errors import HeadwayError
from headway.linux.options import Selection
from headway.linux.sources.source import LinuxSource
from headway.session.child import SuspendedChild
from headway.session.measure import observe


class Failing:
    """A source that fails when it is first served."""

    name = "failing"

    def __init__(self, error: BaseException) -> None:
        self._error = error
        self.closed = False

    def poll_fds(self) -> Iterable[int]:
        return ()

    def service(self) -> float | None:
        raise self._error

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("error", [OSError(errno.ENOMEM, "no"), HeadwayError("no"), MemoryError()])
def test_a_command_whose_measurement_fails_goes_on_and_is_waited_for(error: BaseException, tmp_path: Path) -> None:
    source = Failing(error)
    done = tmp_path / "done"
    with pytest.raises(type(error)):
        observe(Selection(), ["sh", "-c", f"sleep 0.1; touch '{done}'"], start=lambda _: cast(LinuxSource, source))
    assert source.closed
    assert done.exists()


def test_a_child_that_cannot_be_watched_is_not_left(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def refused(pid: int) -> int:
        begun.append(pid)
        raise OSError(errno.EMFILE, "too many")

    monkeypatch.setattr(os, "pidfd_open", refused)
    with pytest.raises(OSError, match="too many"):
        SuspendedChild(["true"])
    with pytest.raises(ChildProcessError):
        os.waitpid(begun[0], os.WNOHANG)
