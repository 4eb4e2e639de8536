"""One way to read every instruction trace, whatever its protocol and the file that holds it.

A kind of trace (`TraceKind`) recognises a path, says which options it takes, and opens it as a `TraceReader`. That
answers in rows of named columns (`Answer`), which a command prints. `readers` has the kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from headway.errors import HeadwayError

if TYPE_CHECKING:
    from headway.model.executed import ExecutedBeside
    from headway.recording.queries.catalogue import RecordedRun

    from .edges import Tracks
    from .selection import Wanted
    from .walk import Walk

__all__ = [
    "Answer",
    "Export",
    "Indexing",
    "Option",
    "OptionError",
    "ProfileReader",
    "TextReader",
    "There",
    "TraceKind",
    "TraceReader",
]


class Indexing(Protocol):
    """What shows how far something is that takes long and is done only once; a progress bar is one."""

    @property
    def due(self) -> bool:
        """Whether it takes so long that it is to be shown."""

    def show(self, text: str, completed: float) -> None:
        """Show words, and the share that is done, between 0 and 1."""


class Option(Enum):
    """What only some kinds of traces take."""

    ASSUME = "--assume"
    """Going on where trace and program contradict each other."""
    STALLS = "--stalls"
    """The time in which nothing was executed, in rows of its own."""
    WINDOWS = "--windows"
    """The windows of a profile that is in the trace."""
    RAW = "--protocol"
    """What the user says of raw bytes, and that the bytes do not say."""
    TEXT = "text"
    """The text that programs write to stimulus ports."""
    THREAD_STREAMS = "--thread"
    """The choice of threads also where instructions are not looked at: its streams are those of threads."""


class OptionError(HeadwayError):
    """An option that does not fit this trace, or that it needs. The sentence begins with what to do, or names it."""

    exit_status = 2


class There(NamedTuple):
    """What there is: the threads, and the first and the last common time. None: nothing was selected by it."""

    threads: Collection[int] | None = None
    times: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows of named columns, as they come: they may exceed memory."""

    columns: Sequence[str]
    rows: Iterable[Sequence[Any]] = ()
    lines: Iterable[bytes] | None = None
    """The same rows as CSV, many lines at a time, where that is faster; None: there is no such way."""
    there: Callable[[], There] | None = None
    """What there is, for a sentence if no row has an instruction of what was wanted; None: no such sentence."""
    left_out: Callable[[], Sequence[str]] = tuple
    """Returns, once the rows are read, what is not in them and why, in one line each."""
    titles: Sequence[str] = ()
    """Shorter names of the columns, for a table on a terminal; empty: there are none."""


class Export(NamedTuple):
    """What writes the slices and returns notes about them, and what was left out of the trace, in one line."""

    fill: Callable[[Tracks], list[str]]
    left_out: str = ""


class TraceReader(Protocol):
    """A trace that was opened. Every method raises HeadwayError, `OptionError` for options that do not fit it."""

    @property
    def remarks(self) -> Sequence[str]:
        """What is to be said of the file before any answer, in one line each."""

    def instructions(self, wanted: Wanted, *, stalls: bool) -> Answer:
        """Return every instruction and every gap that is wanted, each stream in order."""

    def statistics(self, streams: Sequence[int]) -> Answer:
        """Return packets by kind, and with a program instructions, bits for each, and gaps by reason."""

    def alignment(self, streams: Sequence[int]) -> Answer:
        """Return how the cycles of each stream lie in the common time."""

    def placed(self, streams: Sequence[int]) -> Answer:
        """Return every instruction with its common time."""

    def at(self, wanted: Wanted, cycle: int | None, time: int | None, indexing: Indexing | None) -> Answer:
        """Return what every stream was executing at a cycle of one stream, or at a common time."""

    def export(self, streams: Sequence[int]) -> Export:
        """Return the trace as slices. What is wrong with it was found when this returns."""

    def walk(self, streams: Sequence[int]) -> Walk:
        """Return what every thread executed, one step after the other, for call stacks and coverage."""

    def beside(self, run: RecordedRun) -> ExecutedBeside:
        """Return what the threads of a recording of the same run executed."""


class ProfileReader(TraceReader, Protocol):
    """A trace with a profile (`Option.WINDOWS`)."""

    def windows(self, streams: Sequence[int]) -> Answer:
        """Return a row for each window of the profile."""


class TextReader(TraceReader, Protocol):
    """A trace with text that programs wrote into it (`Option.TEXT`)."""

    def text(self, streams: Sequence[int], ports: Sequence[int]) -> Answer:
        """Return a row for each line. ``ports``: the stimulus ports; none: all."""


class TraceKind(Protocol):
    """A kind of trace."""

    @property
    def takes(self) -> Collection[Option]:
        """The options that not every kind takes."""

    def recognises(self, path: str) -> bool:
        """Return whether the path is such a trace. Raises HeadwayError if it cannot be read."""

    def open(self, path: str, images: Sequence[str], *, assumes: bool) -> TraceReader:
        """Open it with these programs, else those that it names. Raises HeadwayError."""
