"""Events by the names that perf uses.

A name is a software event, a generic hardware or cache event, ``rNNN`` (the processor's raw code), a tracepoint
(``sched:sched_switch``), or a term list of a performance monitoring unit (``cpu/event=0x3c,umask=0x0/``), whose format
and ready-made events the kernel describes in sysfs. ``:u``, ``:k`` and ``:h`` select the modes to count in. Sources:
perf-list(1), tools/perf/util/parse-events.c, Documentation/ABI/testing/sysfs-bus-event_source-devices-*.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from headway.dataclass import dataclass
from headway.errors import HeadwayError, SelectionError
from headway.linux.procfs.processors import parse_list

from .perf_event import HARDWARE, HW_CACHE, RAW, SOFTWARE, TRACEPOINT, Event

__all__ = ["EventError", "EventFinder", "Pmu", "split_events"]


class EventError(HeadwayError):
    """The name of an event is not valid; no other source could count it."""

    final = True


_SOFTWARE = {
    "cpu-clock": 0,
    "task-clock": 1,
    "page-faults": 2,
    "faults": 2,
    "context-switches": 3,
    "cs": 3,
    "cpu-migrations": 4,
    "migrations": 4,
    "minor-faults": 5,
    "major-faults": 6,
    "alignment-faults": 7,
    "emulation-faults": 8,
    "dummy": 9,
    "cgroup-switches": 11,
}
"""PERF_COUNT_SW_*. bpf-output (10) is left out: it counts nothing by itself."""

_HARDWARE = {
    "cpu-cycles": 0,
    "cycles": 0,
    "instructions": 1,
    "cache-references": 2,
    "cache-misses": 3,
    "branch-instructions": 4,
    "branches": 4,
    "branch-misses": 5,
    "bus-cycles": 6,
    "stalled-cycles-frontend": 7,
    "idle-cycles-frontend": 7,
    "stalled-cycles-backend": 8,
    "idle-cycles-backend": 8,
    "ref-cycles": 9,
}
"""PERF_COUNT_HW_*."""

_CACHES = (
    ("L1-dcache", "l1-d", "l1d", "L1-data"),
    ("L1-icache", "l1-i", "l1i", "L1-instruction"),
    ("LLC", "L2"),
    ("dTLB", "d-tlb", "Data-TLB"),
    ("iTLB", "i-tlb", "Instruction-TLB"),
    ("branch", "bpu", "btb", "bpc"),
    ("node",),
)
_OPERATIONS = (
    ("load", "loads", "read"),
    ("store", "stores", "write"),
    ("prefetch", "prefetches", "speculative-read", "speculative-load"),
)
_RESULTS = (("refs", "reference", "ops", "access"), ("misses", "miss"))
_HAS = ((0, 1, 2), (0, 2), (0, 1, 2), (0, 1, 2), (0,), (0,), (0, 1, 2))
"""The operations that each cache has (evsel__hw_cache_stat in tools/perf/util/evsel.c)."""


def _cache_events() -> dict[str, int]:
    """Return every spelling of a cache event, in lower case: CACHE-OPERATION[-RESULT], PERF_COUNT_HW_CACHE_*."""
    found = {}
    for cache, names in enumerate(_CACHES):
        for operation in _HAS[cache]:
            for result, results in enumerate(_RESULTS):
                config = cache | operation << 8 | result << 16
                for name in names:
                    for word in _OPERATIONS[operation]:
                        for end in ("", *results) if result == 0 else results:
                            found[f"{name}-{word}-{end}".rstrip("-").lower()] = config
    return found


_CACHE = _cache_events()
_LISTED = [
    f"{names[0]}-{_OPERATIONS[operation][result == 0]}{'-misses' if result else ''}"
    for cache, names in enumerate(_CACHES)
    for operation in _HAS[cache]
    for result in (0, 1)
]
"""The spellings that perf list shows."""

_EXTENDED_TYPE = 32
"""PERF_PMU_TYPE_SHIFT: on machines with several types of core, generic events have the unit's type above this bit."""
_CONFIGS = ("config", "config1", "config2", "config3")
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_MODIFIERS = "ukh"
_SAMPLING = frozenset("pPSDeGHIWbR")
_LONGEST = 4096
"""The largest size of a file that describes a unit; the kernel's have at most a page."""


def split_events(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the events of comma-separated lists, in order, each once. A comma between slashes does not separate.

    Raises EventError if a list has an empty part, an unpaired slash, or a group.
    """
    found: dict[str, None] = {}
    for text in texts:
        if "{" in text or "}" in text:
            raise EventError(f"{text!r}: groups of events are not counted as groups; leave the braces out")
        parts, inside = [""], False
        for character in text:
            inside ^= character == "/"
            if character == "," and not inside:
                parts.append("")
            else:
                parts[-1] += character
        if inside:
            raise EventError(f"{text!r}: a slash is missing, an event of a unit is written UNIT/TERM=VALUE,.../")
        for part in (part.strip() for part in parts):
            if not part:
                raise EventError(f"{text!r}: an event is missing beside a comma")
            found[part] = None
    return tuple(found)


def _close_to(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that are spelt much like this one."""
    from difflib import get_close_matches

    return get_close_matches(name, list(known), 3)


def _read(path: Path) -> str | None:
    """Return a small file's text, stripped; None if it cannot be read, or is not ASCII text."""
    try:
        with path.open("rb") as file:
            data = file.read(_LONGEST + 1)
    except (OSError, ValueError):
        return None
    return data.decode("ascii").strip() if len(data) <= _LONGEST and data.isascii() else None


def _number(text: str) -> int | None:
    """Return a number, decimal or hexadecimal, of at most 64 bits; None: it is not one."""
    if not re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20}", text):
        return None
    value = int(text, 16 if text[1:2] in ("x", "X") else 10)
    return value if value < 1 << 64 else None


@dataclass(frozen=True)
class Pmu:
    """A performance monitoring unit as sysfs describes it. Its files are not trusted."""

    folder: Path

    @property
    def name(self) -> str:
        """The name, as in ``cpu/.../``."""
        return self.folder.name

    @cached_property
    def type(self) -> int:
        """The unit's number in perf_event_attr. Raises EventError if the kernel does not tell."""
        value = _number(_read(self.folder / "type") or "")
        if value is None or value >= 1 << 32:
            raise EventError(f"{self.folder}/type is not a number, so {self.name} cannot be used")
        return value

    @cached_property
    def cpus(self) -> frozenset[int] | None:
        """The processors of its type of core; None: it belongs to all cores, or to none."""
        return self._list("cpus")

    @cached_property
    def core(self) -> bool:
        """Whether it is a part of a core, and counts what that core's thread does."""
        return self.name == "cpu" or (self.folder / "cpus").exists()

    @cached_property
    def shared(self) -> bool:
        """Whether it counts for many processors together, so that nothing can be charged to one thread."""
        return not self.core and (self.folder / "cpumask").exists()

    def _list(self, name: str) -> frozenset[int] | None:
        text = _read(self.folder / name)
        try:
            return frozenset(parse_list(text)) if text else None
        except SelectionError:
            raise EventError(
                f"{self.folder}/{name} is not a list of processors, so {self.name} cannot be used"
            ) from None

    def names(self, kind: str) -> list[str]:
        """Return the names of the ready-made ``events``, or of the terms of its ``format``."""
        try:
            found = os.listdir(self.folder / kind)
        except OSError:
            return []
        return sorted(n for n in found if _SAFE.fullmatch(n) and not n.endswith((".scale", ".unit", ".snapshot")))

    def alias(self, name: str) -> str | None:
        """Return the terms that a ready-made event stands for; None: there is no such event."""
        return _read(self.folder / "events" / name) if _SAFE.fullmatch(name) else None

    def bits(self, term: str) -> tuple[str, tuple[tuple[int, int], ...]] | None:
        """Return the bits of which config a term fills, lowest first: ``config:0-7,32-35``.

        None: there is no such term.
        """
        text = _read(self.folder / "format" / term) if _SAFE.fullmatch(term) else None
        if text is None:
            return None
        config, _, ranges = text.partition(":")
        spans = []
        for part in ranges.split(","):
            found = re.fullmatch(r"([0-9]{1,2})(?:-([0-9]{1,2}))?", part.strip())
            low, high = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
            if config not in _CONFIGS or not low <= high <= 63:
                raise EventError(f"{self.folder}/format/{term} says {text!r}, which is no place for a value")
            spans.append((low, high))
        return config, tuple(spans)


class EventFinder:
    """Finds events of this machine by name.

    ``sysfs`` and ``tracefs`` are the folders in which the kernel describes them.
    """

    def __init__(self, sysfs: Path = Path("/sys"), tracefs: Sequence[Path] | None = None) -> None:
        self._devices = sysfs / "bus/event_source/devices"
        self._tracefs = tracefs or (sysfs / "kernel/tracing", sysfs / "kernel/debug/tracing")

    @cached_property
    def pmus(self) -> Mapping[str, Pmu]:
        """The units of this machine, by name."""
        try:
            found = sorted(os.listdir(self._devices))
        except OSError:
            return {}
        return {name: Pmu(self._devices / name) for name in found if _SAFE.fullmatch(name)}

    @cached_property
    def cores(self) -> tuple[Pmu, ...]:
        """The units of the cores: one, or one for each type of core."""
        return tuple(pmu for pmu in self.pmus.values() if pmu.core)

    def known(self) -> list[str]:
        """Return every plain name, as ``perf list`` shows them, without raw codes, terms and tracepoints."""
        return [
            *_SOFTWARE,
            *_HARDWARE,
            *_LISTED,
            *(f"{p.name}/{n}/" for p in self.pmus.values() for n in p.names("events")),
        ]

    def find_all(self, texts: Iterable[str]) -> tuple[Event, ...]:
        """Return the events in these comma-separated lists. Raises EventError at the first that is not available."""
        return tuple(self.find(name) for name in split_events(texts))

    def find(self, text: str) -> Event:
        """Return the event of this name. Raises EventError: one sentence, with similar names."""
        unit, slash, rest = text.partition("/")
        if slash:
            terms, slash, tail = rest.rpartition("/")
            if not slash:
                raise EventError(f"{text!r}: a slash is missing, an event of a unit is written UNIT/TERM=VALUE,.../")
            return self._with_mode(self._of_unit(text, unit, terms), text, tail.removeprefix(":"))
        name, colon, tail = text.partition(":")
        plain = self._plain(text, name)
        if plain is not None:
            if colon and not tail:
                raise EventError(f"{text!r}: nothing follows the colon")
            return self._with_mode(plain, text, tail)
        if colon and name:
            return self._tracepoint(text, name, tail)
        raise EventError(f"there is no event {text!r}{self._near(text)}")

    # ---- one kind after the other ----

    def _plain(self, text: str, name: str) -> Event | None:
        if name in _SOFTWARE:
            return Event(text, SOFTWARE, _SOFTWARE[name])
        if name == "bpf-output":
            raise EventError("bpf-output is not counted: it only carries what a program writes")
        if name in _HARDWARE:
            return self._generic(text, HARDWARE, _HARDWARE[name])
        if name.lower() in _CACHE:
            return self._generic(text, HW_CACHE, _CACHE[name.lower()])
        if re.fullmatch(r"r[0-9a-fA-F]{1,16}", name):
            return self._raw(text, int(name[1:], 16))
        found = [pmu for pmu in self.pmus.values() if _SAFE.fullmatch(name) and name in pmu.names("events")]
        if found:
            chosen = [pmu for pmu in found if pmu.core] or found[:1]
            return _together([self._of_pmu(text, pmu, name) for pmu in chosen])
        return None

    def _generic(self, text: str, kind: int, config: int) -> Event:
        """Return a generic event; with several types of core, one event for each."""
        if not any(pmu.cpus for pmu in self.cores) or len(self.cores) < 2:
            return Event(text, kind, config)
        return _together([Event(text, kind, pmu.type << _EXTENDED_TYPE | config, cpus=pmu.cpus) for pmu in self.cores])

    def _raw(self, text: str, config: int) -> Event:
        if len(self.cores) < 2:
            return Event(text, RAW, config)
        return _together([Event(text, pmu.type, config, cpus=pmu.cpus) for pmu in self.cores])

    def _of_unit(self, text: str, unit: str, terms: str) -> Event:
        pmu = self.pmus.get(unit)
        if pmu is None:
            units = ", ".join(self.pmus) or "none"
            raise EventError(f"{text!r}: this machine has no unit {unit!r} (it has {units})")
        return self._of_pmu(text, pmu, terms)

    def _of_pmu(self, text: str, pmu: Pmu, terms: str) -> Event:
        if pmu.shared:
            raise EventError(
                f"{text!r}: {pmu.name} counts for many processors together, so nothing of it can be charged to a thread"
            )
        configs = dict.fromkeys(_CONFIGS, 0)
        words = [word.strip() for word in terms.split(",")]
        for word in words:
            alias = None if "=" in word else pmu.alias(word)
            for term in alias.split(",") if alias is not None else (word,):
                self._fill(text, pmu, configs, term.strip())
        a, b, c, d = configs.values()
        return Event(text, pmu.type, a, b, c, d, cpus=pmu.cpus)

    def _fill(self, text: str, pmu: Pmu, configs: dict[str, int], term: str) -> None:
        """Put one term into the configs."""
        name, equals, written = term.partition("=")
        value = _number(written) if equals else 1
        if name in _CONFIGS:
            if value is None or not equals:
                raise EventError(f"{text!r}: {name} needs a number of at most 64 bits")
            configs[name] = value
            return
        place = pmu.bits(name)
        if place is None:
            known = [*pmu.names("events"), *pmu.names("format"), *_CONFIGS]
            near = _close_to(name, known)
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(known[:12])}"
            raise EventError(f"{text!r}: {pmu.name} has no term or event {name!r}; {hint}")
        if value is None:
            raise EventError(f"{text!r}: {name} needs a number, not {written!r}")
        config, spans = place
        room = sum(high - low + 1 for low, high in spans)
        if value >> room:
            raise EventError(
                f"{text!r}: {name} is {value:#x}, and {pmu.name} has room for {(1 << room) - 1:#x} at most"
            )
        for low, high in spans:
            mask = (1 << (high - low + 1)) - 1
            configs[config] = configs[config] & ~(mask << low) | (value & mask) << low
            value >>= high - low + 1

    def _tracepoint(self, text: str, system: str, rest: str) -> Event:
        name, _, modes = rest.partition(":")
        if not (_SAFE.fullmatch(system) and _SAFE.fullmatch(name)):
            raise EventError(f"there is no event {text!r}{self._near(text)}")
        roots = [root / "events" for root in self._tracefs if os.access(root / "events", os.R_OK | os.X_OK)]
        if not roots:
            how = "use sudo" if os.geteuid() else "mount -t tracefs nodev /sys/kernel/tracing"
            raise EventError(f"{text!r}: the tracepoints in /sys/kernel/tracing cannot be read: {how}")
        number = _number(_read(roots[0] / system / name / "id") or "")
        if number is None:
            try:
                near = _close_to(name, os.listdir(roots[0] / system))
                hint = f"; did you mean {' or '.join(f'{system}:{n}' for n in near)}?" if near else ""
            except OSError:
                hint = self._near(system)
            raise EventError(f"there is no tracepoint {system}:{name}{hint}")
        return self._with_mode(Event(text, TRACEPOINT, number), text, modes)

    # ---- what follows the name ----

    def _with_mode(self, event: Event, text: str, modes: str) -> Event:
        """Restrict the event to the modes ``:u``, ``:k``, ``:h``; without any it is counted in all."""
        if not modes:
            return event
        for letter in modes:
            if letter in _SAMPLING:
                raise EventError(f"{text!r}: :{letter} is for sampling, or for guests; here :u, :k and :h can be given")
            if letter not in _MODIFIERS:
                raise EventError(f"{text!r}: there is no modifier :{letter}; :u, :k and :h say what code to count in")
        hidden = {
            "exclude_user": "u" not in modes,
            "exclude_kernel": "k" not in modes,
            "exclude_hv": "h" not in modes,
        }
        others = tuple(replace(e, **hidden) for e in event.alternatives)  # type: ignore[arg-type]
        return replace(event, alternatives=others, **hidden)  # type: ignore[arg-type]

    def _near(self, text: str) -> str:
        name = text.partition(":")[0]
        near = _close_to(name, self.known())
        if near:
            return f"; did you mean {' or '.join(near)}?"
        return (
            "; a processor's own events are given by code (r01a3, or cpu/event=0xa3,umask=0x1/), perf list shows others"
        )


def _together(events: Sequence[Event]) -> Event:
    """Return one event made of several, each for another type of core."""
    first, *others = events
    return replace(first, alternatives=tuple(others))
