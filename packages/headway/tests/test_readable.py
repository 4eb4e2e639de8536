"""Waiting for a file."""

from __future__ import annotations

import fcntl
import os
import resource

import pytest

from headway.readable import is_readable

pytestmark = pytest.mark.unit

BEYOND_SELECT = 1024


def test_a_file_with_a_large_number_is_waited_for() -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= BEYOND_SELECT:
        pytest.skip("needs more than 1024 files (ulimit -n)")
    reading, writing = os.pipe()
    large = fcntl.fcntl(reading, fcntl.F_DUPFD_CLOEXEC, BEYOND_SELECT)
    try:
        assert not is_readable(large, 0)
        os.write(writing, b"x")
        assert is_readable(large, None)
    finally:
        for fd in (reading, writing, large):
            os.close(fd)


def test_a_file_whose_other_end_is_closed_is_readable() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    assert is_readable(reading, None)
    os.close(reading)
