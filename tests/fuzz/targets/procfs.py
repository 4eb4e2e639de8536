"""Texts of /proc and /sys: each parser by itself, and a made-up process that is looked at again and again."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from random import Random

from tests.fuzz.mutation import mutated_text
from tests.fuzz.target import Target

from headway.linux.procfs._procfs import Scanner, parse_schedstat, parse_stat, parse_syscall
from headway.linux.procfs.cgroups import parse as parse_cgroup
from headway.linux.procfs.ids import ids_in, process_of
from headway.linux.procfs.maps import parse as parse_maps
from headway.linux.procfs.mounts import parse_mounts
from headway.linux.procfs.processors import parse_list, timer_line
from headway.linux.procfs.status import status
from headway.linux.regions.blocks import arenas_in
from headway.linux.sources.proc.waits import reason_of_wchan

_PID = 2**22 + 17  # larger than any real one
_STAT = b"%d (a b) R) %s 1 1 1 -1 -1 %d 1 2 3 4 %d %d 5 6 -20 -1 1 0 %d 100 200\n"
_FILES = ("stat", "schedstat", "syscall", "wchan", "children")
_BETWEEN = b"\n\xff\xfe\n"
"""What separates the files of a made-up process in an input."""
_MOST = 1 << 61
"""ns; figures are limited to half of it."""


class ProcfsTarget(Target):
    """Inputs whose first byte says what they are."""

    name = "procfs"

    def __init__(self) -> None:
        shm = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self._root = Path(tempfile.mkdtemp(prefix="headway-fuzz-", dir=shm))
        self._task = self._root / str(_PID) / "task" / str(_PID)
        self._task.mkdir(parents=True)
        (self._root / "self").mkdir()
        self._fd = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)

    @cached_property
    def seeds(self) -> list[bytes]:
        """Return a text of each kind."""
        uid = b"0123456789abcdef" * 4
        texts = [
            _STAT % (_PID, b"S", 0x400040, 10, 20, 30),
            b"123456789 4567 89\n",
            b"202 0x7f00 0x80 0x0 0x0 0x0 0x0 0x7ffe00000000 0x7f0000000000\n",
            b"00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/a b (deleted)\n"
            b"7f00-7f01 rw-p 00000000 00:01 3 /memfd:headway (deleted)\n"
            b"7ffe0000-7fff0000 rw-p 00000000 00:00 0 [stack]\n",
            b"22 1 8:1 / /mnt\\040a rw,noatime shared:1 - ext4 /dev/sda1 rw\n"
            b"31 22 0:27 / /sys/fs/cgroup rw - cgroup2 none rw\n",
            b"0::/kubepods.slice/kubepods-pod01234567_89ab_cdef_0123_456789abcdef.slice/cri-containerd-"
            + uid
            + b".scope\n"
            b"1:name=systemd:/user.slice/user@1000.service/app.slice/a.service\n",
            b"Name:\ta\\nb\nTgid:\t%d\nNSpid:\t%d\t7\t1\nCpus_allowed_list:\t0-3,8\n" % (_PID, _PID),
            b"0-3,8,10-11\n",
            b"           CPU0\n 11: 5 GICv3 27 Level arch_timer\nIPI0: 7 Rescheduling interrupts\n",
        ]
        made = self._made(Random(5))
        return [bytes([kind]) + text for kind, text in enumerate((*texts, made))]

    def _made(self, random: Random) -> bytes:
        """Return what a process shows at several moments."""
        files, run, user = [], 0, 0
        for _ in range(4):
            run, user = run + random.randrange(1 << 24), user + random.randrange(9)
            files += [
                _STAT % (_PID, random.choice((b"R", b"S", b"D")), 0, user, user, 30),
                b"%d %d 9\n" % (run, run // 2),
            ]
            files += [_call(random), b"futex_do_wait", b"7 8\n"]
        return _BETWEEN.join(files)

    def make(self, random: Random) -> bytes:
        """Change a text."""
        if random.random() < 0.35:
            return bytes([len(_PARSERS)]) + mutated_text(random, self._made(random), self.seeds)
        seed = random.choice(self.seeds)
        return seed[:1] + mutated_text(random, seed[1:], self.seeds)

    def read(self, data: bytes, random: Random) -> None:
        """Parse the text, or look at the process."""
        kind, text = data[:1], data[1:]
        if kind and kind[0] == len(_PARSERS):
            self._scan(text.split(_BETWEEN), random)
        else:
            _PARSERS[kind[0] % len(_PARSERS) if kind else 0](text, self._root)

    def _scan(self, files: list[bytes], random: Random) -> None:
        now = start = 10**12
        scanner = Scanner(
            self._fd, tick=4_000_000, clock_tick=10_000_000, boot_offset=random.choice((0, 10**9, -(10**9))),
            start=start, budget=random.choice((0, 3, 64)), schedstat=random.random() < 0.8,
            follow_single=random.random() < 0.5, reason_of_call=_reason_of_call, reason_of_wchan=reason_of_wchan,
        )  # fmt: skip
        whole, opened = random.random() < 0.5, False
        for at in range(0, len(files), len(_FILES)):
            for name, text in zip(_FILES, files[at : at + len(_FILES)], strict=False):
                (self._task / name).write_bytes(text[:4096])
            now += random.choice((0, 1000, 10**7, 10**10))
            opening = at == 0
            if not opened and whole:
                opened = scanner.add_process(_PID, now, opening=opening, all_children=random.random() < 0.5)
            elif not opened:
                opened = scanner.add_thread(_PID, _PID, now, opening=opening)
            else:
                scanner.scan(now, created=random.random() < 0.3)
            for task in (*scanner.tasks.values(), *scanner.take_ended()):
                states = task.account.states(scanner.names)
                assert sum(states.values()) == task.account.span >= 0, states
                assert all(time > 0 for time in states.values()), states
                assert len(task.name) < 300
            for process in (*scanner.processes.values(), *scanner.take_finished()):
                assert -_MOST < process.accounted < _MOST
            assert -_MOST < scanner.unseen < _MOST
            assert all(0 < child < 1 << 31 for child in scanner.take_children())
        scanner.close()

    def close(self) -> None:
        """Remove the made-up /proc."""
        os.close(self._fd)
        shutil.rmtree(self._root)


def _call(random: Random) -> bytes:
    """Return a line of /proc/PID/syscall."""
    return b"%d 0x3 0x80 0x0 0x0 0x0 0x0 0x7ffe00000000 0x7f0000000000\n" % random.choice((0, 1, 202, 35, -1))


def _reason_of_call(number: int) -> str | None:
    return None if number < 2 else f"wait.{number}"


def _stat(text: bytes, _: Path) -> None:
    found = parse_stat(text)
    assert found is None or all(number >= 0 for number in found[4:])


def _schedstat(text: bytes, _: Path) -> None:
    found = parse_schedstat(text)
    assert found is None or all(0 <= number <= _MOST for number in found)


def _syscall(text: bytes, _: Path) -> None:
    number, first = parse_syscall(text)
    assert number >= -2
    assert 0 <= first < 1 << 64


def _maps(text: bytes, _: Path) -> None:
    list(parse_maps(text))
    for start, size in arenas_in(text):
        assert 0 <= start < start + size < 1 << 63


def _mounts(text: bytes, _: Path) -> None:
    parse_mounts(text.decode(errors="surrogateescape"))


def _cgroup(text: bytes, _: Path) -> None:
    for _name, value in parse_cgroup(text).labels():
        assert value


def _status(text: bytes, root: Path) -> None:
    (root / "status").write_bytes(text)
    fields = status(root)
    assert all(number >= 0 for number in ids_in(fields))
    (root / str(_PID) / "status").write_bytes(text)
    found = process_of(_PID, proc=root)
    assert found is None or found >= 0


def _list(text: bytes, _: Path) -> None:
    found = parse_list(text.decode(errors="replace"))
    assert all(0 <= cpu < 65536 for cpu in found)


def _interrupts(text: bytes, root: Path) -> None:
    (root / "interrupts").write_bytes(text)
    assert timer_line(root / "interrupts") >= 0


_PARSERS: tuple[Callable[[bytes, Path], None], ...] = (
    _stat, _schedstat, _syscall, _maps, _mounts, _cgroup, _status, _list, _interrupts,
)  # fmt: skip

TARGET = ProcfsTarget
