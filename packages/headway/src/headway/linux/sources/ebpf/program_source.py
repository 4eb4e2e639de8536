"""The common part of the sources whose measurements run programs at what happens."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypeVar

from headway.linux.bpf.programs import loading
from headway.linux.bpf.programs.libbpf import BpfError
from headway.linux.bpf.programs.refusals import explain

from ..measuring import MeasuringSource

if TYPE_CHECKING:
    from headway.model import Ledger

__all__ = ["ProgramSource"]


class _Measurement(Protocol):
    @property
    def tells_without_privileges(self) -> bool: ...

    def poll_fds(self) -> Iterable[int]: ...

    def service(self) -> float: ...

    def wait_until_exit_is_seen(self, pid: int) -> None: ...

    def total(self, *, last: bool) -> Ledger: ...

    def interval(self, *, last: bool) -> Ledger: ...

    def close(self) -> None: ...


_M = TypeVar("_M", bound=_Measurement)


class ProgramSource(MeasuringSource[_M]):
    """A source (`LinuxSource`) whose subclass makes the measurement. Without one, RuntimeError is raised."""

    name = "bpf"

    @abstractmethod
    def _measure(self) -> _M:
        """Return a measurement that has begun. Raises BpfError or HeadwayError; then nothing is left attached."""

    def begin(self) -> None:
        """Load, attach, calibrate and start measuring. Raises HeadwayError; then nothing is left attached."""
        try:
            with loading.files_as_allowed():
                self._measurement = self._measure()
        except BpfError as error:
            raise explain(error) from None

    def poll_fds(self) -> Iterable[int]:
        """Return descriptors that are readable when `service` has work to do."""
        return self._running.poll_fds()

    def service(self) -> float | None:
        """Do what cannot wait for a reading. Return the seconds after which it is to be done again."""
        return self._running.service()

    def wait_until_exit_is_seen(self, pid: int) -> None:
        """Wait until the threads of a process that has ended have left their processors: they do a little later."""
        self._running.wait_until_exit_is_seen(pid)

    def read(self) -> Ledger:
        """Return everything since `begin`, as of now."""
        return self._running.total(last=False)

    def interval(self) -> Ledger:
        """Return what happened since the last `interval`, or since `begin`."""
        return self._running.interval(last=False)

    def end(self) -> Ledger:
        """Return everything since `begin`, as of now; from now on nothing is measured."""
        return self._running.total(last=True)

    def end_interval(self) -> Ledger:
        """Return what happened since the last `interval`; from now on nothing is measured."""
        return self._running.interval(last=True)

    @property
    def tells_without_privileges(self) -> bool:
        """Whether the kernel lets a process without CAP_BPF do what is done here: before 5.19 it may not."""
        return self._running.tells_without_privileges
