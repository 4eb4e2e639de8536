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
            found = stream.read(1 << 16)
        if is_trace(found):
            return True
        kinds = "a trace of the machine (.hwt), perf.data, Intel PT, E-Trace (.toml)"
        what = f"is neither {kinds} nor a snapshot folder" if found else "is empty"
        raise HeadwayError(
            f"{path!a} {what}: give what headway machine run --trace or perf record wrote, a TOML file that describes "
            "E-Trace, or a folder with a snapshot.ini"
        )

    def open(self, path: str, images: Sequence[str], *, assumes: bool) -> TraceReader:
        from .machine import open_trace

        return open_trace(path, images)


class _Capture:
    """A trace port: what no other kind recognised. What is wrong with a folder is found when it is opened."""

    takes = (Option.ASSUME,)

    def recognises(self, path: str) -> bool:
        return True

    def open(self, path: str, images: Sequence[str], *, assumes: bool) -> TraceReader:
        from .capture import CaptureReader

        return CaptureReader(path, images, assumes)


KINDS: Sequence[TraceKind] = (_Etrace(), _Host(), _Machine(), _Capture())
"""The kinds, in the order in which they are asked."""


def kind_of(path: str) -> TraceKind:
    """Return the kind of the trace at a path. Raises HeadwayError if there is nothing, or it cannot be read."""
    if path and not os.path.lexists(path):
        raise HeadwayError(f"{path!a} is not there: give a trace file, or a folder with a snapshot.ini")
    return next(kind for kind in KINDS if kind.recognises(path))


def open_beside(run: RecordedRun, path: str, images: Sequence[str]) -> ExecutedBeside:
    """Open the trace of a recording's run. It is an entry point of the group headway.traces. Raises HeadwayError."""
    return kind_of(path).open(path, images, assumes=False).beside(run)
