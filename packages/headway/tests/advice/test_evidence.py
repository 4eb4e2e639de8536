"""What shows that a thread which waited for the disk read files."""

from __future__ import annotations

import pytest

from headway.advice.evidence import reads
from headway.model import Cell, Thread


@pytest.mark.parametrize(
    ("calls", "expected"),
    [(("read",), True), (("recvfrom",), False), (("read", "fdatasync"), False), (("recvfrom", "getdents64"), True)],
)
def test_receiving_from_a_socket_is_no_reading_of_files(calls: tuple[str, ...], expected: bool) -> None:
    states = {"wait.disk": Cell(9, 1), **{f"kernel.{call}": Cell(1, 1) for call in calls}}
    assert reads(Thread(1, 1, "a", 0, 0, None, 100, 100, states)) is expected
