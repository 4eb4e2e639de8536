"""A limit of memory meanwhile, and a process that may open only what it was given."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from headway.linux import landlock
from headway.linux.confinement import confine, limited_memory


def test_what_exceeds_the_limit_is_a_memory_error_and_the_limit_is_lifted_again() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with limited_memory(64 << 20):
        with limited_memory(1 << 40), pytest.raises(MemoryError):
            bytearray(1 << 30)
        assert len(bytearray(1 << 20)) == 1 << 20
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert len(bytearray(1 << 30)) == 1 << 30


def in_a_child(work: Callable[[], object]) -> int:
    """Return 0 if the work ends in a child that has no other thread, else the errno, or 255."""
    pid = os.fork()
    if not pid:
        status = 255
        try:
            work()
            status = 0
        except OSError as error:
            status = error.errno or 254
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.skipif(not landlock.available(), reason="the kernel has no Landlock")
def test_a_confined_process_opens_only_what_it_was_given(tmp_path: Path) -> None:
    for name in ("read", "change", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    (tmp_path / "read" / "link").symlink_to(tmp_path / "other" / "file")

    def trying(name: str, flags: int) -> int:
        def work() -> None:
            own = (str(tmp_path / "read"), str(tmp_path / "nothing")), (str(tmp_path / "change"),)
            assert confine(*own, memory=1 << 28, written=1 << 20)
            os.open(tmp_path / name, flags)

        return in_a_child(work)

    assert trying("read/file", os.O_RDONLY) == 0
    assert trying("change/new", os.O_RDWR | os.O_CREAT) == 0
    for name, flags in (
        ("read/file", os.O_WRONLY),
        ("read/file", os.O_RDONLY | os.O_TRUNC),
        ("read/new", os.O_WRONLY | os.O_CREAT),
        ("read/link", os.O_RDONLY),
        ("other/file", os.O_RDONLY),
    ):
        assert trying(name, flags) == 13, name


def test_a_process_without_landlock_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "available", lambda: 0)

    def work() -> None:
        assert not confine((), (str(tmp_path),), memory=1 << 28, written=1 << 20)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        os.write(os.open(tmp_path / "new", os.O_WRONLY | os.O_CREAT), b"x")

    assert in_a_child(work) == 27  # EFBIG
