"""The reference machine: a multi-threaded RISC-V processor, simulated to the cycle, with a progress unit in hardware.

docs/machine.md specifies how the machine behaves. This package holds the simulator and what surrounds it: the
configuration, program images, the host that programs call, and the ledger of a run. `Machine` runs
programs, and `Cache` is a part of its configuration.

**How one cycle goes through the machine.** The processor is one extension. ``_processor.pyx`` has its main loop and the
class that Python drives it by; each unit is a ``.pxd`` file of inline functions, so that the C compiler sees all of a
cycle at once. A *tick* is one of the machine's clock, a *cycle* one of a core's clock.

1. ``_processor.pyx``, ``simulate``: the next thing to happen is the turn of a core, an event of a device, or the bus,
   whichever comes first. Time goes on to its tick at once. A hart that waits costs nothing.
2. ``devices.pxd``, ``handle_events``: timers, the UART, the block device and the interrupt lines do what is due.
   ``memory.pxd``, ``grant``: the bus serves the next request, and the harts that wait for it learn when it arrives.
3. ``burst.pxd``, ``burst`` and ``burst_together``: turns of the common kinds follow each other here, as long as nothing
   else can happen. Steps 4 to 10 are what such a turn does too, in fewer instructions of the host.
4. ``attempt.pxd``, ``attempt``: a turn of any kind, for the hart that ``turns.pxd`` has chosen. ``attend`` handles what
   comes first: the hart wakes, it takes an interrupt (``traps.pxd``), or it is traced.
5. ``attempt.pxd``, ``charge_gap``: the cycles since the hart's last turn go to the reason for which it did not issue.
6. ``fetch.pxd``, ``fetch``: the line of the instruction must be in the instruction cache (``memory.pxd``,
   ``can_fetch``). ``code.pxd`` has it decoded. If the line is missing, the hart is blocked, and the turn is over.
7. ``attempt.pxd``, ``needs``: so it is if a register is not usable yet, because its result is late.
8. ``execute.pxd``, ``execute``: the instruction does its work. ``compute.pxd`` has those that change only a register,
   ``accesses.pxd`` loads, stores and atomics, for which ``memory.pxd``, ``can_access``, says whether they have to wait,
   and ``csrs.pxd`` the registers of ``csr_table.pxd``. What cannot be done traps (``traps.pxd``, ``fault``).
9. ``attempt.pxd``, ``retire``: the program counter moves on, the trace unit sees the instruction (``trace.pxd``,
   ``watch_retired``), and ``finish`` sets when the hart can issue again.
10. ``turns.pxd``, ``next_turn``: the issue policy chooses the core's next hart, and the cycle and tick of its turn.

No step counts progress. ``progress_unit.pxd``, ``settle``, adds the cycles since the last change of the hart's state to
its counters, and to the cells of its thread and processor (``cells.pxd``), when the state changes or someone reads.

**The units**, each of which uses only those before it:

========================= ==============================================================================================
``architecture.pxd``      numbers of the architecture: addresses, causes, counters, states, modes
``structures.pxd``        what the machine consists of: harts, cores, caches, and so on
``signals.pxd``           what is told of every cycle, for the co-simulation
``clocks.pxd``            from ticks to the cycles of a core, and back
``compute.pxd``           instructions that change only a register and the program counter
``port.pxd``              the port of a trace unit: the FIFO before it, and what has left it
``etrace.pxd``            the encoder of E-Trace
``trace.pxd``             the trace unit: from what harts do to packets; the log; the counters of a profile
``code.pxd``              decoded code, page by page
``memory.pxd``            micro-TLB, caches and bus: what an access to RAM costs
``transitions.pxd``       the rows of a recording
``division.pxd``          the parts of caches and bus that a hart may use
``cells.pxd``             what each thread and processor did in each state
``polling.pxd``           the poll latches, and when a thread has given up polling
``progress_unit.pxd``     the progress unit's counters, and the state of a hart
``threads.pxd``           software threads
``turns.pxd``             the issue policy
``burst.pxd``             turns of the common kinds
``power.pxd``             halting, waking, and interrupts that stop all clocks
``protection.pxd``        physical memory protection
``external.pxd``          events from outside that trigger blocks look for
``devices.pxd``           CLINT, PLIC, UART and block device
``debug.pxd``             what a debugger asks of harts
``events.pxd``            trigger blocks, the sequencer and the registers of the trace unit
``traps.pxd``             entering and leaving traps
``csr_table.pxd``         control and status registers as data
``csrs.pxd``              what reads and writes of them do
``fetch.pxd``             fetching
``accesses.pxd``          loads, stores and atomic operations
``profile_buffer.pxd``    the profile buffer
``execute.pxd``           executing an instruction
``attempt.pxd``           a turn of any kind
``copying.pxd``           copying a machine, and freeing it
========================= ==============================================================================================
"""

from typing import TYPE_CHECKING

from headway.lazy import lazily

if TYPE_CHECKING:
    from .config import Cache
    from .machine import Machine
else:
    __getattr__ = lazily(__name__, {".config": "Cache", ".machine": "Machine"})

__all__ = ["Cache", "Machine"]
