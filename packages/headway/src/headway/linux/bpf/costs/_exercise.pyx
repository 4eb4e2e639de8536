# cython: language_level=3, embedsignature=True
"""The exercises of calibration: our process repeats calls, checks, faults or hand-overs, to show what observing costs."""

from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #include <fcntl.h>
    #include <pthread.h>
    #include <sched.h>
    #include <signal.h>
    #include <stdint.h>
    #include <sys/epoll.h>
    #include <sys/mman.h>
    #include <sys/resource.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>
    #include "headway.h"

    /* The processor time of both threads, so that nothing counts that has the processor meanwhile. */
    static uint64_t exercise_time_of(clockid_t clock) {
        struct timespec t;
        clock_gettime(clock, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    }
    static uint64_t exercise_clock(void) { return exercise_time_of(CLOCK_PROCESS_CPUTIME_ID); }

    /* How often these threads have left the processor. Which of them gives way to the other, and which is made to, is the
     * scheduler's choice. */
    static long exercise_switches(void) {
        struct rusage used;
        return getrusage(RUSAGE_SELF, &used) ? 0 : used.ru_nvcsw + used.ru_nivcsw;
    }

    static uint64_t exercise_calls(int n) {
        uint64_t start = exercise_clock();
        while (n--) syscall(SYS_getppid);
        return exercise_clock() - start;
    }

    /* The same with the interrupts that come meanwhile, which some kernels leave out of processor time. */
    static uint64_t exercise_interrupted_calls(int n) {
        uint64_t start = exercise_time_of(CLOCK_MONOTONIC);
        while (n--) syscall(SYS_getppid);
        return exercise_time_of(CLOCK_MONOTONIC) - start;
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

    static int exercise_there[2], exercise_back[2], exercise_zero, exercise_nothing, exercise_empty[2];

    /* A call that could be a status check, and is none. */
    static uint64_t exercise_reads(int n) {
        char byte;
        uint64_t start = exercise_clock();
        while (n--)
            if (read(exercise_zero, &byte, 1) != 1) return 0;
        return exercise_clock() - start;
    }

    /* A status check that finds nothing. */
    static uint64_t exercise_polls(int n) {
        struct epoll_event event;
        uint64_t start = exercise_clock();
        while (n--)
            if (epoll_wait(exercise_nothing, &event, 1, 0)) return 0;
        return exercise_clock() - start;
    }

    /* A status check that finds nothing, and is one because of its file. */
    static uint64_t exercise_looks(int n) {
        char byte;
        uint64_t start = exercise_clock();
        while (n--)
            if (read(exercise_empty[0], &byte, 1) != -1) return 0;
        return exercise_clock() - start;
    }

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
        exercise_zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        exercise_nothing = epoll_create1(EPOLL_CLOEXEC);
        if (exercise_zero < 0 || exercise_nothing < 0 || pipe2(exercise_empty, O_NONBLOCK | O_CLOEXEC)) return -1;
        CPU_ZERO(&here);
        CPU_SET(cpu, &here);
        if (sched_setaffinity(0, sizeof here, &here) || pipe(exercise_there) || pipe(exercise_back)) return -1;
        return pthread_create(&partner, NULL, exercise_partner, NULL);
    }

    /* Functions that do nothing, by how the kernel carries out their first instruction when a probe stands on it. */
    void exercise_emulated(void);
    void exercise_endbr(void);
    void exercise_other(void);
    #if defined(__x86_64__)
    __asm__(".text; exercise_emulated: push %rbp; pop %rbp; ret;"
            "exercise_endbr: .byte 0xf3, 0x0f, 0x1e, 0xfa; ret;"
            "exercise_other: test %eax, %eax; ret;");
    #elif defined(__aarch64__)
    __asm__(".text; exercise_emulated: nop; ret; exercise_endbr: nop; ret; exercise_other: mov x9, x9; ret");
    #endif
    static void (*const exercise_table[])(void) = {exercise_emulated, exercise_endbr, exercise_other};

    static unsigned long exercise_address(int which) { return (unsigned long)exercise_table[which]; }

    /* The return instruction of the first. */
    #if defined(__x86_64__)
    enum { EXERCISE_RETURN = 2 };
    #else
    enum { EXERCISE_RETURN = 4 };
    #endif
    static unsigned long exercise_return_address(void) { return exercise_address(0) + EXERCISE_RETURN; }

    static void exercise_functions(int which, int n) {
        void (*volatile function)(void) = exercise_table[which];
        while (n--) function();
    }

    /* The time in n regions that have nothing in them; *all: with what is around them. 0: this thread has no block. */
    static uint64_t exercise_marks(int n, uint64_t *all) {
        headway_tag_t tag = headway_tag("exercise");
        struct headway_block *self;
        uint64_t before, start;
        headway_depth();
        self = headway_block_();
        *all = 0;
        if (!self) return 0;
        before = self->tags[tag].word / 2;
        start = headway_now_();
        while (n--) {
            headway_set_noneffective(tag);
            headway_clear_noneffective();
        }
        *all = headway_now_() - start;
        return self->tags[tag].word / 2 - before;
    }

    static void exercise_handler(int signal) { (void)signal; }

    /* Unmap a file that nobody else has open, which the kernel closes after the call, and send itself a signal. */
    static int exercise_ways_back(int n) {
        struct sigaction handled = {.sa_handler = exercise_handler}, before;
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        if (sigaction(SIGURG, &handled, &before)) return -1;
        while (n--) {
            int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
            char *memory = mmap(NULL, page, PROT_READ, MAP_PRIVATE, fd, 0);
            if (fd >= 0) close(fd);
            if (memory != MAP_FAILED) munmap(memory, page);
            syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), SIGURG);
        }
        return sigaction(SIGURG, &before, NULL);
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
    unsigned long exercise_address(int which) nogil
    unsigned long exercise_return_address() nogil
    void exercise_functions(int which, int n) nogil
    long exercise_switches() nogil
    unsigned long exercise_calls(int n) nogil
    unsigned long exercise_interrupted_calls(int n) nogil
    unsigned long exercise_reads(int n) nogil
    unsigned long exercise_polls(int n) nogil
    unsigned long exercise_looks(int n) nogil
    unsigned long exercise_faults(int n) nogil
    int exercise_ways_back(int n) nogil
    unsigned long exercise_handovers(int n) nogil
    unsigned long exercise_marks(int n, uint64_t *all) nogil


def prepare():
    """Start the partner thread, on this processor. Raises OSError if that fails."""
    if exercise_prepare():
        raise OSError("no partner thread")


def switches():
    """Return how often the threads of this process have left the processor."""
    return exercise_switches()


def calls(int n):
    """Make n getppid calls. Returns the processor time taken, ns; so do the others, if they do not say more."""
    return exercise_calls(n)


def interrupted_calls(int n):
    """Make n getppid calls. Returns the time that went by, ns, with that of interrupts."""
    return exercise_interrupted_calls(n)


def reads(int n):
    """Read a byte of /dev/zero n times. Returns the time taken, ns."""
    return exercise_reads(n)


def polls(int n):
    """Ask n times, without waiting, for the events of an epoll instance that has none. Returns the time, ns."""
    return exercise_polls(n)


def looks(int n):
    """Read n times from an empty pipe that does not block. Returns the time taken, ns."""
    return exercise_looks(n)


def ways_back(int n):
    """Unmap n files, and send n signals that are handled. Raises OSError if that fails."""
    if exercise_ways_back(n):
        raise OSError("no signal handler")


def faults(int n):
    """Touch n pages for the first time. Returns the time taken, ns."""
    return exercise_faults(n)


def handovers(int n):
    """Hand over to the partner and back, n times: two switches, two wake-ups and four calls each. Returns ns."""
    return exercise_handovers(n)


def marks(int n):
    """Mark n regions that have nothing in them. Returns the time in them, and that with what is around them, ns."""
    cdef uint64_t all_ = 0
    cdef unsigned long inside = exercise_marks(n, &all_)
    return inside, all_


def address(int which):
    """Return the address of the function that begins with: 0 an emulated instruction, 1 endbr64, 2 any other one."""
    return exercise_address(which)


def return_address():
    """Return the address of the return instruction of the function that begins with an emulated instruction."""
    return exercise_return_address()


def functions(int which, int n):
    """Call the function of this kind n times."""
    exercise_functions(which, n)
