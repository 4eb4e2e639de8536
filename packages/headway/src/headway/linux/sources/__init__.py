"""Sources: they yield the ledgers of a running Linux.

`source` has the protocol that all of them implement, `measuring` has what they share, and `choose` takes the best one
that works here. `ebpf` drives the eBPF programs of ``linux/bpf/``, which see every change of state, and makes ledgers
from their cells. `clocks` reads the kernel's own clocks of threads, and `budgeted` goes from `ebpf` to it and back, as
a budget allows. `proc` reads /proc again and again. `profiler` samples the threads that one of these two measures.

**The path of one context switch, from the kernel to a row of a table.** Paths are below ``linux/``,
in the last step below ``headway/``.

1. ``bpf/progress.bpf.c``, ``handle_sched_switch``: the kernel runs it at the tracepoint ``sched_switch``, with the
   thread that leaves the processor and the one that comes.
2. ``bpf/events/handler.h``, ``begin_event``, and ``bpf/events/spans.h``, ``charge_until_now``: the span since the last
   event of this processor goes to the state that ends, in the cells of the processor and in those of the thread that
   leaves. What the event itself cost goes to the state ``overhead``. If a snapshot has become due on this processor,
   ``cross_snapshot`` (``bpf/reading/snapshots.h``) copies the processor and the thread that leaves first.
3. ``bpf/scheduler/stolen.h``, ``charge_stolen``: time that the hypervisor took since the last look moves from the
   longest span to ``stolen``.
4. ``bpf/scheduler/off_processor.h``, ``state_off_processor``: the state of the thread that leaves is ``ready`` if it
   was preempted or is still runnable, ``stopped`` if it was stopped or is traced, else a wait. ``sched_wakeup`` ends
   the wait later (``end_wait``: from then on the thread is ``ready``).
5. ``bpf/reading/snapshots.h``, ``save_if_due``: if a snapshot has become due, the thread that comes is copied before
   its record is changed.
6. ``bpf/scheduler/off_processor.h``, ``charge_off_processor``: the thread that comes was ready since it was woken, or
   since it was preempted. That time is charged to ``ready``, in its thread record. (Its wait was charged when it was
   woken.)
7. ``bpf/reading/_snapshots.pyx``, ``read_threads`` and ``read_processors``: the maps with the thread records and
   processors are mapped into this process, and are read as of one moment, the snapshot. The reader adds the open span:
   the time from the last event until the snapshot, in the state that goes on. A thread that has ended is not there any
   more: its last switch (``close_thread_record``) sent its totals through a ring buffer to ``Exits``.
8. `ebpf.snapshots`, ``SnapshotReader.read``: all that a snapshot has, in one object.
9. `ebpf.totals` or `ebpf.intervals`: a `headway.model.Ledger` of everything, or of the time since the last snapshot.
10. ``session/measure.py`` gives the ledger to the command. ``commands/stat.py``, ``_Report._show_table``, hands it to
    ``views/table.py``, ``print_table``, which makes a row of each of its threads.

**The parts of the eBPF source**, in the order in which they come to be. Each is complete when its constructor returns.

============================== =======================================================================================
`ebpf.source`                  `BpfSource`, which implements the protocol
`ebpf.measurement`             puts the parts together, and owns what must be released
`ebpf.prepared`                likewise, until measuring begins: loaded, attached, calibrated; what is not needed for
                               loading is imported while the kernel verifies the programs
`ebpf.options`, `ebpf.targets` what the caller asks for, and what that means on this machine
`ebpf.mode_counters`           counters of cycles by mode, which divide time where no handler does (`ebpf.division`)
`ebpf.programs`                loading: programs and maps in the kernel, and their memory
                               (``bpf/programs/relocated.py``)
`ebpf.ended`                   threads that have ended
``bpf/programs/attaching.py``  attaching: to tracepoints, and to the page faults of each processor
`ebpf.calibrating`             the cost of events, found on a process of ours (``bpf/costs/calibration.py`` and
                               ``exercising.py``), or kept since the machine booted (``bpf/costs/kept_costs.py``)
`ebpf.regions`                 marked regions of processes that had some before
`ebpf.transitions`             every transition, for recordings
`ebpf.snapshots`               snapshots: readings of the maps
`ebpf.losses`                  the counts of what could not be seen
`ebpf.totals`                  a snapshot as a ledger
`ebpf.intervals`               the difference between two snapshots as a ledger
`ebpf.causes`                  the causes of states, in the threads of a ledger
`ebpf.ledgers`                 what all ledgers of a measurement have in common
============================== =======================================================================================

**The parts of the level clocks**: `clocks.source` implements the protocol, `clocks.measurement` has the programs
(``bpf/clocks/``) look at the threads, `clocks.rows` makes a row of a thread's account, and `clocks.ledgers` says what
is known of the figures. `looking` has what this and the /proc source have in common; both have the arithmetic from
``procfs/_procfs.pyx`` (``ThreadAccount``), and when to look from `proc.pace`.

**The parts of a budget at any level**: `budgeted.source` implements the protocol, `budgeted.measurement` changes
between `ebpf.measurement` and `clocks.measurement`, `budgeted.clock_control` tells the policy (`ebpf.budget`) what the
latter costs, and `budgeted.stitching` makes one ledger of the ledgers of all parts.

**The parts of the /proc source**: `proc.source` implements the protocol, and `proc.measurement` puts together the open
tree (`proc.directory`), the steps of its times (`proc.clocks`), the threads to look at (`proc.discovery`), when to look
(`proc.pace`), what a sleeping thread waits for (`proc.waits`) and what is said of the figures (`proc.ledgers`).

**The parts of the profiler**: `profiler.source` implements the protocol, `profiler.measurement` runs a sampler beside a
source, `profiler.samples` takes the samples, `profiler.spaces` knows what each process has mapped, and
`profiler.assembling` makes the profile.
"""
