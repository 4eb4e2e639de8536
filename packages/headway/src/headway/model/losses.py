"""The table of losses: the names in `Ledger.losses`, with unit and description."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from headway.dataclass import dataclass

__all__ = ["KNOWN_LOSSES", "Loss", "every_loss", "loss_of"]


@dataclass(frozen=True, slots=True)
class Loss:
    """One kind of loss."""

    name: str
    """The key in `Ledger.losses`."""
    what: str
    """The description of what is counted."""
    unit: str = ""
    """``ns`` for a time; empty for a count."""
    constant: str = ""
    """The name under which the eBPF programs count it (linux/bpf/shared/layout.h); empty if they do not."""


_LOSSES = (
    Loss(
        "threads_unmeasured",
        "threads that were not measured because there was no room for them",
        constant="LOST_THREADS",
    ),
    Loss(
        "threads_without_kernel_memory",
        "threads that were not measured because the kernel had no memory for them",
        constant="LOST_STORAGE",
    ),
    Loss("exits_lost", "threads whose totals did not fit the ring buffer when they ended", constant="LOST_EXITS"),
    Loss("states_sharing_a_cell", "states beyond 127 of one thread: their time is in unknown", constant="LOST_STATES"),
    Loss(
        "interrupts_nested_too_deep",
        "interrupts nested too deep: charged to the state that they interrupted",
        constant="LOST_NESTED",
    ),
    Loss(
        "handlers_skipped",
        "interrupts that arrived while headway noted another interrupt, and runs of programs that the kernel left out: "
        "their time stays in the state before",
        constant="LOST_SKIPPED",
    ),
    Loss("interrupt_ends_unmatched", "ends of interrupts whose beginning was not seen", constant="LOST_UNMATCHED"),
    Loss("stolen_ns_unplaced", "stolen time for which no state was found", unit="ns", constant="LOST_STEAL"),
    Loss("switches_unseen", "switches from a measured thread that were not seen", constant="LOST_SWITCHES"),
    Loss(
        "wakeups_unseen",
        "wake-ups not seen where the kernel counts no ready time: the wait seems to last until the thread runs",
        constant="LOST_WAKES",
    ),
    Loss(
        "region_blocks_unread",
        "blocks of marked regions that were refused, or could not be read at the end of a span",
        constant="LOST_BLOCKS",
    ),
    Loss(
        "region_times_impossible",
        "impossible times in a block of marked regions: reduced to what is possible",
        constant="LOST_LIES",
    ),
    Loss("tags_sharing_a_state", "tags beyond the room for names: they are noneffective.other", constant="LOST_TAGS"),
    Loss(
        "functions_nested_too_deep",
        "calls of marked functions that were not seen because they were nested too deep",
        constant="LOST_FRAMES",
    ),
    Loss(
        "causes_without_room",
        "causes that were not recorded because there was no room for them",
        constant="LOST_CAUSES",
    ),
    Loss(
        "stacks_without_room",
        "stacks that were not kept because there was no room: their time is charged to a stack that is not known",
        constant="LOST_STACKS",
    ),
    Loss(
        "stack_times_without_room",
        "waits whose stack is not known because there was no room for them",
        constant="LOST_STACK_TIMES",
    ),
    Loss(
        "sample_states_lost",
        "samples, or states of samples, that are missing because the ring had no room for them",
        constant="LOST_SAMPLE_EVENTS",
    ),
    Loss(
        "tasks_without_room",
        "tasks, or names of tasks, for which there was no room: their time is in other tasks",
        constant="LOST_TASKS",
    ),
    Loss(
        "task_changes_overwritten",
        "changes of a thread's task that were overwritten before they were read: their time is in other tasks",
        constant="LOST_CHANGES",
    ),
    Loss(
        "task_logs_unread",
        "logs of tasks that were refused or could not be read, and impossible times in them",
        constant="LOST_LOGS",
    ),
    Loss(
        "histograms_without_room",
        "states of threads whose durations were not kept because there was no room for them",
        constant="LOST_HISTOGRAMS",
    ),
    Loss(
        "durations_of_unknown_buckets",
        "occurrences that turned out to be polling, and were taken out of a bucket that may not be theirs",
        constant="LOST_BUCKETS",
    ),
    Loss(
        "processes_without_number",
        "threads whose process got no number because there was no room: their time ready is not divided",
        constant="LOST_PROCESSES",
    ),
    Loss(
        "python_code_without_room",
        "functions of Python whose names could not be told because there was no room: their frames have no names",
        constant="LOST_CODE",
    ),
    Loss(
        "thread_contexts_unread",
        "thread contexts of OpenTelemetry that could not be read, or contradict themselves: their time is in no task",
        constant="LOST_CONTEXTS",
    ),
    Loss(
        "probe_arguments_unread",
        "texts at probes that could not be read: the name of the task has a ? in their place",
        constant="LOST_ARGUMENTS",
    ),
    Loss("records_damaged", "records of ended threads that are inconsistent: 0 unless there is a bug"),
    Loss(
        "readings_torn", "readings of a thread or processor that changed while they were read: 0 unless there is a bug"
    ),
    Loss(
        "ended_threads_added_up",
        "ended threads that share a row with others of their process and name, or where there are too many of these, "
        "with all others",
    ),
    Loss("transitions_lost", "transitions that did not fit the rings: their time is unknown in a recording"),
    Loss(
        "transition_rings_damaged",
        "rings of transitions with impossible content: 0 unless there is a bug",
    ),
    Loss("transitions_of_unknown_threads", "transitions whose thread is not known"),
    Loss("files_damaged", "files of a recording that are missing or cannot be used"),
    Loss("threads_unnamed", "threads of a recording of which only the transitions are known"),
    Loss(
        "unseen_ns",
        "processor time of threads, or of parts of their lives, that was not seen: at least this",
        unit="ns",
    ),
    Loss("unseen_ends", "threads whose end was not seen: they count until the reading that no longer found them"),
    Loss("hidden", "threads and processes whose files in /proc this user may not read"),
    Loss("unmarked_threads", "threads for which a program that marks regions had no room"),
    Loss(
        "unnamed_regions",
        "names of regions for which a program had no room: their time is in noneffective.other or user",
    ),
    Loss("untrue_marks", "values in blocks of marked regions that cannot be true"),
    Loss("uncounted_threads", "threads whose events could not be counted"),
    Loss("uncounted_ns", "processor time in which a thread's events were not counted", unit="ns"),
    Loss("samples_lost", "samples that did not fit a thread's ring buffer"),
    Loss("samplings_throttled", "times that the kernel stopped a thread's sampling for a while, because of its rate"),
    Loss("buffers_damaged", "readings of a ring buffer of samples that found no whole record"),
    Loss("threads_not_sampled", "threads that had ended before they could be sampled"),
    Loss("ns_before_sampling_began", "processor time of threads before their own sampling began", unit="ns"),
    Loss("samples_outside_the_window", "samples from outside the window, or of a command before it was executed"),
    Loss("samples_without_their_state", "samples whose state is not known"),
    Loss("ns_without_a_stack", "time off the processor whose stack is not known", unit="ns"),
)
KNOWN_LOSSES: Mapping[str, Loss] = {loss.name: loss for loss in _LOSSES}
"""Every loss that headway itself counts, by name."""
_GROUP = "headway.losses"
"""The entry points of losses that other distributions count: of each a sequence of `Loss`."""


@cache
def every_loss() -> Mapping[str, Loss]:
    """Return all known losses by name, with those of other distributions. It looks at all that is installed."""
    from importlib.metadata import entry_points

    added = (loss for found in entry_points(group=_GROUP) for loss in found.load())
    return {**KNOWN_LOSSES, **{loss.name: loss for loss in added}}


def loss_of(name: str) -> Loss | None:
    """Return the loss of a name; None: it is not known here."""
    return KNOWN_LOSSES.get(name) or every_loss().get(name)
