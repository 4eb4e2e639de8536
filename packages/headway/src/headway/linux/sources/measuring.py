"""The common part of all sources that keep one measurement from `begin` to `close`."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

__all__ = ["MeasuringSource"]


class _Closes(Protocol):
    def close(self) -> None: ...


_Measurement = TypeVar("_Measurement", bound=_Closes)


class MeasuringSource(Generic[_Measurement]):
    """Keeps a measurement, which `begin` of the subclass makes; what is called without one raises RuntimeError."""

    _measurement: _Measurement | None = None

    @property
    def _running(self) -> _Measurement:
        if self._measurement is None:
            raise RuntimeError("nothing is measured: begin() comes first, and nothing after end() or close()")
        return self._measurement

    def close(self) -> None:
        """Detach and free everything; may be called at any time, more than once."""
        if self._measurement is not None:
            self._measurement.close()
            self._measurement = None
