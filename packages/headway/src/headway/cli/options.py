"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from headway.dataclass import dataclass
from headway.linux.levels import COUNTED_AT_CLOCKS, Level
from headway.linux.options import PROTOCOLS, STATE_NAME, MarkedFunctions, MeasureOptions, Selection
from headway.model import GroupBy
from headway.views.listing import LINES, Listing

from .parameters import Ids, Percentage, ProcessorList, WhenCondition, all_ids
from .say import say
from .sections import sectioned

if TYPE_CHECKING:
    from headway.conditions import Condition
    from headway.views.console import Console

__all__ = [
    "BUDGET_OF_A_MACHINE",
    "ListingOptions",
    "MeasuringCommand",
    "TargetOptions",
    "detail_options",
    "durations_option",
    "format_option",
    "group_by_option",
    "listing_options",
    "measuring_options",
    "thresholds_option",
    "when_option",
]

_STARTUP = os.path.join(os.path.dirname(os.path.dirname(__file__)), "asyncio", "startup")
"""The folder with what Python imports when it starts."""
BUDGET_OF_A_MACHINE = 0.01
"""What watching a whole machine may cost where it goes on for long, unless options say otherwise (top, serve)."""


def _print_checks(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from headway.linux.bpf.polling.checks import ready_made

        click.echo(ready_made(), nl=False)
        context.exit()


def _print_probes(context: click.Context, _option: click.Parameter, library: str | None) -> None:
    if library is not None:
        from headway.linux.probes.task_probes import listed

        for line in listed(library):
            click.echo(line)
        context.exit()


def _instrument_python(_context: click.Context, _option: click.Parameter, wanted: bool) -> bool:
    """Have programs in Python that this process starts import what makes headway's tasks of asyncio's."""
    if wanted:
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([_STARTUP, *([before] if before else [])])
    return wanted


_TARGETS = (
    click.option(
        "-p",
        "--pid",
        "pids",
        type=Ids(),
        multiple=True,
        callback=all_ids,
        metavar="PID[,PID]",
        help="Measure these processes, and those that they have started. May be repeated.",
    ),
    click.option(
        "--only",
        is_flag=True,
        help="Of the processes that -p names, measure only these, and not those that they had started before.",
    ),
    click.option(
        "-t",
        "--tid",
        "tids",
        type=Ids(),
        multiple=True,
        callback=all_ids,
        metavar="TID[,TID]",
        help="Measure these threads. May be repeated.",
    ),
    click.option("-a", "--all", "everything", is_flag=True, help="Measure every thread of the machine."),
    click.option("--name", metavar="NAME", help="Measure threads of this name; NAME* matches a prefix."),
    click.option("--cgroup", metavar="DIR", help="Measure threads in this cgroup (v2) and below it."),
    click.option("--unit", metavar="NAME", help="Measure the systemd unit of this name, as in nginx or cron.service."),
    click.option(
        "--container", metavar="NAME", help="Measure the container of this name or id; of its id a part will do."
    ),
    click.option("--pod", metavar="UID", help="Measure the pod of Kubernetes with this UID."),
)
"""Which threads to measure, where it is not a command."""
_DETAIL = (
    click.option(
        "-C",
        "--cpu",
        "cpus",
        type=ProcessorList(),
        metavar="CPUS",
        help="Measure only on these processors, as in 0-3,8.",
    ),
    click.option("--no-follow", is_flag=True, help="Do not measure threads that measured threads create."),
    click.option(
        "--source",
        type=click.Choice(["bpf", "proc"]),
        help="Source of the figures.  [default: bpf if possible, else proc]",
    ),
    click.option(
        "--status-checks", "checks", metavar="FILE", help="TOML file with more status checks (docs/progress.md)."
    ),
    click.option(
        "--print-status-checks",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_checks,
        help="Print the built-in status checks as TOML, and exit.",
    ),
    click.option(
        "--noneffective",
        "functions",
        multiple=True,
        metavar="LIB:FUNCTION",
        help="Count time in this function as no progress; malloc is a ready-made set. May be repeated.",
    ),
    click.option(
        "--poll",
        "polls",
        multiple=True,
        metavar="LIB:FUNCTION",
        help="Count time in this function as polling; spin-locks, openmp, mpi and cuda are ready-made sets. May be "
        "repeated.",
    ),
    click.option(
        "--state",
        "named",
        multiple=True,
        metavar="NAME=LIB:FUNCTION",
        help="Give time in this function a state of its own, user.NAME, which is progress. May be repeated.",
    ),
    click.option(
        "-e",
        "--event",
        "events",
        multiple=True,
        metavar="EVENT[,EVENT]",
        help="Count these events by state; the names are those of perf.",
    ),
    click.option(
        "--level",
        type=click.Choice([level.value for level in Level]),
        help="Level of detail: what is measured exactly. 'clocks' costs the same whatever threads do: run, ready and "
        "the sum of waits are exact, the rest is sampled; 'switches' knows each wait, and divides processor time by "
        "cycles or samples; 'calls' sees system calls and faults too.  [default: interrupts, which is everything]",
    ),
)
"""How to measure."""
_MORE = (
    click.option(
        "--budget",
        type=Percentage(),
        metavar="PERCENT",
        help="Measuring may cost this much of the processor time of what is measured, as in 1%. The level of detail "
        "follows from it.  [default: 1% for top -a and serve -a without --level, else none]",
    ),
    click.option(
        "--tasks",
        is_flag=True,
        help="Charge the time of threads to the tasks that they say they work on, too, and to spans of OpenTelemetry "
        "(docs/tasks.md).",
    ),
    click.option(
        "--task",
        "task_probes",
        multiple=True,
        metavar="[NAME=]LIB:BEGIN..END",
        help="Measure what a program does between two of its static probes (USDT) as a task of this name; postgres, "
        "mysql and php are ready-made sets (docs/tasks.md). May be repeated. This is --tasks, too.",
    ),
    click.option(
        "--requests",
        type=click.Choice(PROTOCOLS),
        multiple=True,
        help="Measure requests of this protocol as tasks, recognised by the first bytes that a thread reads "
        "(docs/tasks.md). May be repeated. This is --tasks, too.",
    ),
    click.option(
        "--print-probes",
        is_eager=True,
        expose_value=False,
        callback=_print_probes,
        metavar="LIB",
        help="Print the static probes (USDT) of a program or library, with their arguments, and exit.",
    ),
    click.option(
        "--task-attribute",
        "task_attributes",
        multiple=True,
        metavar="KEY",
        help="Name spans of OpenTelemetry after this attribute of their thread context, rather than after http.route. "
        "May be repeated, the best first. This is --tasks, too.",
    ),
    click.option(
        "--python-tasks",
        is_flag=True,
        callback=_instrument_python,
        help="Measure the tasks of asyncio in a command in Python, and the requests of its web framework by route, and "
        "name its threads, without a change to it; with -p in a Python 3.14 that runs already (docs/tasks.md). This is "
        "--tasks, too.",
    ),
    click.option(
        "--why",
        type=click.Choice(["kernel", "poll", "wait", "ready", "stolen"]),
        multiple=True,
        help="Show the causes of this part of the time. May be repeated.",
    ),
    click.option(
        "--spin",
        is_flag=True,
        help="Find user code that spins, waiting for memory to change: it is the state poll.spin, and sampled "
        "(docs/spinning.md).",
    ),
    click.option(
        "--publish",
        is_flag=True,
        help="Let the measured threads read their own progress, and that of their user's other threads "
        "(docs/own-progress.md).",
    ),
    click.option(
        "--publish-all",
        is_flag=True,
        help="Let them read that of all measured threads, whoever's they are, and your own programs too.",
    ),
)


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """What to measure, and how; each field has the value of the option of its name."""

    pids: tuple[int, ...] = ()
    only: bool = False
    tids: tuple[int, ...] = ()
    everything: bool = False
    name: str | None = None
    cgroup: str | None = None
    unit: str | None = None
    container: str | None = None
    pod: str | None = None
    cpus: tuple[int, ...] | None = None
    no_follow: bool = False
    source: str | None = None
    checks: str | None = None
    functions: tuple[str, ...] = ()
    polls: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    events: tuple[str, ...] = ()
    why: tuple[str, ...] = ()
    level: str | None = None
    budget: float | None = None
    tasks: bool = False
    python_tasks: bool = False
    publish: bool = False
    publish_all: bool = False
    spin: bool = False
    task_attributes: tuple[str, ...] = ()
    task_probes: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()

    @property
    def given(self) -> bool:
        """Whether any of these options was given."""
        return any(getattr(self, field.name) for field in fields(self))

    @property
    def only_by_ebpf(self) -> bool:
        """Whether an option was given that only the eBPF source supports."""
        functions = self.functions or self.polls or self.named
        return bool(
            functions
            or self.checks
            or self.why
            or self.level not in (None, Level.CLOCKS.value)
            or self.budget
            or self.with_tasks
            or self.publishes
            or self.spin
        )

    def by_proc(self, reason: str) -> str:
        """Return a clause that says that /proc is the source, why, and which options it cannot do."""
        lost = [option for option, given in self._of_ebpf() if given]
        without = f", without {', '.join(lost)}" if lost else ""
        return f"measuring with /proc, sampled{without}: {reason}"

    def _of_ebpf(self) -> Iterator[tuple[str, object]]:
        """Yield the options that need eBPF and have a result of their own, and what they were given."""
        yield "--noneffective", self.functions
        yield "--poll", self.polls
        yield "--state", self.named
        yield "--tasks", self.with_tasks
        yield "--publish", self.publishes
        yield "--spin", self.spin
        yield "--why", self.why

    def _listed_events(self) -> tuple[str, ...]:
        """Return the events that are asked for, each once; lists with commas are divided."""
        return tuple(dict.fromkeys(name.strip() for each in self.events for name in each.split(",")))

    @property
    def publishes(self) -> bool:
        """Whether the measured threads can read what they have done."""
        return self.publish or self.publish_all

    @property
    def with_tasks(self) -> bool:
        """Whether time is to be charged to tasks, too."""
        return self.tasks or self.python_tasks or bool(self.task_attributes or self.task_probes or self.requests)

    def options(
        self,
        *,
        causes: bool,
        cgroups: bool = False,
        when: tuple[Condition, ...] = (),
        otherwise: Level = Level.INTERRUPTS,
        default_budget: float | None = None,
        durations: int = 0,
        calls: bool = False,
        locks: bool = False,
    ) -> MeasureOptions:
        """Return the measure options; causes are recorded if --why asks for them, or with ``causes``.

        ``cgroups``: the control group of each thread is told.

        ``when``: the conditions of --when. ``otherwise``: the level of detail where none was asked for.
        ``default_budget``: the budget if every thread is measured and no option says, or decides, what is measured
        exactly. ``durations``, ``calls``, ``locks``: as in `MeasureOptions`. Raises
        UsageError if options need a level of detail that was not asked for.
        """
        level = Level(self.level) if self.level else Level.INTERRUPTS if self.budget else otherwise
        if when:
            self._check_when()
            level = Level.SWITCHES
        if self.source == "proc" and (self.level not in (None, Level.CLOCKS.value) or self.budget):
            raise click.UsageError("--level and --budget are for the source bpf: /proc has the level clocks alone")
        if level is Level.CLOCKS:
            self._check_clocks(locks=locks)
        if self.source == "proc" and self.publishes:
            raise click.UsageError("--publish is for the source bpf: /proc cannot tell threads their progress")
        if "" in self.task_attributes:
            raise click.UsageError("--task-attribute '': give the name of an attribute, as in --task-attribute tenant")
        if self.spin:
            self._check_spin()
        if self.level and self.budget:
            raise click.UsageError("the level of detail follows from --budget: leave out --level or --budget")
        counted = level is Level.CLOCKS
        needing = dict(self._needing_states()) | ({"--event": ()} if counted else {})
        at_all_times = [option for option, given in needing.items() if given]
        if at_all_times and (level <= Level.SWITCHES or self.budget):
            remedy = "give --level calls or interrupts"
            if self.budget or when:
                remedy = "leave out --budget" if self.budget else "leave out --when"
            raise click.UsageError(f"{at_all_times[0]} needs the states of processor time at all times: {remedy}")
        budget = self.budget
        decided = self.level or when or at_all_times or self.source == "proc"
        if budget is None and self.everything and not decided:
            budget = default_budget
        return MeasureOptions(
            checks=self.checks,
            functions=self._marked(),
            events=self._listed_events() if counted else self.events,
            why=causes or bool(self.why),
            calls=calls,
            locks=locks,
            cgroups=cgroups,
            level=level,
            budget=budget,
            when=when,
            tasks=self.with_tasks,
            task_attributes=self.task_attributes,
            task_probes=self.task_probes,
            requests=tuple(dict.fromkeys(self.requests)),
            durations=durations,
            publish=self.publishes,
            publish_all=self.publish_all,
            spin=self.spin,
        )

    def _marked(self) -> tuple[MarkedFunctions, ...]:
        """Return the marked functions. Raises UsageError if a state has no name that can be one."""
        found = [MarkedFunctions(words) for words in self.functions]
        found += [MarkedFunctions(words, "poll", option="--poll") for words in self.polls]
        for given in self.named:
            name, equals, words = given.partition("=")
            if not equals or not words or not STATE_NAME.fullmatch(name):
                raise click.UsageError(
                    f"--state {given!r}: write it like render=./game:draw_*; the name has letters, digits, _ and -"
                )
            found.append(MarkedFunctions(words, "user", name, "--state"))
        return tuple(found)

    def _needing_states(self) -> Iterator[tuple[str, object]]:
        """Yield the options that need the states of processor time at all times, and what they were given."""
        yield "--noneffective", self.functions
        yield "--poll", self.polls
        yield "--state", self.named
        yield "--event", self.events
        yield "--status-checks", self.checks
        yield "--tasks", self.with_tasks
        yield "--spin", self.spin
        yield "--why kernel", "kernel" in self.why
        yield "--why poll", "poll" in self.why

    def _check_clocks(self, *, locks: bool) -> None:
        """Raise UsageError for options about which the kernel's clocks say nothing."""
        for option, given in (("--why", self.why), ("--locks", locks)):
            if given:
                raise click.UsageError(f"clocks do not tell single waits: {option} needs --level switches or more")
        unknown = sorted({*self._listed_events()} - COUNTED_AT_CLOCKS)
        if unknown:
            counted = ", ".join(sorted(COUNTED_AT_CLOCKS))
            raise click.UsageError(f"the kernel counts no {unknown[0]!a} of a thread: --level clocks has {counted}")
        if self.cpus is not None:
            raise click.UsageError(
                "clocks do not tell on which processor a thread was: -C needs --level switches or more"
            )
        if self.publishes:
            raise click.UsageError(
                "clocks cannot tell threads their progress: --publish needs --level switches or more"
            )

    def _check_spin(self) -> None:
        """Raise UsageError if options contradict --spin, MissingExtraError if what it needs is not installed."""
        from headway.extras import need

        need("spin")
        if self.source == "proc":
            raise click.UsageError("--spin is for the source bpf: /proc does not tell where threads are")
        if self.with_tasks:
            raise click.UsageError("--spin cannot tell which task spins: leave out --tasks and --python-tasks")

    def _check_when(self) -> None:
        """Raise UsageError if options contradict --when."""
        if self.source == "proc":
            raise click.UsageError("--when is for the source bpf: /proc has one level of detail")
        for option, given in (("--level", self.level), ("--budget", self.budget)):
            if given:
                raise click.UsageError(f"the level of detail follows from --when: leave out {option} or --when")

    def selection(self, command: Sequence[str]) -> Selection:
        """Return the threads to measure. Raises UsageError if there are none, or if options contradict each other."""
        name = self.name
        if name is not None:
            plain = name.removesuffix("*").encode(errors="surrogateescape")
            if not plain or len(plain) > 15 or "*" in name[:-1]:
                raise click.UsageError(f"{name!r} is no thread's name: up to 15 bytes, with a * only at the end")
        if self.python_tasks and not (command or self.pids):
            raise click.UsageError(
                "--python-tasks is for a command that headway starts, and for processes: give one after --, or -p PID"
            )
        if self.only and not self.pids:
            raise click.UsageError("--only is about processes that are named: give -p PID")
        group = self._group()
        some = bool(self.pids or self.tids or name or group)
        if command and some:
            raise click.UsageError(
                "give a command or threads to measure (-p, -t, --name, --cgroup, --unit, --container, --pod), not both"
            )
        if not (some or self.everything or command or self.cpus is not None):
            raise click.UsageError(
                "say what to measure: a command after --, or -p PID, -t TID, --name NAME, -a (--help)"
            )
        if self.python_tasks and self.pids:
            from .attaching import attach_meanwhile

            attach_meanwhile(self.pids, only=self.only)
        return Selection(
            pids=self.pids,
            tids=self.tids,
            name=name,
            cgroup=group,
            everything=self.everything or not (some or command),
            cpus=self.cpus,
            follow=not self.no_follow,
            descendants=bool(self.pids) and not self.only,
        )

    def _group(self) -> str | None:
        """Return the directory of the control group to measure; None: none was named."""
        wanted = {"cgroup": self.cgroup, "unit": self.unit, "container": self.container, "pod": self.pod}
        given = {kind: name for kind, name in wanted.items() if name is not None}
        if len(given) > 1:
            raise click.UsageError(
                f"one control group can be measured: give one of {', '.join(f'--{k}' for k in given)}"
            )
        for kind, name in given.items():
            if kind == "cgroup":
                return name
            from headway.linux.procfs import named_groups

            find = {
                "unit": named_groups.unit_group,
                "container": named_groups.container_group,
                "pod": named_groups.pod_group,
            }
            return find[kind](name)
        return None

    def others_in_words(self) -> str:
        """Return which processes are measured because those of -p have started them; empty: there are none."""
        if not self.pids or self.only or self.everything:
            return ""
        from headway.linux.procfs.descendants import descendants

        n = len(descendants(self.pids))
        they = "it" if len(self.pids) == 1 else "they"
        return f"and {n:,} {'process' if n == 1 else 'processes'} that {they} started" if n else ""

    def tell_others(self) -> None:
        """Say so in one line."""
        if others := self.others_in_words():
            named = f"process {self.pids[0]}" if len(self.pids) == 1 else f"{len(self.pids)} processes"
            alone = f"{self.pids[0]} alone" if len(self.pids) == 1 else "those alone"
            say(f"measuring {named} {others}; --only for {alone}")


_OF_DETAIL = ("cpus", "no_follow", "source", "checks", "functions", "polls", "named", "events", "level")
"""The fields of `TargetOptions` that the options in `_DETAIL` set."""


def measuring_options(function: Any) -> Any:
    """Add the options that say what to measure; the command gets them as one `TargetOptions`, ``wanted``."""

    @wraps(function)
    def gathered(*arguments: Any, **values: Any) -> Any:
        wanted = TargetOptions(**{field.name: values.pop(field.name) for field in fields(TargetOptions)})
        return function(*arguments, wanted=wanted, **values)

    for option in reversed((*_TARGETS, *_DETAIL, *_MORE)):
        gathered = option(gathered)
    return gathered


def detail_options(function: Any) -> Any:
    """Add the options that say how commands are measured; the command gets them as `TargetOptions`, ``wanted``."""

    @wraps(function)
    def gathered(*arguments: Any, **values: Any) -> Any:
        wanted = TargetOptions(**{name: values.pop(name) for name in _OF_DETAIL})
        return function(*arguments, wanted=wanted, **values)

    for option in reversed(_DETAIL):
        gathered = option(gathered)
    return gathered


group_by_option = click.option(
    "--by",
    "--group-by",
    "group_by",
    type=click.Choice([by.value for by in GroupBy]),
    help="What has a line: each thread, all threads of a name, a process, a control group, or a pod (where there is "
    "none, a container or a systemd unit).  [default: thread, and name if there are more threads than lines]",
)
"""Add ``--by``; the command gets ``group_by``."""


@dataclass(frozen=True, slots=True)
class ListingOptions:
    """Which lines of threads a report has; each field has the value of its option."""

    limit: int | None
    every_line: bool
    group_by: str | None

    @property
    def by(self) -> GroupBy | None:
        """What has a line; None: it depends on the number of threads."""
        return GroupBy(self.group_by) if self.group_by else None

    @property
    def needs_cgroups(self) -> bool:
        """Whether threads are told apart by their control groups."""
        return self.by is not None and self.by.needs_cgroups

    def listing(
        self, console: Console, *, above: int = 0, verbose: bool = False, before: GroupBy | None = None
    ) -> Listing:
        """Return the choice for a report to this console.

        ``above`` is the number of other lines of the report; ``before`` is as in `Listing`. A table that the user did
        not ask to be longer fits the terminal.
        """
        by = self.by
        if self.every_line:
            return Listing(None, None, by or GroupBy.THREAD)
        if self.limit is not None or verbose or not console.is_terminal:
            return Listing(self.limit or LINES, None, by, before)
        return Listing(height=console.height - 1 - above, by=by, before=before)  # the shell's prompt has a line


_LISTING = (
    click.option(
        "-n",
        "--threads",
        "limit",
        type=click.IntRange(min=1),
        metavar="N",
        help="Print N lines of threads, those with most time, and the sum of the other threads.  [default: as "
        f"many as fit the terminal, else {LINES}]",
    ),
    group_by_option,
    click.option("--every-thread", "every_line", is_flag=True, help="List all threads, or all groups."),
)


def listing_options(function: Any) -> Any:
    """Add the options that say which lines of threads a report has; the command gets `ListingOptions`, ``listed``."""

    @wraps(function)
    def gathered(*arguments: Any, **values: Any) -> Any:
        listed = ListingOptions(**{field.name: values.pop(field.name) for field in fields(ListingOptions)})
        return function(*arguments, listed=listed, **values)

    for option in reversed(_LISTING):
        gathered = option(gathered)
    return gathered


def durations_option(function: Any) -> Any:
    """Add ``--durations``; the command gets ``durations``: the buckets for each power of two, or None."""
    return click.option(
        "--durations",
        type=click.Choice(["0", "1", "2", "4", "8"]),
        metavar="N",
        callback=lambda _context, _option, value: None if value is None else int(value),
        help="Show how long each occurrence of a state lasted, by histograms with N buckets for each power of two: "
        "1, 2, 4 or 8; 0 shows none.",
    )(function)


format_option = click.option(
    "--format",
    "style",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="Output format.",
)
"""Add ``--format``; the command gets ``style``."""

thresholds_option = click.option(
    "--thresholds",
    "thresholds_file",
    metavar="FILE",
    help="TOML file with thresholds of advice (headway advise --print-thresholds).",
)
"""Add ``--thresholds``; the command gets ``thresholds_file``."""

when_option = click.option(
    "--when",
    type=WhenCondition(),
    multiple=True,
    metavar="CONDITION",
    help="Stay at the level switches, and see the calls and faults of a thread while a condition holds for it, as in "
    "'ready > 20 %'; with 'process: ...' or 'cgroup: ...' of all threads of a process or a cgroup. May be repeated.",
)
"""Add ``--when``; the command gets ``when``."""


def _parameters(options: Sequence[Callable[[Any], Any]]) -> Iterator[str]:
    """Yield the names of the parameters that options set."""

    def bare() -> None: ...

    for option in options:
        yield option(bare).__click_params__[-1].name


MeasuringCommand = sectioned(
    {
        name: title
        for title, options in (
            ("Which lines there are", _LISTING),
            ("Which threads are measured", _TARGETS),
            ("How they are measured", _DETAIL),
            ("What else is measured", _MORE),
        )
        for name in _parameters(options)
    }
)
"""A command that measures: its own options come first in its help."""
