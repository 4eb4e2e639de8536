"""A ledger as JSON: the document that ``headway stat --json`` prints (headway.stat/1).

The schema beside this file says what each field means and its unit (``headway schema``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from headway.model import (
    Cause,
    Cell,
    Estimate,
    Indices,
    KernelClock,
    Ledger,
    Quality,
    StateDurations,
    Task,
    Thread,
    kind_of,
    origin_of,
)
from headway.text import valid
from headway.verdict import Verdict, verdict

if TYPE_CHECKING:
    from headway.advice import Advice
    from headway.model.forecast import Expectation
    from headway.model.work import Work

from .durations import durations_document, kept_in, states_listed
from .schemas import schema_of
from .uses_json import use_documents

__all__ = ["advice_document", "dumps", "schema", "to_document", "verdict_documents", "write"]

SCHEMA = "headway.stat/1"
_INDICES = ("rpi", "epi", "mpi", "kpi", "iopi", "td", "te", "me", "ke", "ioe")


def to_document(
    ledger: Ledger,
    *,
    command: Sequence[str] | None = None,
    exit_status: int | None = None,
    advice: Iterable[Advice] = (),
    work: Work | None = None,
    forecast: Expectation | None = None,
) -> dict[str, Any]:
    """Return the ledger as plain dicts and lists, in the order of the schema.

    ``exit_status`` is None while the command runs, and if there is no command. ``forecast``: when ``work`` will be
    done.
    """
    window, cost, kept = ledger.window, ledger.overhead, kept_in(ledger)
    return {
        "schema": SCHEMA,
        "source": ledger.source,
        "unit": ledger.unit,
        "time_unit": ledger.time_unit,
        "command": None if command is None else [valid(word) for word in command],
        "exit_status": exit_status,
        "window": {"start": window.start, "end": window.end, "duration": window.duration},
        "threads": [_thread(ledger, thread, kept) for thread in ledger.threads],
        "processors": [{"cpu": p.cpu, "states": _states(ledger, p.states, p.sampled)} for p in ledger.processors],
        "losses": {valid(name): count for name, count in ledger.losses.items()},
        "overhead": {
            "time": cost.time,
            "events": cost.events,
            "per_event": cost.per_event,
            "range": [*cost.range],
            "own": cost.own,
            "others": cost.others,
        },
        "advice": [advice_document(piece) for piece in advice],
        "verdict": verdict_documents(ledger),
        "reasons": {valid(name): valid(reason) for name, reason in ledger.reasons.items()},
        **({"counted": {valid(name): c.share for name, c in ledger.counted.items()}} if ledger.counted else {}),
        **use_documents(ledger.uses),
        **({"forecast": forecast_document(work, forecast)} if work is not None and forecast is not None else {}),
    }


def advice_document(advice: Advice) -> dict[str, Any]:
    """Return one piece of advice as it is in the document."""
    found = {**asdict(advice), "text": valid(advice.text), "name": None if advice.name is None else valid(advice.name)}
    if advice.remedy is not None:
        found["remedy"]["neighbours"] = list(advice.remedy.neighbours)
    return found


def forecast_document(work: Work, expected: Expectation) -> dict[str, Any]:
    """Return when work will be done, as it is in the document."""
    return {**asdict(expected), "state": work.state}


def verdict_documents(ledger: Ledger) -> list[dict[str, Any]]:
    """Return the verdict of a ledger as it is in the document."""
    return [_verdict(one) for one in verdict(ledger)]


def _verdict(one: Verdict) -> dict[str, Any]:
    return {
        "cause": one.why.value,
        "text": valid(one.text),
        "threads": list(one.threads),
        "number": one.number,
        "share": one.share,
        "time": one.time,
        "wall": one.wall,
        "quality": one.quality.value,
        "option": one.option,
        "idle": one.idle,
    }


def dumps(document: Mapping[str, Any]) -> str:
    """Return the document as one line of ASCII, without a newline at its end."""
    return _dumps(document)


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def write(
    ledger: Ledger,
    *,
    command: Sequence[str] | None = None,
    exit_status: int | None = None,
    advice: Iterable[Advice] = (),
    work: Work | None = None,
    forecast: Expectation | None = None,
) -> Iterator[str]:
    """Yield the text of `dumps(to_document(...))` in parts. It is fast enough for thousands of threads every second."""
    around = to_document(
        replace(ledger, threads=(), processors=()),
        command=command,
        exit_status=exit_status,
        advice=advice,
        work=work,
        forecast=forecast,
    )
    around["verdict"] = verdict_documents(ledger)
    qualities = partial(_quality_text, {})
    kept = kept_in(ledger)
    rows: dict[str, Iterable[str]] = {
        "threads": (_thread_text(ledger, thread, qualities, kept) for thread in ledger.threads),
        "processors": (
            f'{{"cpu":{p.cpu},"states":{_states_text(ledger, p.states, p.sampled)}}}' for p in ledger.processors
        ),
    }
    before = "{"
    for name, value in around.items():
        yield f'{before}"{name}":'
        before = ","
        if name in rows:
            yield "["
            yield from _between(rows[name])
            yield "]"
        else:
            yield dumps(value)
    yield "}"


def _between(texts: Iterable[str]) -> Iterator[str]:
    """Yield the texts with commas between them."""
    comma = ""
    for text in texts:
        yield comma + text
        comma = ","


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of the document."""
    return schema_of("stat")


def _thread(ledger: Ledger, thread: Thread, kept: bool) -> dict[str, Any]:
    """Return a thread. ``kept``: durations were asked for."""
    indices = ledger.indices(thread)
    return {
        "tid": thread.tid,
        "pid": thread.pid,
        "name": valid(thread.name),
        "start": thread.start,
        "end": thread.end,
        "indices": {name: getattr(indices, name) for name in (*_INDICES, *_apart(indices))},
        "quality": {name: quality.value for name, quality in indices.quality.items()},
        "exact_share": dict(indices.exact_share),
        "interval": {name: None if limits is None else list(limits) for name, limits in indices.interval.items()},
        "states": _states(ledger, thread.states, thread.sampled, _durations_of(thread) if kept else None),
        **({"kernel_clock": _clock(thread.kernel_clock)} if thread.kernel_clock is not None else {}),
        **({} if thread.cgroup is None else _place(thread.cgroup)),
        **({"causes": [_cause(cause) for cause in thread.causes]} if thread.causes else {}),
        **({"tasks": [_task(task) for task in thread.tiles()]} if thread.tasks else {}),
    }


def _task(task: Task) -> dict[str, Any]:
    return {
        "title": valid(task.title),
        "name": valid(task.name) if task.name else None,
        "id": task.id or None,
        "trace_id": None if task.context is None else task.context.trace,
        "span_id": None if task.context is None else task.context.span,
        "changes": task.changes,
        "undated": task.undated,
        "states": [
            {**_state(state), "count": cell.count or 0, "time": cell.time} for state, cell in task.states.items()
        ],
    }


@lru_cache(maxsize=4096)
def _place(cgroup: str) -> dict[str, str]:
    """Return the control group, and what its path tells of pod and container."""
    origin = origin_of(cgroup)
    told = {
        "cgroup": cgroup,
        "pod": origin.pod_uid,
        "container": origin.container,
        "unit": origin.user_unit or origin.unit,
    }
    return {name: valid(text) for name, text in told.items() if text or name == "cgroup"}


def _clock(clock: KernelClock) -> dict[str, Any]:
    return {"time": clock.time, "quality": clock.quality.value}


def _cause(cause: Cause) -> dict[str, Any]:
    place = {} if cause.cgroup is None else _place(cause.cgroup)
    return {
        "state": valid(cause.state),
        "behind": cause.behind.value,
        "name": valid(cause.name),
        "tid": cause.tid,
        "time": cause.time,
        "count": cause.count,
        **({} if cause.pid is None else {"pid": cause.pid}),
        **place,
    }


def _apart(indices: Indices) -> tuple[str, ...]:
    """Return the names of the parts of MPI, if they are known."""
    return () if indices.mpi_external is None else ("mpi_internal", "mpi_external")


def _durations_of(thread: Thread) -> StateDurations:
    """Return the durations for one pass, none where they were not kept."""
    return {} if thread.durations is None else dict(thread.durations.items())


def _states(
    ledger: Ledger,
    states: Mapping[str, Cell],
    sampled: Mapping[str, Estimate],
    durations: StateDurations | None = None,
) -> list[dict[str, Any]]:
    return [
        {
            **_state(state),
            "count": cell.count,
            "time": cell.time,
            **_estimate(sampled, state),
            "cycles": cell.cycles,
            "instructions": cell.instructions,
            "stall_cycles": cell.stall_cycles,
            "memory_stall_cycles": cell.memory_stall_cycles,
            **_more(ledger, cell),
            **({} if durations is None else {"durations": durations_document(durations.get(state))}),
        }
        for state, cell in states_listed(states, durations).items()
    ]


def _estimate(sampled: Mapping[str, Estimate], state: str) -> dict[str, int]:
    estimate = sampled.get(state, _NO_ESTIMATE)
    found = {"sampled": estimate.time, "samples": estimate.samples}
    return found | {"by_mode": estimate.by_mode, "mode_samples": estimate.mode_samples} if estimate.by_mode else found


_NO_ESTIMATE = Estimate()


def _more(ledger: Ledger, cell: Cell) -> dict[str, Any]:
    """Return the fields that a state has only if hardware counted, or if events were asked for."""
    more: dict[str, Any] = {}
    if ledger.counted:
        more["external_stall_cycles"] = cell.external_stall_cycles
    if ledger.events:
        known = cell.events or {}
        more["events"] = {valid(name): known.get(name) for name in ledger.events}
    return more


@lru_cache(maxsize=4096)
def _state(state: str) -> dict[str, str]:
    return {"state": valid(state), "kind": kind_of(state).value}


_Known = dict[tuple[Quality | float | None, ...], str]


def _quality_text(known: _Known, indices: Indices) -> str:
    """Return the qualities, exact shares and intervals as text.

    Without intervals a ledger has few combinations, so each is made only once.
    """
    key = *indices.quality.values(), *indices.exact_share.values()
    if any(indices.interval.values()):
        return _trust(indices)
    if key not in known:
        known[key] = _trust(indices)
    return known[key]


def _trust(indices: Indices) -> str:
    quality = dumps({name: worth.value for name, worth in indices.quality.items()})
    return f'{quality},"exact_share":{dumps(indices.exact_share)},"interval":{dumps(indices.interval)}'


def _thread_text(ledger: Ledger, thread: Thread, qualities: Callable[[Indices], str], kept: bool) -> str:
    i = ledger.indices(thread)
    quality = qualities(i)
    amounts = _AMOUNTS % tuple(["null" if x is None else x for x in (i.rpi, i.epi, i.mpi, i.kpi, i.iopi, i.td)])
    shares = _SHARES % tuple(["null" if x is None else repr(x) for x in (i.te, i.me, i.ke, i.ioe)])
    if i.mpi_external is not None:
        shares += f',"mpi_internal":{i.mpi_internal},"mpi_external":{i.mpi_external}'
    end = "null" if thread.end is None else thread.end
    states = _states_text(ledger, thread.states, thread.sampled, _durations_of(thread) if kept else None)
    causes = f',"causes":{_dumps([_cause(cause) for cause in thread.causes])}' if thread.causes else ""
    tasks = f',"tasks":{_dumps([_task(task) for task in thread.tiles()])}' if thread.tasks else ""
    clock = f',"kernel_clock":{_dumps(_clock(thread.kernel_clock))}' if thread.kernel_clock is not None else ""
    place = "" if thread.cgroup is None else f",{dumps(_place(thread.cgroup))[1:-1]}"
    return (
        f'{{"tid":{thread.tid},"pid":{thread.pid},"name":{json.dumps(valid(thread.name))},"start":{thread.start},'
        f'"end":{end},"indices":{{{amounts},{shares}}},"quality":{quality},"states":{states}{clock}{place}{causes}{tasks}}}'
    )


_AMOUNTS = '"rpi":%s,"epi":%s,"mpi":%s,"kpi":%s,"iopi":%s,"td":%s'
_SHARES = '"te":%s,"me":%s,"ke":%s,"ioe":%s'
_COUNTED = '"cycles":%s,"instructions":%s,"stall_cycles":%s,"memory_stall_cycles":%s}'
_NOT_COUNTED = _COUNTED % (("null",) * 4)


_NO_SAMPLES = '"sampled":0,"samples":0,'


def _states_text(
    ledger: Ledger,
    states: Mapping[str, Cell],
    sampled: Mapping[str, Estimate],
    durations: StateDurations | None = None,
) -> str:
    texts = []
    plain = not (ledger.counted or ledger.events)
    for state, cell in states_listed(states, durations).items():
        count = "null" if cell.count is None else cell.count
        figures = (cell.cycles, cell.instructions, cell.stall_cycles, cell.memory_stall_cycles)
        rest = _NOT_COUNTED
        if figures != (None, None, None, None):
            rest = _COUNTED % tuple(["null" if figure is None else figure for figure in figures])
        if not plain:
            rest = f"{rest[:-1]},{dumps(_more(ledger, cell))[1:]}"
        if durations is not None:
            rest = f'{rest[:-1]},"durations":{_dumps(durations_document(durations.get(state)))}}}'
        by_samples = _NO_SAMPLES
        if sampled and state in sampled:
            by_samples = dumps(_estimate(sampled, state))[1:-1] + ","
        texts.append(f'{_state_text(state)}"count":{count},"time":{cell.time},{by_samples}{rest}')
    return f"[{','.join(texts)}]"


@lru_cache(maxsize=4096)
def _state_text(state: str) -> str:
    return dumps(_state(state))[:-1] + ","
