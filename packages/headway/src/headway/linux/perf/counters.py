"""The counted events: those that show how far a processor's cycles were progress, and the user's.

Which events these are depends on the processor. counters.toml lists them, with the document that each comes from. This
module identifies the processor, turns the table's codes into events, and tries which of them can be counted. What
cannot be counted is left out, with the reason; only an event that the user asked for by name must be available.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.linux.procfs import processors
from headway.model import Counted, Quality

from .events import EventError, EventFinder, Pmu
from .perf_event import SOFTWARE, TRACEPOINT, CounterReading, Event, open_counter, open_per_cpu, read_counter, why_not

if TYPE_CHECKING:
    from headway.model import Precision

__all__ = [
    "FIELDS",
    "MAX_EVENTS",
    "CounterPlan",
    "CounterSet",
    "CounterTableEntry",
    "default_set",
    "plan",
    "remarks",
    "sharpen",
    "table",
]

FIELDS = ("cycles", "instructions", "stall_cycles", "memory_stall_cycles", "external_stall_cycles")
"""The figures that hardware can count in a state, by their names in `headway.model.cell.Cell`."""
MAX_EVENTS = 8
"""The largest number of events counted at once, the default ones and the user's together."""

_CLOCKS = frozenset({0, 1})
"""cpu-clock and task-clock, which run in every mode."""
_KERNEL_ONLY = frozenset({3, 4, 11})
"""Software events that happen only in the kernel: context switches, migrations, cgroup switches."""


@dataclass(frozen=True)
class CounterTableEntry:
    """The table's entry for some processors."""

    name: str
    units: tuple[str, ...]
    """The names of the units that it applies to, if a processor has several types of core; empty: any."""
    vendor: str | None
    family: int | None
    models: frozenset[int]
    implementer: int | None
    parts: frozenset[int]
    document: str
    codes: Mapping[str, tuple[Mapping[str, Any], ...]]
    """Figure -> the codes of the events whose counts add up to it."""
    unavailable: Mapping[str, str]
    """Why the other figures cannot be counted."""


@dataclass(frozen=True)
class Identity:
    """How a processor identifies itself."""

    vendor: str | None = None
    family: int | None = None
    model: int | None = None
    implementer: int | None = None
    part: int | None = None

    def __str__(self) -> str:
        if self.vendor is not None and self.family is not None and self.model is not None:
            return f"{self.vendor} family {self.family:#x} model {self.model:#x}"
        if self.implementer is not None and self.part is not None:
            return f"implementer {self.implementer:#x} part {self.part:#x}"
        return "a processor that does not say what it is"

    def matches(self, entry: CounterTableEntry, unit: str) -> bool:
        """Return whether the entry applies to this processor's unit."""
        if entry.units and unit not in entry.units:
            return False
        if entry.implementer is not None:
            return self.implementer == entry.implementer and self.part in entry.parts
        return (
            self.vendor is not None
            and (self.vendor, self.family) == (entry.vendor, entry.family)
            and (self.model in entry.models)
        )


@cache
def table() -> tuple[CounterTableEntry, ...]:
    """Return the content of counters.toml."""
    from ._counter_table import CONTENT  # it is needed only where there is hardware to count

    return tuple(_entry(raw, CONTENT["documents"]) for raw in CONTENT["processor"])


def _entry(raw: Mapping[str, Any], documents: Mapping[str, str]) -> CounterTableEntry:
    codes = {name: raw[name] if isinstance(raw[name], list) else [raw[name]] for name in FIELDS if name in raw}
    models: set[int] = set()
    for span in raw.get("models", ()):
        first, _, last = span.partition("-")
        models.update(range(int(first, 16), int(last or first, 16) + 1))
    return CounterTableEntry(
        name=raw["name"],
        units=tuple(raw.get("units", ())),
        vendor=raw.get("vendor"),
        family=raw.get("family"),
        models=frozenset(models),
        implementer=raw.get("implementer"),
        parts=frozenset(raw.get("parts", ())),
        document=f"{documents[raw['document']]}: {raw['version']}",
        codes={name: tuple(found) for name, found in codes.items()},
        unavailable=raw.get("unavailable", {}),
    )


@dataclass(frozen=True)
class CounterSet:
    """The events that show, on this machine, what a thread's cycles were."""

    processors: tuple[str, ...]
    """The table's names for the machine's types of core."""
    documents: tuple[str, ...]
    fields: Mapping[str, tuple[Event, ...]]
    """Figure of a cell -> the events whose counts add up to it."""
    unavailable: Mapping[str, str]
    """Why the other figures cannot be counted: one clause each."""


def identity(cpu: int, root: Path = Path("/")) -> Identity:
    """Return what a processor is, from MIDR_EL1 (arm64) or /proc/cpuinfo (x86)."""
    try:
        register = root / f"sys/devices/system/cpu/cpu{cpu}/regs/identification/midr_el1"
        midr = int(register.read_bytes()[:64], 16)
        return Identity(implementer=midr >> 24 & 0xFF, part=midr >> 4 & 0xFFF)
    except (OSError, ValueError):
        pass  # x86, or a kernel that does not show the register
    try:
        text = (root / "proc/cpuinfo").read_bytes()[: 1 << 20].decode("ascii", "replace")
    except OSError:
        return Identity()

    def value(name: str) -> str | None:
        found = re.search(rf"^{name}\s*:[ \t]*(\S{{1,32}})", text, re.MULTILINE)
        return found[1] if found else None

    def number(name: str) -> int | None:
        found = value(name) or ""
        return int(found) if re.fullmatch("[0-9]{1,9}", found) else None

    return Identity(value("vendor_id"), number("cpu family"), number("model"))


def default_set(root: Path = Path("/"), events: EventFinder | None = None) -> CounterSet | str:
    """Return the events for this machine's processors, or one clause that says why there are none.

    With several types of core, a figure is available only if each of them has it, because a thread runs on all of them.
    """
    events = events or EventFinder(root / "sys")
    units = events.cores
    if not units:
        flags = re.search(r"^flags\s*:.*\bhypervisor\b", _text(root / "proc/cpuinfo"), re.MULTILINE)
        where = "this virtual machine has" if flags else "this machine has, or its kernel drives,"
        return f"{where} no performance monitoring unit"
    entries = [_entry_of(unit, root) for unit in units]
    found: dict[str, tuple[Event, ...]] = {}
    missing: dict[str, str] = {}
    for name in FIELDS:
        reason = next((text for entry in entries if (text := entry.unavailable.get(name)) is not None), None)
        if reason is None:
            try:
                each = [
                    [_event(events, unit, c) for c in e.codes[name]] for unit, e in zip(units, entries, strict=True)
                ]
                # A type of core that needs fewer events than another counts nothing for the others.
                found[name] = tuple(_joined([e for e in forms if e is not None]) for forms in zip_longest(*each))
            except EventError as error:
                reason = str(error)
        if reason is not None:
            missing[name] = reason
    return CounterSet(
        processors=tuple(dict.fromkeys(entry.name for entry in entries)),
        documents=tuple(dict.fromkeys(entry.document for entry in entries if entry.document)),
        fields=found,
        unavailable=missing,
    )


def _entry_of(unit: Pmu, root: Path) -> CounterTableEntry:
    """Return the table's entry for a unit, or else an entry with what every processor can count."""
    who = identity(min(unit.cpus or (0,)), root)
    for entry in table():
        if who.matches(entry, unit.name):
            return entry
    generic = {name: ({"name": name, "generic": name},) for name in ("cycles", "instructions")}
    why = f"no event is known for {who} ({unit.name})"
    missing = {name: why for name in FIELDS if name not in generic}
    return CounterTableEntry(
        f"{who} ({unit.name})", (), None, None, frozenset(), None, frozenset(), "", generic, missing
    )


def _event(events: EventFinder, unit: Pmu, code: Mapping[str, Any]) -> Event:
    if "generic" in code:
        found = events.find(code["generic"])
        return next((e for e in (found, *found.alternatives) if e.cpus == unit.cpus), found)
    terms = ",".join(f"{term}={value:#x}" for term, value in code.items() if term != "name")
    return replace(events.find(f"{unit.name}/{terms}/"), name=code["name"])


def _joined(each: Sequence[Event]) -> Event:
    first, *others = each
    if not others:
        return replace(first, alternatives=())
    return replace(first, alternatives=tuple(replace(e, alternatives=()) for e in others))


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


@dataclass(frozen=True)
class CounterPlan:
    """The events to open, and what their counts mean."""

    events: tuple[Event, ...] = ()
    fields: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Figure of a cell -> the indices of the events that add up to it."""
    named: Mapping[str, int] = field(default_factory=dict)
    """The user's events, in the order asked for -> the index of the event."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why a figure is not counted, or what a reader must know of one that is: name -> one clause."""
    processors: tuple[str, ...] = ()
    modes: tuple[int, int] | None = None
    """The indices of the cycles in user mode and in kernel mode, where these are counted apart (`modes`)."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what is counted: figures of cells first, then the user's events."""
        return (*self.fields, *self.named)

    def open(self, cpus: Iterable[int]) -> dict[int, list[int]]:
        """Open counters on these processors.

        Return cpu -> one file descriptor for each event (`perf_event.open_per_cpu`).
        """
        return open_per_cpu(self.events, cpus)

    def figures(self, values: Sequence[int | None]) -> dict[str, Any]:
        """Return a cell's figures (keyword arguments of `Cell`) from one value for each event; None: it was not
        counted.
        """
        found: dict[str, Any] = {}
        for name, places in self.fields.items():
            parts = [values[place] for place in places]
            found[name] = None if None in parts else sum(part for part in parts if part is not None)
        if self.named:
            found["events"] = {name: values[place] for name, place in self.named.items()}
        return found

    def counted_on(self, opened: Mapping[int, Sequence[int]]) -> dict[str, Counted]:
        """Return how much of the time each name was counted, by the counters that `open` returned."""
        total = [CounterReading(0, 0, 0)] * len(self.events)
        for fds in opened.values():
            for place, fd in enumerate(fds):
                found = read_counter(fd) if fd >= 0 else None
                if found is not None:
                    was = total[place]
                    total[place] = CounterReading(0, was.enabled + found.enabled, was.running + found.running)
        return self.counted(total)

    def counted(self, readings: Sequence[CounterReading]) -> dict[str, Counted]:
        """Return how much of the time each name was counted, from one reading (of times) for each event."""
        each = [Counted(reading.enabled, reading.running) for reading in readings]
        found = {name: sum((each[place] for place in places), Counted()) for name, places in self.fields.items()}
        return {**found, **{name: each[place] for name, place in self.named.items()}}


def plan(
    texts: Iterable[str] = (),
    *,
    user_only: bool = False,
    root: Path = Path("/"),
    events: EventFinder | None = None,
    opens: Callable[[Event, bool], int] | None = None,
) -> CounterPlan:
    """Return what to count: the default set, where there is hardware for it, and the user's events (`-e`, raw).

    ``user_only``: count in single threads, and only their user code; otherwise on whole processors. ``opens`` tries an
    event and returns 0 or an errno. Raises EventError (final) for a name that is not an event, and HeadwayError for an
    event of the user's that cannot be counted, or for too many of them. Nothing is left open.
    """
    events = events or EventFinder(root / "sys")
    opens = opens or _try
    wanted = events.find_all(texts)
    reasons: dict[str, str] = {}
    chosen: list[Event] = []
    named: dict[str, int] = {}
    fields: dict[str, tuple[int, ...]] = {}

    def place(event: Event) -> int:
        for number, other in enumerate(chosen):
            if _same(event, other):
                return number
        chosen.append(event)
        return len(chosen) - 1

    found = default_set(root, events)
    who: tuple[str, ...] = ()
    if isinstance(found, str):
        reasons["counters"] = found
    else:
        who = found.processors
        reasons.update(found.unavailable)
        for name, several in found.fields.items():
            ready = [replace(e, exclude_kernel=True, exclude_hv=True) if user_only else e for e in several]
            ready = [replace(e, alternatives=tuple(_like(e, other) for other in e.alternatives)) for e in ready]
            # A sum without one of its parts would be another figure, so one event that fails makes it unavailable.
            failed = next((error for e in ready if (error := opens(e, user_only))), 0)
            if failed:
                reasons[name] = why_not(ready[0], failed, cpu=None if user_only else 0)
            else:
                fields[name] = tuple(place(e) for e in ready)
        if not fields and found.fields:  # what all of them lack is said once
            first = next(iter(found.fields))
            reasons = {name: text for name, text in reasons.items() if name not in FIELDS or name == first}
            reasons["counters"] = reasons.pop(first)
    own = len(chosen)
    for event in wanted:
        if user_only:
            event, remark = _of_user_code(event)
            if remark:
                reasons[event.name] = remark
        failed = opens(event, user_only)
        if failed:
            raise HeadwayError(why_not(event, failed, cpu=None if user_only else 0))
        named[event.name] = place(event)
    if len(chosen) > MAX_EVENTS:
        raise EventError(
            f"{len(chosen) - own} events are asked for with -e, in addition to {own} for the indices: "
            f"at most {MAX_EVENTS} are possible in all, so leave {len(chosen) - MAX_EVENTS} out"
        )
    return CounterPlan(tuple(chosen), fields, named, reasons, who)


def _same(a: Event, b: Event) -> bool:
    """Return whether both are the same event, whatever they are called."""
    bare = [replace(e, name="", alternatives=()) for e in (a, *a.alternatives)]
    return bare == [replace(e, name="", alternatives=()) for e in (b, *b.alternatives)]


def _like(event: Event, other: Event) -> Event:
    return replace(other, exclude_kernel=event.exclude_kernel, exclude_hv=event.exclude_hv)


def _of_user_code(event: Event) -> tuple[Event, str]:
    """Return the event restricted to user code, and a remark on it. Raises EventError if that is impossible."""
    kernel_only = event.type == TRACEPOINT or (event.type == SOFTWARE and event.config in _KERNEL_ONLY)
    if kernel_only or event.exclude_user:
        raise EventError(
            f"{event.name} counts what the kernel does, and --source proc counts what user code does: "
            "run headway as root, with --source bpf"
        )
    clock = event.type == SOFTWARE and event.config in _CLOCKS
    hidden = replace(event, exclude_kernel=True, exclude_hv=True)
    hidden = replace(hidden, alternatives=tuple(_like(hidden, other) for other in event.alternatives))
    return hidden, "a clock, which runs on in the kernel" if clock else ""


def _try(event: Event, of_thread: bool) -> int:
    """Open an event in all its forms and close it again. Return 0, or the errno of the failure."""
    for form in (event, *event.alternatives):
        cpu = -1 if of_thread else _one_of(form)
        if cpu is None:
            continue
        try:
            os.close(open_counter(form, pid=0 if of_thread else -1, cpu=cpu))
        except OSError as error:
            return error.errno or errno.EINVAL
    return 0


def _one_of(event: Event) -> int | None:
    """Return a processor on which the event can be counted; None: none of these is online."""
    on = processors.online()
    return next((cpu for cpu in on if event.cpus is None or cpu in event.cpus), None)


def sharpen(base: Precision, counted: Mapping[str, Counted], *, in_cycles: bool) -> Precision:
    """Return a source's precision, improved by what hardware counted.

    ``base`` is the source's precision without hardware. ``in_cycles``: whether the indices are in cycles, or in time
    that is divided like the cycles. The latter is right only where the clock rate did not change, so it is not exact.
    """

    def quality(name: str) -> Quality:
        if name not in counted or "cycles" not in counted:
            return Quality.UNAVAILABLE
        exact = in_cycles and counted[name].whole and counted["cycles"].whole
        return Quality.EXACT if exact else Quality.SAMPLED

    cycles, stall, memory = quality("cycles"), quality("stall_cycles"), quality("memory_stall_cycles")
    effective = base.effective
    if stall is not Quality.UNAVAILABLE:
        effective = stall | (Quality.EXACT if effective is Quality.BOUND else effective)
    return replace(
        base,
        total=base.total | cycles if in_cycles else base.total,
        effective=effective,
        memory=memory,
        stall=stall,
    )


def remarks(plan: CounterPlan, *, in_cycles: bool) -> dict[str, str]:
    """Return the reasons for the ledger: where MPI comes from, why a figure is null, what to know of an event."""
    found = dict(plan.reasons)
    why = found.pop("memory_stall_cycles", None) or found.get("counters")
    found.pop("counters", None)
    if "memory_stall_cycles" not in plan.fields:
        return {"mpi": why or "its stalls are not counted", **found}
    if in_cycles:
        return found
    by = " and ".join(plan.processors)
    return {"mpi": f"the time of user code, divided as its cycles were, by the events of {by}", **found}
