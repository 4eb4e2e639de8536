"""Traces beside recordings: readers of traces come from other distributions, by an entry point."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, cast

from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.model.executed import ExecutedBeside
    from headway.recording.queries.catalogue import RecordedRun

    Open = Callable[[RecordedRun, str, Sequence[str]], ExecutedBeside]

__all__ = ["open_beside"]

_GROUP = "headway.traces"
"""The entry points of functions that open a trace beside the recording of the same run."""


def open_beside(run: RecordedRun, path: str, images: Sequence[str]) -> ExecutedBeside:
    """Open the trace of a recording's run, with these programs, else those that it names. Raises HeadwayError."""
    if not os.path.exists(path):
        raise HeadwayError(f"{path!a} is not there: give a trace, or the folder of a snapshot, with --trace")
    found = next(iter(entry_points(group=_GROUP)), None)
    if found is None:
        raise HeadwayError(
            "--trace needs readers of instruction traces, and none is installed: pip install headway-trace"
        )
    return cast("Open", found.load())(run, path, images)
