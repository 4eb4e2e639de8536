"""The questions that a client may ask: their names, arguments and answers. Those here change nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from headway.advice import Advice, advise
from headway.advice.threshold_files import load_thresholds
from headway.errors import HeadwayError
from headway.extras import need
from headway.model import Cause, Group, GroupBy, Kind, Ledger, Quality, grouped, indices_of, merge
from headway.verdict import Verdict, verdict
from headway.views.saved import read_ledgers

from .answers import LARGEST_ANSWER, figure, indices, limited, listed, of_ledger, short, state_quality, tokens, written
from .arguments import Argument, Choice, Text, Texts, Whole, checked
from .readable import ReadableFiles

if TYPE_CHECKING:
    from headway.recording.queries.catalogue import RecordedRun
    from headway.recording.queries.comparison import Course
    from headway.recording.queries.instant import Doing, Instant
    from headway.replay.predict import Prediction
    from headway.replay.units import UnitPrediction

__all__ = ["SECONDS", "TOOLS", "Tool", "ask"]

SECONDS = 60.0
"""A query that takes longer is ended, and so is a list of changes."""
_TASKS = 5
"""Titles of tasks of a prediction that are told: all together, and those that take longest."""
_MOST = 1000
"""The largest limit of rows."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A question."""

    name: str
    what: str
    """What it answers, for the client."""
    arguments: Mapping[str, Argument]
    answer: Callable[[ReadableFiles, Mapping[str, Any]], dict[str, Any]]
    reads: bool = True
    """Whether it only reads."""
    shorter: str = "ask with a smaller limit"
    """What makes an answer shorter."""


def ask(name: str, given: object, files: ReadableFiles, tools: Mapping[str, Tool] | None = None) -> dict[str, Any]:
    """Return the answer to a question, as plain dicts and lists; ``tools``: None for `TOOLS`. Raises HeadwayError."""
    known = TOOLS if tools is None else tools
    if name not in known:
        raise HeadwayError(f"there is no question {name[:60]!a}: ask one of {', '.join(known)}")
    tool = known[name]
    answer = tool.answer(files, checked(tool.arguments, given))
    size = tokens(written(answer))
    if size > LARGEST_ANSWER:
        raise HeadwayError(f"the answer would have about {size:,} tokens, more than clients take: {tool.shorter}")
    return answer


# --- what there is ----------------------------------------------------------------------------------------------------


def _files(files: ReadableFiles, given: Mapping[str, Any]) -> dict[str, Any]:
    found, more = files.listed()
    rows, left_out = limited(found, len(found), asdict, offset=given["offset"])
    if more:  # beyond what is looked for
        left_out = {**left_out, "rows": left_out["rows"] + more}
        left_out.setdefault("how", "start headway mcp with the folders that matter")
    return {"files": rows, "left_out": left_out}


# --- ledgers ----------------------------------------------------------------------------------------------------------


def _ledger(files: ReadableFiles, path: str) -> tuple[Ledger, dict[str, Any], bool]:
    """Return the ledger of a file, what else is known of it, and whether commands for its threads may be followed here.

    Raises HeadwayError.
    """
    try:
        document = files.find(path, "document")
    except HeadwayError:
        real = files.find(path, "recording")
    else:
        return reduce(merge, read_ledgers(document)), {"file": path, "kind": "document"}, True
    need("recording")
    from headway.recording.clock import boot
    from headway.recording.reader import Recording

    with Recording(real) as recording:
        found = recording.kept_ledger()
        ledger = recording.ledger() if found is None else found
        known = recording.document
        more = {
            "file": path,
            "kind": "recording",
            "command": None if known.command is None else short(list(known.command)),
            "exit_status": known.exit_status,
            "closed": recording.closed,
            "damaged": listed([f"{name}: {why}" for name, why in recording.damaged.items()]),
        }
        return ledger, more, known.boot == boot()


def _stat(files: ReadableFiles, given: Mapping[str, Any]) -> dict[str, Any]:
    ledger, about, _ = _ledger(files, given["file"])
    threads = ledger.threads
    if given["name"] is not None:
        threads = tuple(thread for thread in threads if thread.name == given["name"])
        if not threads:
            names = sorted({thread.name for thread in ledger.threads})
            raise HeadwayError(
                f"no thread is called {given['name'][:60]!a}: there are {', '.join(map(ascii, names[:20]))}"
            )
    by = GroupBy(given["by"])
    groups = [Group(tuple(threads[place] for place in places), by) for places in grouped(threads, by)]
    groups.sort(key=_at_work, reverse=True)
    rows, left_out = limited(
        groups,
        given["limit"],
        lambda group: _group(group, ledger, given["states"]),
        offset=given["offset"],
        shorter="ask for fewer states",
    )
    answer = {**about, **of_ledger(ledger), "verdict": [_verdict(one, ledger) for one in verdict(ledger)]}
    answer |= {"threads": len(threads), "by": by.value}
    if threads:
        answer["all"] = {"indices": indices(ledger.indices(*threads), ledger), "kinds": _kinds(ledger, groups)}
    return {**answer, "groups": rows, "left_out": left_out}


def _verdict(one: Verdict, ledger: Ledger) -> dict[str, Any]:
    return {
        "cause": one.why.value,
        "text": short(one.text),
        "threads": list(one.threads),
        "number": one.number,
        "share": figure(one.share, "1", one.quality, ledger.source),
        "time": figure(one.time, ledger.time_unit, one.quality, ledger.source),
        "wall": figure(one.wall, ledger.time_unit, one.quality, ledger.source),
        "option": one.option,
    }


def _at_work(group: Group) -> tuple[int, int]:
    """Return what orders groups: the time in which they were able to run, then all their time."""
    times = [thread.times() for thread in group.threads]
    return sum(sum(t.values()) - t[Kind.WAIT] for t in times), sum(sum(t.values()) for t in times)


def _kinds(ledger: Ledger, groups: Sequence[Group]) -> dict[str, Any]:
    """Return the time off the processor, of all groups together."""
    found = {}
    for kind in (Kind.READY, Kind.WAIT, Kind.STOLEN, Kind.OVERHEAD, Kind.UNKNOWN):
        time = sum(thread.times()[kind] for group in groups for thread in group.threads)
        found[kind.value] = figure(time, ledger.time_unit, Quality.EXACT, ledger.source)
    return found


def _group(group: Group, ledger: Ledger, most: int) -> dict[str, Any]:
    found = ledger.indices(*group.threads)
    whole = sum(thread.span for thread in group.threads)
    sampled = {state for state, part in group.sampled.items() if part.told_by_samples}
    states = sorted(group.states.items(), key=lambda item: (-item[1].time, item[0]))
    first = group.threads[0]
    answer: dict[str, Any] = {
        "name": short(group.name),
        "tid": first.tid if len(group.threads) == 1 else None,
        "pid": group.pid,
        "threads": len(group.threads),
        "indices": indices(found, ledger),
        "states": [
            {
                "state": short(state),
                "time": figure(
                    cell.time, ledger.time_unit, state_quality(state, found, sampled, ledger.source), ledger.source
                ),
                "share": round(cell.time / whole, 6) if whole else None,
                "count": cell.count,
            }
            for state, cell in states[:most]
        ],
        "states_left_out": max(len(states) - most, 0),
    }
    causes = sorted(group.causes, key=lambda cause: (-cause.time, cause.key[0], cause.name))
    if causes:
        answer["causes"] = [_cause(cause, ledger) for cause in causes[:most]]
        answer["causes_left_out"] = max(len(causes) - most, 0)
    return answer


def _cause(cause: Cause, ledger: Ledger) -> dict[str, Any]:
    return {
        "state": short(cause.state),
        "behind": cause.behind.value,
        "name": short(cause.name),
        "tid": cause.tid,
        "time": figure(cause.time, ledger.time_unit, Quality.EXACT, ledger.source),
        "count": cause.count,
    }


def _advise(files: ReadableFiles, given: Mapping[str, Any]) -> dict[str, Any]:
    ledger, about, here = _ledger(files, given["file"])
    thresholds = replace(load_thresholds(None), most=given["limit"])
    found = advise(ledger, thresholds)
    if not here:  # nothing can be done about it any more, or not by a command typed here
        found = tuple(replace(piece, command=None, undo=None) for piece in found)
    rows, left_out = limited([_piece(piece, ledger) for piece in found], given["limit"], lambda row: row)
    return {**about, **of_ledger(ledger), "advice": rows, "left_out": left_out}


def _piece(piece: Advice, ledger: Ledger) -> dict[str, Any]:
    lost = piece.index in ("mpi", "kpi", "iopi")
    quality = ledger.indices(*ledger.threads).quality[piece.index] if lost else Quality.EXACT
    return {
        "thread": piece.thread,
        "name": None if piece.name is None else short(piece.name),
        "index": piece.index,
        "share": figure(piece.value, "1", quality, ledger.source),
        "threshold": piece.threshold,
        "at_stake": figure(piece.at_stake, ledger.time_unit, quality, ledger.source),
        "alike": piece.alike,
        "text": short(piece.text),
        "command": None if piece.command is None else short(piece.command),
    }


# --- recordings -------------------------------------------------------------------------------------------------------


def _run(files: ReadableFiles, path: str) -> RecordedRun:
    """Return one recording. Raises HeadwayError."""
    need("recording")
    real = files.find(path, "recording")
    from headway.recording.queries.catalogue import find

    (run,) = find(real).runs
    return run


def _at(files: ReadableFiles, given: Mapping[str, Any]) -> dict[str, Any]:
    run = _run(files, given["file"])
    from headway.recording.queries.instant import at

    found = at(run, given["time"])
    telling = sorted(found.threads, key=lambda doing: _telling(doing, found))
    rows, left_out = limited(telling, given["limit"], lambda doing: _doing(doing, found), offset=given["offset"])
    kinds: dict[str, int] = {}
    for doing in found.threads:
        kinds[doing.kind.value] = kinds.get(doing.kind.value, 0) + 1
    return {
        "file": given["file"],
        "source": "recording",
        "time_unit": run.time_unit,
        "time": found.time,
        "since_start": found.time - run.start,
        "realtime_ns": found.realtime,
        "uncertainty_ns": found.uncertainty,
        "quality": Quality.EXACT.value,
        "threads": len(found.threads),
        "kinds": kinds,
        "rows": rows,
        "left_out": left_out,
        "remarks": listed(found.left_out),
    }


def _telling(doing: Doing, found: Instant) -> tuple[int, int]:
    """Return what orders threads at an instant: who runs, who is ready, and who has waited longest."""
    rank = 0 if doing.kind.in_rpi or doing.kind is Kind.OVERHEAD else 2 if doing.kind is Kind.WAIT else 1
    return rank, 0 if doing.since is None else doing.since - found.time


def _doing(doing: Doing, found: Instant) -> dict[str, Any]:
    wake = doing.wake
    return {
        "tid": doing.tid,
        "pid": doing.pid,
        "name": short(doing.name),
        "state": short(doing.state),
        "kind": doing.kind.value,
        "cpu": doing.cpu,
        "for": None if doing.since is None else found.time - doing.since,
        "ends_in": None if doing.until is None else doing.until - found.time,
        "woken": None
        if wake is None
        else {
            "in": wake.time - found.time,
            "by": short(wake.state or wake.thread or f"tid {wake.tid}"),
            "tid": wake.tid,
        },
    }


def _query(files: ReadableFiles, given: Mapping[str, Any]) -> dict[str, Any]:
    if (given["sql"] is None) == (given["question"] is None):
        raise HeadwayError("give sql or question, one of both: sql is one SELECT, question a ready-made question")
    need("recording")
    real = files.find(given["file"], "recording")
    from headway.recording.queries.questions import question
    from headway.recording.queries.tables import open_tables
    from headway.recording.reader import Recording

    asked = None if given["question"] is None else question(given["question"])
    with open_tables(real, seconds=SECONDS) as tables:
        answer = tables.ask_user(given["sql"]) if asked is None else asked.ask(tables, given["depth"])
        rows, left_out = limited(
            answer.rows,
            given["limit"],
            lambda row: [short(value) for value in row],
            offset=given["offset"],
            shorter="ask for fewer columns",
        )
        units = {} if asked is None else dict(asked.units(tables))
        with Recording(real) as recording:
            ledger = recording.document.ledger
        return {
            "file": given["file"],
            **of_ledger(replace(ledger, window=recording.window)),
            "time_unit": ledger.time_unit,
            "units": units,
            "quality": {name: worth.value for name, worth in indices_of({}, ledger.precision).quality.items()},
            "columns": listed(answer.columns, _MOST),
            "rows": rows,
            "left_out": left_out,
            "remarks": listed([*tables.left_out, *tables.unclosed()]),
        }


def _diff(files: ReadableFiles, given: Mapping[str, Any]) -> dict[str, Any]:
    runs = [_run(files, given[which]) for which in ("a", "b")]
    from headway.recording.queries.comparison import compare, course_of

    found = compare(*(course_of(run, given["name"]) for run in runs))
    differing = [share for share in found.shares if share.difference]
    rows, left_out = limited(
        differing,
        given["limit"],
        lambda share: {
            "name": short(share.name),
            "state": short(share.state),
            "kind": share.kind.value,
            "a": share.a,
            "b": share.b,
            "difference": share.difference,
        },
        offset=given["offset"],
    )
    return {
        "source": "recording",
        "time_unit": runs[0].time_unit,
        "quality": Quality.EXACT.value,
        "progress": found.common,
        **{
            which: _course(course, made, time, given[which])
            for which, course, made, time in zip(
                "ab", (found.a, found.b), (found.progress_a, found.progress_b), found.time, strict=True
            )
        },
        "states": rows,
        "left_out": left_out,
        "remarks": listed([*found.a.left_out, *found.b.left_out]),
    }


def _course(course: Course, progress: int, time: int, path: str) -> dict[str, Any]:
    return {"file": path, "duration": course.length, "progress": progress, "time": time, "resolution": course.piece}


# --- what if ----------------------------------------------------------------------------------------------------------


def _what_if(files: ReadableFiles, given: Mapping[str, Any]) -> dict[str, Any]:
    need("recording")
    from headway.recording.reader import Recording
    from headway.replay.candidates import rank
    from headway.replay.changes import parse_changes
    from headway.replay.functions import read_shares
    from headway.replay.predict import check_error, model_of
    from headway.replay.rows import load
    from headway.replay.units import units_in
    from headway.views.what_if import document_of_predictions

    changes = parse_changes(
        faster=given["faster"] or (),
        disk=given["disk"],
        lock_free=given["lock_free"] or (),
        processors=given["processors"],
        threads=given["threads"] or (),
        without=given["without"] or (),
    )
    real = files.find(given["file"], "recording")
    functions = None if given["profile"] is None else read_shares(files.find(given["profile"], "recording"))
    began = time.monotonic()

    def in_time(*_done: int) -> None:
        if time.monotonic() - began > SECONDS:
            raise HeadwayError(f"the question takes longer than {SECONDS:g} s: ask for one change at a time")

    with Recording(real) as recording:
        rows = load(recording, in_time)
        units = units_in(recording, rows)
        ledger = replace(recording.document.ledger, window=recording.window)
        damaged = [f"{name} is left out: {why}" for name, why in recording.damaged.items()]
        command = recording.document.command is not None
    model = model_of(rows, command=command, tid=given["tid"], functions=functions, units=units)
    check_error(model, "record it again with fewer others running")
    found = [model.predict(changes)] if changes else [one for _, one in rank(model, in_time)]
    known = document_of_predictions((), model, given["file"])
    unit = rows.time_unit
    predictions, left_out = limited(found, given["limit"], lambda one: _prediction(one, unit), offset=given["offset"])
    return {
        "file": given["file"],
        **of_ledger(ledger),
        "thread": short(known["thread"]),
        "processors": known["processors"],
        "recorded": figure(known["recorded"], unit, Quality.EXACT, ledger.source),
        "replayed": _ranged(known["replayed"], known["replayed"], unit),
        "model_error": known["error"],
        "predictions": predictions,
        "left_out": left_out,
        "assumptions": listed(known["assumptions"]),
        "remarks": listed([*known["notes"], *damaged]),
    }


def _prediction(one: Prediction, unit: str) -> dict[str, Any]:
    least, most = one.gain
    return {
        "changes": listed([str(change) for change in one.changes]),
        "wall_time": _ranged(one.low, one.high, unit),
        "gain": _ranged(round(least, 6), round(most, 6), "1"),
        **({"tasks": [_task_prediction(each, unit) for each in one.units[:_TASKS]]} if one.units else {}),
        "assumptions": listed(one.assumptions),
        "notes": listed(one.notes),
    }


def _task_prediction(one: UnitPrediction, unit: str) -> dict[str, Any]:
    """Return what becomes of the tasks of one title. No range: the unchanged replay of them is too far off."""
    known = {}
    if one.low is not None and one.high is not None:
        known = {
            "mean": _ranged(round(one.low.mean), round(one.high.mean), unit),
            "p99": _ranged(round(one.low.p99), round(one.high.p99), unit),
            "rate": _ranged(one.low.rate, one.high.rate, f"1/{unit}"),
        }
    return {
        "title": short(one.title) if one.title else "all tasks",
        "count": one.count,
        "recorded_mean": round(one.recorded.mean),
        "model_error": round(one.error, 6),
        **known,
    }


def _ranged(low: float, high: float, unit: str) -> dict[str, Any]:
    """Return a figure of a replay. Nobody has measured it, so it has a range and no quality."""
    return {"range": [low, high], "unit": unit, "source": "replay"}


_FILE = Text("What files lists: a recording, or what headway stat --json has written.", required=True)
_RECORDING = Text("A recording that the question files lists.", required=True)


def _limit(default: int) -> Whole:
    return Whole("The number of rows of the answer; it says how many are left out.", 1, _MOST, default)


_OFFSET = Whole("Leave out so many rows at the beginning: left_out of an answer says where to go on.", 0, 10**9, 0)

TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool("files", "List the recordings and saved documents that can be asked about.", {"offset": _OFFSET}, _files),
        Tool(
            "stat",
            "Where the time of each thread went, of a recording or a saved document: the indices of progress (RPI all "
            "processor time, EPI progress, MPI memory, KPI kernel, IOPI polling), and the time in each state, with "
            "what was behind it where that was recorded. Times are sums over the threads of a group. The verdict says "
            "in at most three sentences where the time of all threads that work went, and why.",
            {
                "file": _FILE,
                "by": Choice(
                    "What a group is: a thread, all threads of a name, or a process.",
                    [by.value for by in GroupBy],
                    GroupBy.NAME.value,
                ),
                "name": Text("Only threads of this name.", longest=256),
                "limit": _limit(20),
                "offset": _OFFSET,
                "states": Whole("The number of states, and of causes, of each group.", 1, 100, 8),
            },
            _stat,
            shorter="ask with a smaller limit, or for fewer states",
        ),
        Tool(
            "advise",
            "What would help: the causes of lost time, the one with most time at stake first, with the figure that "
            "says so, its threshold, and a command that shows more.",
            {"file": _FILE, "limit": Whole("The number of pieces of advice.", 1, 100, 10)},
            _advise,
        ),
        Tool(
            "at",
            "What every thread was doing at one instant of a recording, since when, and who had woken it or was to end "
            "its wait: who ran first, then who was ready, then who had waited longest. Times are in time_unit.",
            {
                "file": _RECORDING,
                "time": Text(
                    "Since the recording's start, as in 3.2s or 150ms, or a time of day in ISO 8601.",
                    longest=64,
                    required=True,
                ),
                "limit": _limit(100),
                "offset": _OFFSET,
            },
            _at,
        ),
        Tool(
            "query",
            "Ask a recording by SQL (one SELECT, DuckDB's dialect), or a ready-made question. Tables: transitions "
            "(time, duration, taken, cpu, thread, state, count, waker, waker_tid, waker_state), aligned, threads "
            "(thread, tid, pid, name, birth, start, end), states (thread, tid, pid, name, state, kind, time, count), "
            "progress (thread, tid, pid, name, kind, time), processors (cpu, state, kind, time, count), losses (name, "
            "count), samples, stacks, frames, recordings, clocks, open_states. Times are in time_unit. Questions: "
            "lost-progress, wait-chains (who waited for whom), waits, states, processors.",
            {
                "file": _RECORDING,
                "sql": Text("One SELECT.", longest=4_000),
                "question": Choice(
                    "A ready-made question instead of SQL.",
                    ["lost-progress", "wait-chains", "waits", "states", "processors"],
                ),
                "depth": Whole("The number of links of a wait chain.", 1, 16, 3),
                "limit": _limit(50),
                "offset": _OFFSET,
            },
            _query,
            shorter="ask for fewer columns, or with a smaller limit",
        ),
        Tool(
            "diff",
            "Two recordings of the same work at equal progress: how long each took for the progress that both made, "
            "and in which states of which threads b has more or less time.",
            {
                "a": _RECORDING,
                "b": _RECORDING,
                "name": Text("Only threads of this name.", longest=256),
                "limit": _limit(30),
                "offset": _OFFSET,
            },
            _diff,
        ),
        Tool(
            "what_if",
            "How long a recorded run would take if something were changed, by a replay of who waited for whom. With "
            "several changes all are made together. Without a change: a list of those that are worth it, the highest "
            "gain that is certain first. A figure is a range, from the lowest to the highest value; gain is a share of "
            "the wall time, negative for a loss. What the ranges rest on is in assumptions, of each prediction and of "
            "all.",
            {
                "file": _RECORDING,
                "faster": Texts(
                    "WHAT=SPEED, such as parse=2x or 'worker-*:kernel.read=30%' (30 per cent less time). WHAT is a "
                    "marked region or function, a state, a thread's name, THREAD:STATE, or a function of the profile."
                ),
                "disk": Text("How much faster disks are, as a SPEED.", longest=64),
                "lock_free": Texts(
                    "Locks that are not waited for: by address (0x55d04a8c40, or THREADS:0x55d04a8c40), or all that "
                    "threads of a name hold among themselves."
                ),
                "processors": Text("Another number of processors: 4, +1 or -1.", longest=16),
                "threads": Texts("NAME=2x: twice as many threads of this name share their work."),
                "without": Texts("Neighbours that are gone: processes by name or id, or others: all not measured."),
                "profile": Text("A recording of headway profile of the same program, to find functions in."),
                "tid": Whole("Look for the end of this thread.", 1, 2**31 - 1),
                "limit": _limit(12),
                "offset": _OFFSET,
            },
            _what_if,
        ),
    )
}
"""The questions by name."""
