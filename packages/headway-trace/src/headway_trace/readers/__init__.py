"""The kinds of traces: what recognises each by its path, and what opens it.

Recognising is light. The modules here have the readers, which load decoders, and are imported when a trace is opened.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headway.errors import HeadwayError
from headway.files import open_file

from .. import containers
from ..etrace.files import DESCRIPTION
from ..raw.told import Told
from ..reader import Option, TraceKind, TraceReader
from ..threads.container import has_etrace, is_trace

if TYPE_CHECKING:
    from headway.model.executed import ExecutedBeside
    from headway.recording.queries.catalogue import RecordedRun

__all__ = ["KINDS", "kind_of", "open_beside"]


class _Etrace:
    """RISC-V E-Trace: a description, or a trace file of the machine that has one."""

    takes = (Option.STALLS,)

    def recognises(self, path: str) -> bool:
        return os.path.isfile(path) and (path.endswith(DESCRIPTION) or has_etrace(path))

    def open(self, path: str, images: Sequence[str], *, assumes: bool) -> TraceReader:
        from .etrace import open_trace

        return open_trace(path, images)


class _Host:
    """A Linux machine: perf.data, or a file of Intel PT packets."""

    takes = (Option.THREAD_STREAMS,)

    def recognises(self, path: str) -> bool:
        return containers.kind_of(path) is not None

    def open(self, path: str, images: Sequence[str], *, assumes: bool) -> TraceReader:
        from .host import open_trace

        return open_trace(path, images)


class _Machine:
    """The reference machine, in its own format."""

    takes = (Option.STALLS, Option.WINDOWS)

    def recognises(self, path: str) -> bool:
        if not os.path.isfile(path):
            return False
        with open_file(path, "a trace") as stream:
            return is_trace(stream.read(1 << 16))

    def open(self, path: str, images: Sequence[str], *, assumes: bool) -> TraceReader:
        from .machine import open_trace

        return open_trace(path, images)


class _Raw:
    """A file of raw bytes of a trace port or buffer: any other file. Whether it is one is found when it is opened."""

    takes = (Option.ASSUME, Option.RAW, Option.TEXT)

    def __init__(self, told: Told | None = None) -> None:
        self._told = told or Told()

    def recognises(self, path: str) -> bool:
        return os.path.isfile(path) and os.path.basename(path) != "snapshot.ini"

    def told(self, told: Told) -> TraceKind:
        """Return the kind with what a user says of the bytes."""
        return _Raw(told)

    def open(self, path: str, images: Sequence[str], *, assumes: bool) -> TraceReader:
        from ..raw.opening import open_raw
        from .capture import CaptureReader

        found = open_raw(path, images, self._told)
        return CaptureReader(path, images, assumes, found.snapshot, found.remarks)


class _Capture:
    """A trace port: what no other kind recognised. What is wrong with a folder is found when it is opened."""

    takes = (Option.ASSUME, Option.TEXT)

    def recognises(self, path: str) -> bool:
        return True

    def open(self, path: str, images: Sequence[str], *, assumes: bool) -> TraceReader:
        from .capture import CaptureReader

        return CaptureReader(path, images, assumes)


KINDS: Sequence[TraceKind] = (_Etrace(), _Host(), _Machine(), _Raw(), _Capture())
"""The kinds, in the order in which they are asked."""


def kind_of(path: str, told: Told | None = None) -> TraceKind:
    """Return the kind of the trace at a path. ``told``: what the user says of raw bytes.

    Raises HeadwayError if there is nothing, or it cannot be read.
    """
    if path and not os.path.lexists(path):
        raise HeadwayError(f"{path!a} is not there: give a trace file, or a folder with a snapshot.ini")
    found = next(kind for kind in KINDS if kind.recognises(path))
    return found.told(told) if told and isinstance(found, _Raw) else found


def open_beside(run: RecordedRun, path: str, images: Sequence[str]) -> ExecutedBeside:
    """Open the trace of a recording's run. It is an entry point of the group headway.traces. Raises HeadwayError."""
    return kind_of(path).open(path, images, assumes=False).beside(run)
