"""A child process that is suspended until it is measured.

The child waits on a pipe; the observer attaches; then the child executes the command. A second pipe, closed by a
successful exec, brings back the error of a failed one.
"""

from __future__ import annotations

import errno
import os
import shlex
import signal
from collections.abc import Sequence
from contextlib import suppress

from headway.errors import CommandFailedError
from headway.exhaustion import fork
from headway.linux import time_namespace

__all__ = ["SuspendedChild"]


class SuspendedChild:
    """A child process that will execute a command when it is released, with our files, signals and environment.

    SIGPIPE and SIGXFSZ have their default actions in it: Python ignores both from its beginning, and nothing tells what
    was done with them before.

    ``stdout``: a descriptor to be its standard output instead of ours; likewise ``stdin`` and ``stderr``.
    ``received``: the signals that this process has caught, a list that grows. The child gets those too that came before
    it was there: what is known as it begins, and the rest as it is released.
    """

    def __init__(
        self,
        command: Sequence[str],
        stdout: int | None = None,
        *,
        stdin: int | None = None,
        stderr: int | None = None,
        received: Sequence[int] = (),
    ) -> None:
        self.command = tuple(command)
        self._status: int | None = None
        gate, self._gate = os.pipe()
        self._failure, failure = os.pipe()
        # A signal that comes before the child has its own way to take it is not lost: it waits.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_OR_SHARED)
        try:
            self.pid = fork()
            if self.pid == 0:
                self._child(gate, failure, (stdin, stdout, stderr), mask)
            # One that waits now may have come before the fork, and no child inherits it.
            # The child gets it twice if it came later, which does no harm.
            waiting = signal.sigpending() & set(_PASSED_OR_SHARED)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(gate)
        os.close(failure)
        try:
            self.pidfd = os.pidfd_open(self.pid)
        except OSError:
            self.pidfd = -1
            self.give_up()
            raise
        self._received = received
        for number in {*received, *waiting}:
            os.kill(self.pid, number)

    def _child(self, gate: int, failure: int, files: Sequence[int | None], mask: set[signal.Signals | int]) -> None:
        """Execute the command when it is released. Never returns."""
        status = 127
        try:
            os.close(self._gate)
            for number, fd in enumerate(files):
                if fd is not None:
                    os.dup2(fd, number)
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, *_PASSED_OR_SHARED):
                signal.signal(number, signal.SIG_IGN if number in _IGNORED_BEFORE else signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            environment = _environment()
            if os.read(gate, 1):
                time_namespace.go_back()
                if not self.command[0]:
                    raise FileNotFoundError(errno.ENOENT, "")
                os.execvpe(self.command[0], self.command, environment)
        except OSError as error:
            status = 127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126
            os.write(failure, str(error.errno).encode())
        finally:
            os._exit(status)

    def release(self) -> None:
        """Release the child: it executes the command. Nothing happens if a signal has ended it already.

        Raises CommandFailedError if the command cannot be executed: 127 not found, 126 not executable.
        """
        # Another thread may have taken a signal before the fork, and noted it after.
        for number in set(self._received):
            os.kill(self.pid, number)
        with suppress(BrokenPipeError):
            os.write(self._gate, b"!")
        os.close(self._gate)
        self._gate = -1
        said = os.read(self._failure, 16)
        os.close(self._failure)
        self._failure = -1
        if said:
            number = int(said)
            self.wait()
            name = self.command[0] or "''"
            if number in (errno.ENOENT, errno.ENOTDIR):
                if "/" not in name:
                    why = "not found: is it in PATH?" + _runs(name)
                elif os.path.exists(name):
                    why = "its interpreter was not found"
                else:
                    why = "not found: there is no such file"
                raise CommandFailedError(f"{name}: {why}", 127)
            why = "is a directory" if os.path.isdir(name) else f"cannot be executed ({os.strerror(number)})"
            raise CommandFailedError(f"{name}: {why}", 126)

    @property
    def has_ended(self) -> bool:
        """Whether the child has exited. It stays a zombie until `wait`."""
        return (
            self._status is not None or os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        )

    @property
    def ended_early(self) -> int:
        """128 + the number of the signal that ended it before it was released; 0: none did."""
        return 128 - self.wait() if self._gate >= 0 and self.has_ended else 0

    def wait(self) -> int:
        """Wait for the child's end. Return its exit status, or minus the number of the signal that killed it."""
        if self._status is None:
            _, status = os.waitpid(self.pid, 0)
            self._status = os.waitstatus_to_exitcode(status)
            if self.pidfd >= 0:
                os.close(self.pidfd)
        return self._status

    def send(self, number: int) -> None:
        """Send the child a signal, unless it has ended or belongs to another user by now."""
        if not self.has_ended:
            with suppress(PermissionError):
                os.kill(self.pid, number)

    def give_up(self) -> None:
        """End the child if it has not been released; otherwise do nothing."""
        for fd in (self._gate, self._failure):
            if fd >= 0:
                os.close(fd)
        if self._gate >= 0:
            self._gate = self._failure = -1
            self.wait()


def _environment() -> dict[str, str]:
    """Return the environment with the locale that this process was started with.

    In the C locale Python sets LC_CTYPE to C.UTF-8 (PEP 538), also for the processes that it starts. The kernel still
    shows what it was. A program may be many times as fast in the one locale as in the other.
    """
    found = dict(os.environ)
    if found.get("LC_CTYPE") not in _COERCED:
        return found
    with suppress(OSError), open("/proc/self/environ", "rb") as file:
        started = dict(part.partition(b"=")[::2] for part in file.read().split(b"\0") if part)
        before = started.get(b"LC_CTYPE")
        if before is None:
            del found["LC_CTYPE"]
        elif before in (b"", b"C", b"POSIX"):
            found["LC_CTYPE"] = os.fsdecode(before)
    return found


_COERCED = frozenset({"C.UTF-8", "C.utf8", "UTF-8"})
"""What Python sets LC_CTYPE to."""
_PASSED_OR_SHARED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
_IGNORED_BEFORE = frozenset(
    number for number in (*_PASSED_OR_SHARED, signal.SIGCHLD) if signal.getsignal(number) is signal.SIG_IGN
)
"""Signals that this process was started with ignored (nohup, a background job). The command ignores them too."""


def _runs(name: str) -> str:
    """Return a sentence about processes of this name, which may be what was meant; empty: there are none."""
    from headway.linux.procfs.named_processes import processes_named

    with suppress(OSError):
        if n := len(processes_named(name)):
            which = "a process of that name runs" if n == 1 else f"{n:,} processes of that name run"
            return f" {which}: headway why {shlex.quote(name)}"
    return ""
