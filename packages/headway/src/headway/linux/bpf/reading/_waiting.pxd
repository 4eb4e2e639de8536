# The clock of the programs, and how a reader waits for their handlers.
from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #include <sched.h>
    #include <stdint.h>
    #include <time.h>
    static inline uint64_t headway_clock(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    }
    static inline void headway_fence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
    static inline void headway_pause(int attempt) {
        struct timespec t = {0, attempt < 400 ? 50000 : 1000000}; /* for so long only where a hypervisor has the processor */
        if (attempt < 20) sched_yield();
        else nanosleep(&t, NULL);
    }
    static inline void headway_visit(int cpu) { /* being dispatched there is an event */
        cpu_set_t before, there;
        if (cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof before, &before)) return;
        CPU_ZERO(&there);
        CPU_SET(cpu, &there);
        if (!sched_setaffinity(0, sizeof there, &there)) sched_setaffinity(0, sizeof before, &before);
    }
    """
    uint64_t headway_clock() nogil
    void headway_fence() nogil
    void headway_pause(int attempt) nogil
    void headway_visit(int cpu) nogil

cdef enum:
    MAX_ATTEMPTS = 2000

cdef inline void pause(int attempt) noexcept:
    with nogil:
        headway_pause(attempt)

cdef inline void wait_for(int cpu, int attempt) noexcept:
    """Wait a little for a processor's next handler, mostly the timer's. If the timer does not tick, provoke an event."""
    with nogil:
        if attempt % 200 == 199:
            headway_visit(cpu)
        headway_pause(attempt)
