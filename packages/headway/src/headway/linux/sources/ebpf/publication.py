"""Publish: let the threads that are measured read what they have done so far (``headway_progress`` in headway.h).

The eBPF programs keep the figures in a map. A process that is measured gets the map's descriptor at a socket, and
maps it. User space cannot write the map, this process neither, so nobody can make a thread believe what was not
measured.
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
from headway.linux.bpf.programs.libbpf import Object
from headway.linux.bpf.shared.layout import PUBLICATION_MAGIC as MAGIC
from headway.linux.bpf.shared.layout import PUBLICATION_VERSION, PUBLISHED_KINDS, STATES, packing, size_of
from headway.model import Kind, kind_of

__all__ = ["SOCKET", "Publication", "PublicationError", "prepare", "socket_path"]

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


def prepare(programs: Object, entries: int, function_states: tuple[str, ...], *, kernel_known: bool) -> None:
    """Write what the programs need to publish threads, and let nobody but them write the map from now on.

    ``entries``: those of the map. ``function_states``: the states of marked functions, in the order of their tags.
    ``kernel_known``: whether all time in the kernel is told from user code.
    """
    kinds = programs.map(".data.published_kinds").map_memory()
    for tag, state in enumerate(function_states, 1):
        kinds[STATES["TAG"] + tag] = PUBLISHED_KINDS[_KINDS[kind_of(state)]]
    fields = "magic", "version", "entry_size", "entries", "kernel_known", "until"
    values = MAGIC, PUBLICATION_VERSION, size_of("published_thread"), entries, kernel_known, (1 << 64) - 1
    published = programs.map("published_threads")
    published.set(0, packing("publication", *fields).pack(*values))
    published.freeze()


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
    """A socket at which processes get the descriptor of the map of published threads; `close` removes it.

    ``map_fd``: the map, of so many ``entries``. ``is_measured``: whether a thread of this process is. ``end``: writes
    into the map that nothing is measured any more. Raises PublicationError where the socket cannot be made, or where
    another observer publishes there.
    """

    def __init__(
        self, path: Path, map_fd: int, entries: int, is_measured: Callable[[int], bool], end: Callable[[], None]
    ) -> None:
        self._map_fd, self._is_measured, self._end = map_fd, is_measured, end
        self._answer = _ANSWER.pack(ANSWER_MAGIC, PUBLICATION_VERSION, size_of("published_thread"), entries, 0)
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
        """Give the map to the measured processes that ask for it, and nothing to others."""
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:  # nobody asks, or who asked has gone, or there is no descriptor for it: it asks again
                return
            with peer, suppress(OSError):
                pid, _, _ = _PEER.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
                peer.setblocking(False)
                if pid and self._is_measured(pid):
                    socket.send_fds(peer, [self._answer], [self._map_fd])

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
