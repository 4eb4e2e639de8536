"""Publish: let the threads that are measured read what they have done so far (``headway_progress`` in headway.h).

The eBPF programs keep the figures in maps, one for each user (`user_maps`). A process that is measured gets the
descriptor of its user's map at a socket, and maps it. User space cannot write the map, this process neither, so nobody
can make a thread believe what was not measured.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from headway.errors import HeadwayError
from headway.linux.bpf.programs.libbpf import BpfError, Object
from headway.linux.bpf.shared.layout import PUBLICATION_VERSION, PUBLISHED_KINDS, STATES, size_of
from headway.model import Kind, kind_of

__all__ = ["SOCKET", "Publication", "PublicationError", "socket_path", "tell_kinds"]

SOCKET = "HEADWAY_PROGRESS"
"""The environment variable with the path of the socket, for observers and for the processes that are measured."""
ANSWER_MAGIC = int.from_bytes(b"hwpansr1", "little")
_ANSWER = struct.Struct("=QIIII")
"""struct headway_answer_ of headway.h."""
_PEER = struct.Struct("=iII")
"""struct ucred of unix(7): process, user, group."""
_BACKLOG = 128
_LONGEST = 107
"""Bytes of the path of a socket (sun_path of unix(7), with its final zero)."""
_OF_ROOT = Path("/run/headway-progress")
"""Where root publishes, and a service to which root gave the folder."""
_KINDS = {Kind.EFFECTIVE: "effective", Kind.KERNEL: "kernel", Kind.POLL: "poll"}
"""The kinds of the states of marked functions."""


class PublicationError(HeadwayError):
    """Threads cannot be told their progress. They cannot by any source, so there is no point in trying another one."""

    final = True


def tell_kinds(programs: Object, function_states: tuple[str, ...]) -> None:
    """Tell the programs of which kind the states of marked functions are, in the order of their tags."""
    kinds = programs.map(".data.published_kinds").map_memory()
    for tag, state in enumerate(function_states, 1):
        kinds[STATES["TAG"] + tag] = PUBLISHED_KINDS[_KINDS[kind_of(state)]]


def socket_path() -> Path:
    """Return where measured processes ask for the map. Raises PublicationError where there is no place for that."""
    if named := os.environ.get(SOCKET):
        path = Path(named)
    elif os.geteuid() == 0 or _is_own(_OF_ROOT):
        path = _OF_ROOT / "socket"
    else:
        path = Path(f"/run/user/{os.geteuid()}/headway-progress/socket")
    if len(os.fsencode(path)) > _LONGEST:
        raise PublicationError(f"{path} is too long for the path of a socket", f"let {SOCKET} name a shorter one")
    if not named:
        _make_own_folder(path.parent)
    return path


class Publication:
    """A socket at which processes get the descriptor of the map of their user's threads; `close` removes it.

    ``map_of``: returns the map of a user, with so many ``entries`` of threads, and ``units`` in all; None: there is no
    room for one. ``may_read``: whether a process may have it, by its id and its user. ``end``: writes into the maps
    that nothing is measured any more. ``give``: gives the programs the maps that were made for an answer. Raises
    PublicationError where the socket cannot be made, or where another observer publishes there.
    """

    def __init__(
        self,
        path: Path,
        map_of: Callable[[int], int | None],
        entries: int,
        may_read: Callable[[int, int], bool],
        end: Callable[[], None],
        units: int = 0,
        give: Callable[[], None] = lambda: None,
    ) -> None:
        self._map_of, self._may_read, self._end, self._give = map_of, may_read, end, give
        self._answer = _ANSWER.pack(ANSWER_MAGIC, PUBLICATION_VERSION, size_of("published_thread"), entries, units)
        with ExitStack() as stack:
            try:
                _lock(path, stack)
                _remove_socket(path)
                self._socket = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                self._socket.bind(os.fsencode(path))
                stack.callback(_remove_socket, path)
                os.chmod(path, 0o666)  # threads of any user may be measured
                self._socket.setblocking(False)
                self._socket.listen(_BACKLOG)
            except OSError as error:
                raise PublicationError(
                    f"threads cannot be told their progress at {path}: {error.strerror}",
                    f"let {SOCKET} name a path where a socket can be made",
                ) from None
            self._resources: ExitStack | None = stack.pop_all()

    def fileno(self) -> int:
        """Return a descriptor that is readable when a process asks."""
        return self._socket.fileno()

    def answer(self) -> None:
        """Give their user's map to the processes that ask for it and may read it, and nothing to others."""
        while self._answer_one():
            pass
        with suppress(BpfError):
            self._give()

    def _answer_one(self) -> bool:
        try:
            peer, _ = self._socket.accept()
        except OSError:  # nobody asks, or who asked has gone, or there is no descriptor for it: it asks again
            return False
        with peer, suppress(OSError, BpfError):  # without memory for a map, nobody measures
            pid, user, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            peer.setblocking(False)
            fd = self._map_of(user) if pid and self._may_read(pid, user) else None
            if fd is not None:
                socket.send_fds(peer, [self._answer], [fd])
        return True

    def end(self) -> None:
        """Say to all threads that nothing is measured any more."""
        self._end()

    def close(self) -> None:
        """Say so, and remove the socket; may be called again."""
        resources, self._resources = self._resources, None
        if resources is not None:
            with resources:
                self._end()


def _is_own(folder: Path) -> bool:
    with suppress(OSError):
        return folder.lstat().st_uid == os.geteuid()
    return False


def _make_own_folder(folder: Path) -> None:
    """Make a folder in which nobody else can make files, if it is not there. Raises PublicationError."""
    advice = f"let {SOCKET} name a path where a socket can be made"
    try:
        with suppress(FileExistsError):
            folder.mkdir()
            folder.chmod(0o755)
        found = folder.lstat()
    except OSError as error:
        raise PublicationError(f"the folder {folder} cannot be made: {error.strerror}", advice) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise PublicationError(f"{folder} is not a folder that only this user can write", advice)


def _lock(path: Path, stack: ExitStack) -> None:
    """Be the only observer that publishes at this path until the stack is left. Raises PublicationError and OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    lock = os.open(path.with_name(f"{path.name}.lock"), flags, 0o600)
    stack.callback(os.close, lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno != errno.EWOULDBLOCK:
            raise
        raise PublicationError(
            f"another headway publishes at {path}",
            f"end it, or let {SOCKET} name another path for this one and for what it measures",
        ) from None


def _remove_socket(path: Path) -> None:
    """Remove what an observer left behind. What is no socket stays."""
    with suppress(OSError):  # binding tells why it is still there
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
