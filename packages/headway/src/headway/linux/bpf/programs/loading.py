"""Load the eBPF programs: the shapes in which they are needed, and the features of a kernel that they use.

A shape is the set of options that decide which programs are loaded and what the verifier sees of them. `SHAPES` lists
every shape that a command needs. So a user (`headway doctor`) and the tests can try whether a kernel loads them all.

The features of a kernel are found in its type information and by trying, never by comparing versions, so that
backported features count.
"""

from __future__ import annotations

import errno
import os
import platform
import resource
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.files import packaged
from headway.linux.levels import Level
from headway.linux.options import MeasureOptions, Selection
from headway.linux.perf import perf_event as perf
from headway.linux.procfs import processors

from ..polling import checks
from ..polling.checks import StatusChecks
from ..shared import states
from ..shared.layout import PROTOCOLS, PUBLISHED, STATES, UNDIVIDED
from ..shared.settings import pack_settings
from ..threads.user_maps import taking_maps
from . import relocated
from .kernel_types import KernelTypes, has_name, types_of_kernel
from .libbpf import BpfError, BpfProgram, Library, Object
from .refusals import explain, too_many_files
from .unavailable import UnavailableError

__all__ = [
    "SHAPES",
    "Features",
    "Shape",
    "files_as_allowed",
    "is_needed_at",
    "load",
    "sees_only_threads",
    "tracepoints_of",
    "trial",
]

_STACK_SIZE = 16_384
"""Bytes of a thread's stack in the kernel, if pages are no larger: THREAD_SIZE of x86-64 and arm64, without KASAN."""

_NEEDED_PROGRAMS = (
    "handle_sched_switch",
    "handle_sys_enter",
    "handle_sys_exit",
    "handle_sched_wakeup",
    "handle_sched_wakeup_new",
    "handle_sched_process_fork",
    "handle_sched_process_exec",
)
"""Programs without which time cannot be accounted for."""

_VECTORS = (
    "local_timer",
    "reschedule",
    "call_function",
    "call_function_single",
    "irq_work",
    "thermal_apic",
    "threshold_apic",
    "error_apic",
    "spurious_apic",
    "deferred_error_apic",
    "x86_platform_ipi",
)
"""The interrupts whose tracepoints share a program for all entries and one for all exits (group irq_vectors of x86)."""

_SHARED: Mapping[str, tuple[str, ...]] = {
    "irq_vector": _VECTORS,
    "submission": ("io_uring_submit_req", "io_uring_submit_sqe"),
    "submitted": ("io_uring_complete", "io_uring_queue_async_work", "io_uring_poll_arm"),
    "reclaim": ("mm_vmscan_direct_reclaim", "mm_vmscan_memcg_reclaim"),
}
"""The tracepoints that share a program, by the first words of its section and of theirs."""

_LAYERS: Mapping[str, Level] = {
    "handle_sys_enter": Level.CALLS,
    "handle_sys_exit": Level.CALLS,
    "handle_page_fault_user": Level.CALLS,
    "handle_page_fault_begin": Level.CALLS,
    "handle_page_fault_end": Level.CALLS,
    "handle_signal_deliver": Level.CALLS,
    "handle_received": Level.CALLS,
    "handle_call_of_request": Level.CALLS,
    "handle_reclaim_begin": Level.CALLS,
    "handle_reclaim_end": Level.CALLS,
    "handle_submission": Level.CALLS,
    "handle_submitted": Level.CALLS,
    "handle_irq_handler_entry": Level.INTERRUPTS,
    "handle_irq_handler_exit": Level.INTERRUPTS,
    "handle_softirq_entry": Level.INTERRUPTS,
    "handle_softirq_exit": Level.INTERRUPTS,
    "handle_ipi_entry": Level.INTERRUPTS,
    "handle_ipi_exit": Level.INTERRUPTS,
    "handle_irq_vector_entry": Level.INTERRUPTS,
    "handle_irq_vector_exit": Level.INTERRUPTS,
}
"""The layer of events that a program sees; of all others it is `Level.SWITCHES`."""

_FAULTS = (
    "handle_page_fault_user",
    "handle_page_fault_kernel",
    "handle_page_fault_begin",
    "handle_page_fault_end",
)

_NOT_PLAIN = ("why", "functions", "n_counted", "record", "stacks", "unwind", "samples", "tasks", "durations", "publish")
"""The settings that plain.bpf.c does without: what the C code asks for with OPTION, but for `other_accounts`, which
follows from them."""

_FLOOR: Mapping[str, str] = {
    "BPF_MAP_TYPE_RINGBUF": "ring buffers",
    "BPF_MAP_TYPE_TASK_STORAGE": "task storage",
    "BPF_FUNC_get_current_task_btf": "bpf_get_current_task_btf",
    "BPF_FUNC_task_pt_regs": "bpf_task_pt_regs",
}
"""What every shape needs of a kernel, by its name in the kernel's type information. Linux 5.15 has it all."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides which programs are loaded, and what the verifier sees of them."""

    everything: bool = False
    """Every thread is measured."""
    name: bool = False
    """Threads are chosen by name."""
    cgroup: bool = False
    """Threads are chosen by cgroup."""
    cpus: bool = False
    """Only some processors are measured."""
    follow: bool = True
    """Threads that a measured thread creates are measured too."""
    namespace: bool = False
    """The reader is in a pid namespace of its own."""
    intervals: bool = False
    """Readings are wanted while measuring goes on."""
    why: bool = False
    functions: bool = False
    events: bool = False
    """Events are counted by state: those that were asked for, and what tells user code from the kernel."""
    stacks: bool = False
    unwind: bool = False
    """User stacks are walked by call frame information."""
    spin: bool = False
    """Samples of user code are taken, with the code."""
    tasks: bool = False
    """Time is charged to tasks, too."""
    task_probes: bool = False
    """Some of them begin and end at static probes."""
    requests: int = 0
    """Requests of these protocols are tasks (bits: `layout.PROTOCOLS`)."""
    record: bool = False
    level: Level = Level.INTERRUPTS
    budget: bool = False
    """The level changes while measuring goes on."""
    when: bool = False
    """Some threads are measured at the level, and all others at `Level.SWITCHES`."""
    durations: int = 0
    """Histograms of durations are kept, with so many buckets for each power of two."""
    publish: bool = False
    """Threads can read what they have done so far."""
    publish_all: bool = False
    """And what all others have done."""

    @staticmethod
    def of(selection: Selection, options: MeasureOptions, *, intervals: bool, record: bool, namespace: bool) -> Shape:
        """Return the shape in which a measurement needs the programs."""
        return Shape(
            everything=selection.everything,
            name=bool(selection.name),
            cgroup=bool(selection.cgroup),
            cpus=selection.cpus is not None,
            follow=selection.follow,
            namespace=namespace,
            intervals=intervals or options.changes,  # the level changes at snapshots
            why=options.why,
            functions=bool(options.functions),
            events=bool(options.events),
            stacks=options.stacks,
            unwind=options.stacks and options.unwind,
            spin=options.spin,
            tasks=options.tasks,
            task_probes=bool(options.task_probes),
            requests=sum(PROTOCOLS[protocol] for protocol in options.requests),
            record=record,
            level=options.most,
            budget=options.budget is not None,
            when=bool(options.when),
            durations=options.durations,
            publish=options.publish,
            publish_all=options.publish_all,
        )


SHAPES: Mapping[str, Shape] = {
    "stat -p": Shape(),
    "stat -p --no-follow": Shape(follow=False),
    "stat -a": Shape(everything=True),
    "stat -I": Shape(intervals=True),
    "stat -C": Shape(everything=True, cpus=True),
    "stat --name": Shape(name=True),
    "stat --cgroup": Shape(cgroup=True),
    "stat in a container": Shape(namespace=True),
    "stat --why": Shape(why=True),
    "stat -e": Shape(events=True),
    "stat --noneffective": Shape(functions=True),
    "top, serve -a": Shape(everything=True, intervals=True),
    "top --why": Shape(everything=True, intervals=True, why=True),
    "cpu": Shape(everything=True, cpus=True, intervals=True),
    "profile": Shape(stacks=True, unwind=True),
    "profile --call-graph fp": Shape(stacks=True),
    "stat --spin": Shape(spin=True),
    "stat -a -I --spin": Shape(everything=True, intervals=True, spin=True),
    "record --spin": Shape(record=True, spin=True),
    "record": Shape(record=True),
    "stat --tasks": Shape(tasks=True),
    "stat -I --tasks": Shape(tasks=True, intervals=True),
    "record --stacks": Shape(stacks=True, unwind=True, record=True),
    "record --tasks": Shape(tasks=True, record=True),
    "stat --task": Shape(tasks=True, task_probes=True),
    "record --task": Shape(tasks=True, task_probes=True, record=True),
    "stat --requests": Shape(tasks=True, requests=sum(PROTOCOLS.values())),
    "record --requests": Shape(tasks=True, requests=sum(PROTOCOLS.values()), record=True),
    "record -a --why": Shape(everything=True, record=True, why=True),
    "stat --level calls": Shape(level=Level.CALLS),
    "stat --level switches": Shape(level=Level.SWITCHES),
    "stat -a -I --level switches": Shape(everything=True, intervals=True, why=True, level=Level.SWITCHES),
    "stat --level switches, cycles by mode": Shape(events=True, level=Level.SWITCHES),
    "record --level switches": Shape(record=True, level=Level.SWITCHES),
    "record -a --level switches, cycles by mode": Shape(
        everything=True, intervals=True, why=True, events=True, record=True, level=Level.SWITCHES
    ),
    "stat --budget": Shape(intervals=True, budget=True),
    "top --budget": Shape(everything=True, intervals=True, why=True, budget=True),
    "top --budget, cycles by mode": Shape(everything=True, intervals=True, why=True, events=True, budget=True),
    "record --flight-recorder": Shape(record=True, intervals=True, level=Level.CALLS, when=True),
    "serve -a --when": Shape(everything=True, intervals=True, level=Level.CALLS, when=True),
    "serve -a --when, cycles by mode": Shape(
        everything=True, intervals=True, events=True, level=Level.CALLS, when=True
    ),
    "stat -v": Shape(why=True, durations=1),
    "stat -I --durations 4": Shape(intervals=True, durations=4),
    "stat --durations 1 --level switches": Shape(durations=1, level=Level.SWITCHES),
    "serve -a --durations 1": Shape(everything=True, intervals=True, budget=True, durations=1),
    "all at once": Shape(
        everything=True,
        name=True,
        cgroup=True,
        cpus=True,
        follow=True,
        namespace=True,
        intervals=True,
        why=True,
        functions=True,
        events=True,
        stacks=True,
        unwind=True,
        spin=True,
        tasks=True,
        task_probes=True,
        requests=sum(PROTOCOLS.values()),
        record=True,
        durations=8,
        publish=True,
    ),
    "stat --publish": Shape(publish=True),
    "serve -a --publish": Shape(everything=True, intervals=True, budget=True, publish=True),
    "record --publish": Shape(record=True, publish=True),
    "serve -a --publish-all": Shape(everything=True, intervals=True, budget=True, publish=True, publish_all=True),
}
"""Every shape that a command needs, by the command (options add up, so not every sum of them is listed). Marked regions
need no programs of their own."""


@dataclass(frozen=True, slots=True)
class Features:
    """What the running kernel has, of what differs between kernels."""

    tracepoints: frozenset[str]
    """That programs can be attached to (tp_btf, raw_tp)."""
    steal: bool
    """It says whose time the hypervisor took: CONFIG_PARAVIRT_TIME_ACCOUNTING and CONFIG_FAIR_GROUP_SCHED."""
    faults: bool
    """The beginning and the end of a page fault are events."""
    fetch: bool
    """Its JIT knows atomic instructions that fetch (arm64: commit 1902472b4fa9, 5.18)."""

    @staticmethod
    def probe(library: Library, types: KernelTypes | None = None) -> Features:
        """Ask the running kernel. Raises UnavailableError where it lacks what every shape needs.

        ``types``: its type information (`types_of_kernel`), where that has been read.
        """
        types = types or types_of_kernel()
        lacking = [words for name, words in _FLOOR.items() if not has_name(types, name)]
        if lacking:
            raise UnavailableError(
                f"Linux {os.uname().release} lacks what eBPF needs here ({', '.join(lacking)})",
                "take a newer kernel (Linux 5.15 has all of it)",
            )
        return Features(
            tracepoints=frozenset(relocated.learn_hooks(types)),
            # The second is needed to get from a thread to its run queue.
            steal=has_name(types, "prev_steal_time_rq") and has_name(types, "my_q"),
            faults=_can_count_faults(),
            fetch=platform.machine() == "x86_64" or _loads_fetch(library),
        )


def load(
    library: Library,
    shape: Shape,
    features: Features,
    sizes: Mapping[str, int],
    details: Mapping[str, Any],
    status_checks: StatusChecks,
    types: KernelTypes | None = None,
) -> Object:
    """Open the programs in a shape and have the kernel load them.

    ``sizes``: entries of maps, by their names. ``details``: settings beside those that follow from shape and features
    (`pack_settings`). ``types``: as for `Features.probe`. Raises HeadwayError; then nothing is left loaded.
    """
    tables = {
        "wait_of": states.wait_table(),
        "compat_call": states.compat_table(),
        "checks": status_checks.checks,
        "neutral": status_checks.neutral,
    }
    types = types or types_of_kernel()
    for has_prev_state in (True, False):
        values: dict[str, Any] = {**_settings(shape, features, has_prev_state), **tables, **details}
        programs = Object(library, _image(values), types)
        try:
            for name, entries in sizes.items():
                programs.map(name).max_entries = entries
            leave_out_needless(programs, shape, features)
            programs.map(".rodata.settings").set_initial(pack_settings(**values))
            with ExitStack() as stack:
                if shape.publish:
                    stack.enter_context(taking_maps(programs, details["published"]))
                programs.load()
            return programs
        except BpfError as error:
            programs.close()
            if not has_prev_state or "BEGIN PROG LOAD LOG" not in error.log:  # what the verifier did not refuse
                raise explain(error) from None
        except BaseException:
            programs.close()
            raise
    raise AssertionError


def _image(values: Mapping[str, object]) -> bytes:
    """Return the smallest object that can do what the settings ask for. Raises HeadwayError if it is not there."""
    name = "progress.bpf.o" if any(values.get(option) for option in _NOT_PLAIN) else "plain.bpf.o"
    try:
        return packaged("headway.linux.bpf", name)
    except OSError as error:
        raise HeadwayError(f"headway's eBPF object is missing ({error}): reinstall headway") from None


def trial(library: Library, shape: Shape, features: Features) -> None:
    """Load the programs in a shape and unload them. Raises UnavailableError where the kernel refuses them."""
    sizes = {"exits": 1 << 16, "spans": 1 << 10, "absences": 1 << 10} | dict.fromkeys(
        ("thread_records", "free_thread_records"), 64
    )
    details: dict[str, object] = {
        "max_thread_records": 64,
        "published": 64,
        "n_processes": 64,
        "ring_words": 1 << 8,
        "absence_words": 1 << 8,
    }
    details |= {"n_counted": STATES["N_COUNTED"]} if shape.events else {}
    details |= {"namespace_inum": 1} if shape.namespace else {}
    details |= {"cgroup": 1, "cgroup_level": 1} if shape.cgroup else {}
    details |= {"name": b"name", "name_prefix": True} if shape.name else {}
    load(library, shape, features, sizes, details, checks.load(None)).close()


def sees_only_threads(shape: Shape) -> bool:
    """Return whether what processors do without a measured thread is not divided."""
    return not (shape.everything or shape.cpus or shape.why or shape.record or shape.intervals)


def _settings(shape: Shape, features: Features, has_prev_state: bool) -> dict[str, object]:
    """Those settings that switch parts of the programs on and off."""
    return {
        "everything": shape.everything,
        "follow": shape.follow,
        "some_cpus": shape.cpus,
        "threads_only": sees_only_threads(shape),
        "intervals": shape.intervals,
        "why": shape.why,
        "functions": shape.functions,
        "stacks": shape.stacks,
        "unwind": shape.unwind,
        "samples": shape.stacks or shape.spin,
        "tasks": shape.tasks,
        "requests": shape.requests,
        "record": shape.record,
        "has_steal": features.steal,
        "has_prev_state": has_prev_state,
        "has_fetch": features.fetch,
        "timer_line": processors.timer_line(),
        "undivided": UNDIVIDED[_undivided(shape)],
        "durations": shape.durations.bit_length(),
        "publish": PUBLISHED["PUBLISH_TO_ALL" if shape.publish_all else "PUBLISH_TO_USER"] if shape.publish else 0,
        "divide_ready": features.fetch and (shape.record or not shape.stacks),
        "stack_size": max(_STACK_SIZE, os.sysconf("SC_PAGESIZE")),
    }


def leave_out_needless(programs: Object, shape: Shape, features: Features) -> None:
    """Leave out the programs that a shape does not need, and those whose tracepoints the kernel does not have."""
    needless = {
        "handle_cgroup_attach_task": not shape.cgroup,
        "handle_function_entry": not shape.functions,
        "handle_function_exit": not shape.functions,
        "handle_function_return": not shape.functions,
        "handle_task_probe": not shape.task_probes,
        "handle_received": not shape.requests,
        "handle_call_of_request": not shape.requests,
        "handle_sched_waking": not (shape.why or shape.record),
        "handle_sched_migrate_task": not features.fetch,
        "divide_ready_threads": not features.fetch,
        "forget_task": not shape.budget,
        "handle_sample": not shape.stacks,
        "handle_code_sample": not shape.spin,
        "end_publication": not shape.publish,
        "publish_absent": not shape.publish,
        "handle_state_sample": shape.level is not Level.SWITCHES and not shape.budget and not shape.when,
        "handle_page_fault_begin": "page_fault_user" in features.tracepoints,
        **({} if features.faults else dict.fromkeys(_FAULTS, True)),
    }
    for program in programs.programs.values():
        kind, _, hook = program.section.partition("/")
        missing = kind in ("tp_btf", "raw_tp") and not tracepoints_of(program, features)
        if missing and program.name in _NEEDED_PROGRAMS:
            raise UnavailableError(
                f"Linux {os.uname().release} has no tracepoint {hook}, which headway's eBPF programs need",
                "sudo headway doctor says more",
            )
        if missing or needless.get(program.name, False) or not shape.level.includes(_layer_of(program.name)):
            program.leave_out()


def _undivided(shape: Shape) -> str:
    """Return whether time may be not divided, by its name in layout.h."""
    if shape.when:
        return "CHOSEN_UNDIVIDED"
    if shape.budget:
        return "SOMETIMES_UNDIVIDED"
    return "ALWAYS_UNDIVIDED" if shape.level is Level.SWITCHES else "NEVER_UNDIVIDED"


def _layer_of(program: str) -> Level:
    return _LAYERS.get(program, Level.SWITCHES)


def is_needed_at(level: Level, program: str, *, by_samples: bool = False) -> bool:
    """Return whether a program is attached at a level. Samples divide time only where nothing else does.

    ``by_samples``: they divide the time of some threads at this level too.
    """
    if program == "handle_state_sample":
        return by_samples or level is Level.SWITCHES
    return level.includes(_layer_of(program))


def tracepoints_of(program: BpfProgram, features: Features) -> tuple[str, ...]:
    """Return the tracepoints of the kernel that a program is attached to."""
    kind, _, hook = program.section.partition("/")
    hooks: tuple[str, ...] = ()
    if kind == "tp_btf":
        hooks = (hook,)
    elif kind == "raw_tp":
        word = next(word for word in _SHARED if hook.startswith(word))
        hooks = tuple(hook.replace(word, one) for one in _SHARED[word])
    return tuple(hook for hook in hooks if hook in features.tracepoints)


def _can_count_faults() -> bool:
    """Whether the ends of a page fault are events here; what one processor has, all have."""
    try:
        opened = perf.open_per_cpu(perf.FAULTS, processors.online()[:1])
    except HeadwayError:
        return False
    perf.close_all(fd for fds in opened.values() for fd in fds)
    return True


@cache
def _loads_fetch(library: Library) -> bool:
    """Whether a program with an atomic instruction that fetches loads (Documentation/bpf/standardization)."""

    def instruction(code: int, registers: int = 0, offset: int = 0, immediate: int = 0) -> bytes:
        return struct.pack("<BBhi", code, registers, offset, immediate)

    return library.loads(
        b"".join(
            (
                instruction(0x7A, 0x0A, -8),  # *(u64 *)(r10 - 8) = 0
                instruction(0xB7, 0x01, 0, 1),  # r1 = 1
                instruction(0xDB, 0x1A, -8, 0x01),  # r1 = atomic_fetch_add((u64 *)(r10 - 8), r1)
                instruction(0xB7),  # r0 = 0
                instruction(0x95),  # exit
            )
        )
    )


@contextmanager
def files_as_allowed() -> Iterator[None]:
    """Files can be opened up to the hard limit meanwhile: each program and each processor needs a few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise too_many_files() from None
        raise
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
