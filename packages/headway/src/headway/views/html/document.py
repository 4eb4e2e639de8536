"""The content of a page as plain values: the ledger with its indices from the model, and the notes on it.

The page computes none of the ledger's figures; it only shows them. Numbers that a browser cannot hold exactly are
strings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from headway._version import __version__
from headway.advice import Advice
from headway.dataclass import dataclass
from headway.model import (
    NO_TASK,
    Cell,
    Estimate,
    Group,
    GroupBy,
    Indices,
    Kind,
    Ledger,
    Quality,
    Task,
    add_times,
    grouped,
    indices_of,
    kind_of,
    merged_by_name,
    time_by_kind,
)
from headway.verdict import verdict
from headway.views.durations import PERCENTILES
from headway.views.palette import ON_PROCESSOR, ORDER, PALETTE
from headway.views.printable import visible

from .sampled import PipelineWindow, Power, SampledTimeline, pipeline_document, power_document
from .words import QUALITIES, limits_of, overall, sentences

if TYPE_CHECKING:
    from .timeline import PackedTimeline

__all__ = ["SCHEMA", "ChainRow", "Subject", "document"]

SCHEMA = "headway.page/1"
_EXACT_NUMBER = 2**53
_NAME = 300
_TEXT = 4000
_MAX_CHAINS = 300
_MAX_TASKS = 300
_CAUSES = 6
"""The number of causes listed for each state and thread."""
_INDICES = {
    "rpi": ("RPI", "all processor time"),
    "epi": ("EPI", "the part that was progress"),
    "td": ("Td", "lost on the processor: RPI − EPI"),
    "mpi": ("MPI", "waiting for memory"),
    "kpi": ("KPI", "in the kernel, or in marked regions"),
    "iopi": ("IOPI", "polling for what is not there yet"),
    "te": ("TE", "thread efficiency: 1 − Td/RPI"),
    "me": ("ME", "1 − MPI/Td"),
    "ke": ("KE", "1 − KPI/Td"),
    "ioe": ("IOE", "1 − IOPI/Td"),
}
_SHARES = frozenset({"te", "me", "ke", "ioe"})


class ChainRow(Protocol):
    """A wait chain, as `headway.recording.queries.chains.Chain`."""

    @property
    def links(self) -> Sequence[tuple[str, str]]:
        """(thread name, state of its wait), beginning with the thread whose wait is counted."""

    @property
    def end(self) -> str:
        """What ended the last link's wait."""

    @property
    def count(self) -> int:
        """The number of waits that followed this chain."""

    @property
    def time(self) -> int:
        """Their total time."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What the page is about, besides the figures."""

    title: str
    host: str = ""
    when: str = ""
    """The date and time of the beginning, for people."""
    command: Sequence[str] | None = None
    exit_status: int | None = None
    advice: Sequence[Advice] = ()
    chains: Sequence[ChainRow] | None = None
    """The wait chains; None: they are not known, for the reason `no_chains`."""
    no_chains: str = ""
    no_timeline: str = ""
    """Why there is no timeline, if there is none."""
    no_profile: str = ""
    remarks: Sequence[str] = field(default_factory=tuple)
    """What was left out, and why; one clause each."""
    damaged: int = 0
    """The number of the recording's files that cannot be read."""
    power: Power | None = None
    """What the processors' power was used for, if it is known."""
    pipeline: PipelineWindow | None = None
    """Each cycle of a window, if it is known."""


def document(ledger: Ledger, subject: Subject, timeline: PackedTimeline | SampledTimeline | None) -> Mapping[str, Any]:
    """Return the content of the page, except the rows, the buckets and the profile."""
    states = _Words()
    threads = _threads(ledger, states)
    processors = [
        {
            "cpu": one.cpu,
            "span": _number(one.span),
            "times": _times(ledger.times(one)),
            "states": _cells(one.states, one.sampled, states),
        }
        for one in ledger.processors
    ]
    laid: Mapping[str, Any] | None = None
    if isinstance(timeline, SampledTimeline):
        laid = _sampled(timeline)
    elif timeline is not None:
        laid = _timeline(timeline, states)
    window, cost = ledger.window, ledger.overhead
    indices = overall(ledger)
    return {
        "schema": SCHEMA,
        "headway": __version__,
        "title": visible(subject.title, _NAME),
        "host": visible(subject.host, _NAME),
        "when": subject.when,
        "command": None if subject.command is None else visible(" ".join(subject.command), _TEXT),
        "exit_status": subject.exit_status,
        "source": visible(ledger.source, _NAME),
        "unit": ledger.unit,
        "time_unit": ledger.time_unit,
        "window": {"start": _number(window.start), "end": _number(window.end), "duration": _number(window.duration)},
        "kinds": [
            {
                "name": kind.value,
                "letter": PALETTE[kind].letter,
                "words": PALETTE[kind].words,
                "light": [PALETTE[kind].on_light, PALETTE[kind].ink_on_light],
                "dark": [PALETTE[kind].on_dark, PALETTE[kind].ink_on_dark],
                "on": kind in ON_PROCESSOR,
            }
            for kind in ORDER
        ],
        "sentences": [*_verdict(ledger), *sentences(ledger)],
        "indices": [_index(ledger, indices, name) for name in _INDICES],
        "reasons": [[visible(name, _NAME), visible(reason, _TEXT)] for name, reason in ledger.reasons.items()],
        "losses": [[visible(name, _NAME), _number(amount)] for name, amount in ledger.losses.items() if amount],
        "damaged": subject.damaged,
        "overhead": {"time": _number(cost.time), "events": _number(cost.events)},
        "counted": [[visible(name, _NAME), counted.share] for name, counted in ledger.counted.items()],
        "threads": threads,
        "groups": _groups(ledger, states),
        "tasks": _tasks(ledger, states),
        "processors": processors,
        "advice": [_advice(piece) for piece in subject.advice],
        "chains": _chains(subject),
        "timeline": laid,
        "power": None if subject.power is None else power_document(subject.power),
        "pipeline": None if subject.pipeline is None else pipeline_document(subject.pipeline),
        "missing": {
            "timeline": visible(subject.no_timeline, _TEXT),
            "chains": visible(subject.no_chains, _TEXT),
            "profile": visible(subject.no_profile, _TEXT),
        },
        "remarks": [visible(remark, _TEXT) for remark in subject.remarks],
        "states": [visible(name, _NAME) for name in states.known],
        "state_kinds": [ORDER.index(kind_of(name)) for name in states.known],
    }


class _Words:
    """Names by number, in the order in which they were first used."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}

    def number(self, name: str) -> int:
        return self.known.setdefault(name, len(self.known))


def _number(value: int | None) -> int | str | None:
    return value if value is None or -_EXACT_NUMBER <= value <= _EXACT_NUMBER else str(value)


def _times(times: Mapping[Kind, int]) -> list[int | str | None]:
    """Return the time of each kind, in `ORDER`: the parts of a bar."""
    return [_number(times.get(kind, 0)) for kind in ORDER]


def _index(ledger: Ledger, indices: Indices, name: str) -> Mapping[str, Any]:
    value = getattr(indices, name)
    quality = indices.quality[name]
    reason = ledger.reasons.get(name, "") if ledger.threads else next(sentences(ledger))
    return {
        "name": name,
        "title": _INDICES[name][0],
        "words": _INDICES[name][1],
        "value": value if name in _SHARES else _number(value),
        "share": name in _SHARES,
        "quality": quality.value,
        "means": QUALITIES[quality] + limits_of(ledger, indices, name),
        "reason": visible(reason, _TEXT),
    }


def _threads(ledger: Ledger, states: _Words) -> Mapping[str, Any]:
    """Return the threads as columns, in the order of the ledger. ``times`` has one value for each kind, in `ORDER`."""
    columns = _columns("tid", "pid", "start", "end")
    for thread in ledger.threads:
        for name in ("tid", "pid"):
            columns[name].append(getattr(thread, name))
        for name in ("start", "end"):
            columns[name].append(_number(getattr(thread, name)))
        _add(columns, ledger, Group((thread,), GroupBy.THREAD), states)
    return columns


def _groups(ledger: Ledger, states: _Words) -> Mapping[str, Any]:
    """Return the names that several threads have as columns like the threads', with the places of these threads."""
    columns = _columns("places")
    for places in grouped(ledger.threads, GroupBy.NAME):
        if len(places) > 1:
            columns["places"].append(places)
            _add(columns, ledger, Group(tuple([ledger.threads[at] for at in places]), GroupBy.NAME), states)
    return columns


def _tasks(ledger: Ledger, states: _Words) -> Mapping[str, Any] | None:
    """Return the tasks of all threads together, most time first and the time between them last; None: there are none.

    A row is [title, changes, RPI, EPI, times by kind in `ORDER`, states]. ``rest`` has how many tasks are not among the
    rows, and their time.
    """
    found = merged_by_name(task for thread in ledger.threads for task in thread.tiles())
    if not found:
        return None
    named = [task for task in found if task.title != NO_TASK]
    between = [task for task in found if task.title == NO_TASK]
    rest = named[_MAX_TASKS:]
    return {
        "quality": indices_of({}, ledger.precision).quality["epi"].value,
        "rows": [_task(task, ledger, states) for task in (*named[:_MAX_TASKS], *between)],
        "rest": {"tasks": len(rest), "time": _number(sum(task.time for task in rest))},
    }


def _task(task: Task, ledger: Ledger, states: _Words) -> list[Any]:
    times = time_by_kind(task.states)
    indices = indices_of(times, ledger.precision)
    return [
        visible(task.title, _NAME),
        task.changes,
        _number(indices.rpi),
        _number(indices.epi),
        _times(times),
        _cells(task.states, {}, states),
    ]


def _columns(*more: str) -> dict[str, list[Any]]:
    return {
        name: [] for name in (*more, "name", "span", *_INDICES, "quality", "times", "states", "causes", "durations")
    }


_LETTERS = {quality: quality.value[0] for quality in Quality} | {Quality.BY_MODE: "m", Quality.ESTIMATED: "c"}
"""The letter that stands for a quality in the rows of threads."""


def _add(columns: dict[str, list[Any]], ledger: Ledger, group: Group, states: _Words) -> None:
    """Add the figures of the threads together to the columns."""
    indices = ledger.indices(*group.threads)
    times = add_times([ledger.times(thread) for thread in group.threads])
    columns["name"].append(visible(group.name, _NAME))
    columns["span"].append(_number(sum([thread.span for thread in group.threads])))
    for name in _INDICES:
        value = getattr(indices, name)
        columns[name].append(value if name in _SHARES else _number(value))
    columns["quality"].append("".join(_LETTERS[indices.quality[name]] for name in _INDICES))
    columns["times"].append(_times(times))
    columns["states"].append(_cells(group.states, group.sampled, states))
    columns["causes"].append(_causes(group, states))
    columns["durations"].append(_durations(group, ledger.window.start, states))


def _cells(cells: Mapping[str, Cell], sampled: Mapping[str, Estimate], states: _Words) -> list[list[Any]]:
    """Return [state, time, occurrences] of each state, most time first; and the time that samples told, if any."""
    rows = sorted(cells.items(), key=lambda item: (-item[1].time, item[0]))
    found = []
    for state, cell in rows:
        if not cell.empty:
            part = sampled[state].told_by_samples if state in sampled else 0
            row = [states.number(state), _number(cell.time), _number(cell.count)]
            found.append([*row, _number(part)] if part else row)
    return found


def _causes(group: Group, states: _Words) -> list[list[Any]]:
    """Return [state, relation, name, tid, time, occurrences] of the largest causes of each state."""
    listed: dict[tuple[str, str], int] = {}
    found = []
    for cause in group.causes:
        key = cause.state, cause.behind.value
        listed[key] = listed.get(key, 0) + 1
        if listed[key] <= _CAUSES:
            name = visible(cause.name, _NAME)
            row = [states.number(cause.state), cause.behind.value, name, cause.tid, _number(cause.time), cause.count]
            found.append(row)
    return found


def _durations(group: Group, start: int, states: _Words) -> list[list[Any]]:
    """Return [state, p50, p90, p99, longest, its end since the start, first bucket, numbers] of the states.

    The numbers are those of the buckets from the first one on that has occurrences: powers of two of the time unit.
    """
    found = []
    for state, durations in (group.durations or {}).items():
        buckets = dict(durations.coarser(1).buckets)
        if not buckets:
            continue
        longest = durations.longest
        first, last = min(buckets), max(buckets)
        found.append(
            [
                states.number(state),
                *[_number(durations.at_most(part)) for part in PERCENTILES.values()],
                None if longest is None else _number(longest.time),
                None if longest is None or longest.ended is None else _number(max(longest.ended - start, 0)),
                first,
                [_number(buckets.get(bucket, 0)) for bucket in range(first, last + 1)],
            ]
        )
    return found


def _advice(piece: Advice) -> Mapping[str, Any]:
    who = "the machine" if piece.thread is None else f"{visible(piece.name or '', 64)} {piece.thread}".strip()
    return {
        "who": who,
        "text": visible(piece.text, _TEXT),
        "command": None if piece.command is None else visible(piece.command, _TEXT),
        "undo": None if piece.undo is None else visible(piece.undo, _TEXT),
    }


def _verdict(ledger: Ledger) -> list[str]:
    """Return the sentences of the verdict, which come before all others."""
    return [f"{visible(one.text, _TEXT)}." for one in verdict(ledger)]


def _chains(subject: Subject) -> Mapping[str, Any] | None:
    if subject.chains is None:
        return None
    found = sorted(subject.chains, key=lambda chain: -chain.time)
    rest = found[_MAX_CHAINS:]
    return {
        "rows": [
            [
                _number(chain.time),
                chain.count,
                [[visible(name, _NAME), visible(state, _NAME)] for name, state in chain.links],
                visible(chain.end, _NAME),
            ]
            for chain in found[:_MAX_CHAINS]
        ],
        "time": _number(sum(chain.time for chain in found)),
        "more": {"rows": len(rest), "time": _number(sum(chain.time for chain in rest))},
    }


def _timeline(timeline: PackedTimeline, states: _Words) -> Mapping[str, Any]:
    levels, slices = timeline.levels, timeline.slices
    return {
        "length": _number(timeline.length),
        "states": [states.number(name) for name in timeline.states],
        "rows": timeline.rows,
        "amounts": timeline.amounts,
        "unplaced": timeline.unplaced,
        "sampled": False,
        "width": _number(levels.width),
        "first": levels.first.tolist(),
        "until": levels.until.tolist(),
        "kinds": list(timeline.kinds),
        "edges": None if slices is None else list(slices.edges),
    }


def _sampled(timeline: SampledTimeline) -> Mapping[str, Any]:
    return {
        "length": _number(timeline.length),
        "states": [],
        "rows": 0,
        "amounts": 0,
        "unplaced": 0,
        "sampled": True,
        "width": _number(timeline.width),
        "first": list(timeline.first),
        "until": list(timeline.until),
        "kinds": list(timeline.kinds),
        "edges": None,
    }
