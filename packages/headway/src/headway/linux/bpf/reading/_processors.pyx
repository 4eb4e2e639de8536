# cython: language_level=3, boundscheck=False, wraparound=False, embedsignature=True
"""What each processor counted beside the time in each state: events, losses, words on its rings."""

from bpf_layout cimport (
    N_EVENTS, N_LOSSES, N_STATES, N_TIMED, OVERHEAD, POLL, processor, processor_counts,
)
from libc.stdint cimport uint64_t

from headway.linux.bpf.threads._cells cimport is_of_processor
from headway.linux.bpf.reading._mapped cimport MappedMemory, row_of
from headway.linux.bpf.reading._waiting cimport headway_fence

from headway.linux.bpf.threads.rows import WrittenWords


cdef class Processors(MappedMemory):
    """What the processors counted beside the time in each state."""

    def timed_runs(self):
        """Return the time in runs of handlers that were timed, ns, and the number of these runs, by `layout.TIMED`."""
        cdef int cpu, which
        cdef list found = []
        for which in range(N_TIMED):
            time = runs = 0
            for cpu in range(self.n_cpus):
                time += self.processors[cpu].timed[which].time
                runs += self.processors[cpu].timed[which].runs
            found.append((time, runs))
        return found

    def passed(self):
        """Return how many beginnings and ends of calls, and how many switches there were of threads not measured."""
        cdef int cpu
        calls = switches = 0
        for cpu in range(self.n_cpus):
            calls += self.processors[cpu].passed_calls
            switches += self.processors[cpu].passed_switches
        return calls, switches

    @property
    def undated(self):
        """The time of spans of user code in which a thread context changed at a moment that is not known, ns."""
        cdef int cpu
        cdef uint64_t time = 0
        for cpu in range(self.n_cpus):
            time += self.processors[cpu].undated
        return time

    def activity(self):
        """Return how many events of each kind (`layout.EVENTS`) there were, and the processor time of what is measured, ns."""
        cdef int cpu, i
        cdef uint64_t busy = 0
        cdef processor *p
        cdef list occurred = [0] * N_EVENTS
        for cpu in range(self.n_cpus):
            p = &self.processors[cpu]
            for i in range(N_EVENTS):
                occurred[i] += p.occurred[i]
            for i in range(N_STATES):
                if i >= POLL or i == OVERHEAD or is_of_processor(i):
                    busy += p.cells[i].time
        return occurred, busy

    def losses(self):
        """Return what the processors lost (in the order of layout.h) and how many events there were, as of the snapshot."""
        cdef int cpu, i
        cdef processor *p
        cdef list lost = [0] * N_LOSSES
        events = 0
        for cpu in range(self.n_cpus):
            p = &self.processors[cpu]
            if self.is_saved(&self.saved_processors[cpu].snapshot):
                p = &self.saved_processors[cpu]
            events += p.events
            for i in range(N_LOSSES):
                lost[i] += p.losses[i]
        return lost, events

    def counted(self):
        """Return for how long each event was enabled and counted on all processors, ns. Later readings are scaled by this."""
        cdef processor_counts *counts
        cdef int cpu, k
        if self.counting is None:
            return []
        times = [[0, 0] for _ in range(self.counting.n)]
        for cpu in range(self.n_cpus):
            counts = &self.processor_counts[cpu]
            for k in range(self.counting.n):
                times[k][0] += counts.enabled[k]
                times[k][1] += counts.running[k]
        self.counting.scales = [enabled / running if running else 1.0 for enabled, running in times]
        return times

    @property
    def tells_modes(self):
        """Whether the cycles of user and kernel mode were counted all the time, as of the last call of `counted`."""
        return self.counting is not None and self.counting.tells_modes()

    def written(self):
        """Return how many words each processor has written to its two rings: a list of `rows.WrittenWords`."""
        cdef int cpu
        cdef processor *p
        cdef list found = []
        for cpu in range(self.n_cpus):
            p = &self.processors[cpu]
            found.append(row_of(WrittenWords, (p.written, p.written_absences)))
        headway_fence()
        return found

    @property
    def unwritten(self):
        """Number of transitions that did not fit the rings so far."""
        cdef int cpu
        cdef uint64_t lost = 0
        for cpu in range(self.n_cpus):
            lost += self.processors[cpu].lost_spans + self.processors[cpu].lost_absences
        return lost
