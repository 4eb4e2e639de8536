# cython: language_level=3, embedsignature=True
"""What a process of ours does, over and over, so that the cost of observing it shows: calls, faults, hand-overs."""

cdef extern from *:
    """
    #include <pthread.h>
    #include <sched.h>
    #include <stdint.h>
    #include <sys/mman.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>

    static uint64_t exercise_clock(void) {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    }

    static uint64_t exercise_calls(int n) {
        uint64_t start = exercise_clock();
        while (n--) syscall(SYS_getppid);
        return exercise_clock() - start;
    }

    static uint64_t exercise_faults(int n) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (size_t)n * page;
        char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        uint64_t start, taken;
        if (memory == MAP_FAILED) return 0;
        madvise(memory, size, MADV_NOHUGEPAGE);
        start = exercise_clock();
        for (size_t i = 0; i < size; i += page) *(volatile char *)(memory + i) = 1;
        taken = exercise_clock() - start;
        munmap(memory, size);
        return taken;
    }

    static int exercise_there[2], exercise_back[2];

    static void *exercise_partner(void *nothing) {
        char byte;
        while (read(exercise_there[0], &byte, 1) == 1 && write(exercise_back[1], &byte, 1) == 1) ;
        return nothing;
    }

    /* A partner thread on the same processor, to hand over to. */
    static int exercise_prepare(void) {
        pthread_t partner;
        cpu_set_t here;
        int cpu = sched_getcpu();
        if (cpu < 0 || cpu >= CPU_SETSIZE) return -1;
        CPU_ZERO(&here);
        CPU_SET(cpu, &here);
        if (sched_setaffinity(0, sizeof here, &here) || pipe(exercise_there) || pipe(exercise_back)) return -1;
        return pthread_create(&partner, NULL, exercise_partner, NULL);
    }

    static uint64_t exercise_handovers(int n) {
        char byte = 0;
        uint64_t start = exercise_clock();
        while (n--)
            if (write(exercise_there[1], &byte, 1) != 1 || read(exercise_back[0], &byte, 1) != 1) return 0;
        return exercise_clock() - start;
    }
    """
    int exercise_prepare() nogil
    unsigned long exercise_calls(int n) nogil
    unsigned long exercise_faults(int n) nogil
    unsigned long exercise_handovers(int n) nogil


def prepare():
    """Start the partner thread, on this processor. Raises OSError where that cannot be."""
    if exercise_prepare():
        raise OSError("no partner thread")


def calls(int n):
    """Make n getppid calls; the time taken, ns."""
    return exercise_calls(n)


def faults(int n):
    """Touch n pages for the first time; the time taken, ns."""
    return exercise_faults(n)


def handovers(int n):
    """Hand over to the partner and back, n times: two switches, two wake-ups and four calls each; the time taken, ns."""
    return exercise_handovers(n)
