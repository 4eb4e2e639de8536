/* The kernel's thread for submissions looks for them in vain for 20 ms of its processor time; then
 * so many come, one after the other. Writes its id, and how long it looked in vain, ns. */
#include <linux/io_uring.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static void nap(long ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000}; nanosleep(&t, 0); }
/* The processor time of a thread of this process, ns. */
static long long used(int tid) {
    char path[64];
    long long time = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", tid);
    FILE *from = fopen(path, "r");
    if (!from || fscanf(from, "%lld", &time) != 1) exit(1);
    fclose(from);
    return time;
}
static int thread_of(int ring) {
    char path[64], line[256];
    int tid = -1;
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", ring);
    FILE *from = fopen(path, "r");
    while (from && fgets(line, sizeof line, from)) sscanf(line, "SqThread: %d", &tid);
    if (from) fclose(from);
    return tid;
}
int main(int argc, char **argv) {
    struct io_uring_params p;
    memset(&p, 0, sizeof p);
    p.flags = IORING_SETUP_SQPOLL;
    p.sq_thread_idle = 100000; /* ms: it never sleeps meanwhile */
    int ring = syscall(SYS_io_uring_setup, 8, &p), tid = ring < 0 ? -1 : thread_of(ring);
    if (tid <= 0) return 77;
    while (tid == getpid() || tid < 0) { /* what it shows until the thread runs, or while the ring is in use */
        nap(1);
        tid = thread_of(ring);
    }
    char *sq = mmap(0, p.sq_off.array + p.sq_entries * 4, 3, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQ_RING);
    char *cq = mmap(0, p.cq_off.cqes + p.cq_entries * 16, 3, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
    struct io_uring_sqe *e = mmap(0, p.sq_entries * sizeof *e, 3, MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
    unsigned *tail = (void *)(sq + p.sq_off.tail), *array = (void *)(sq + p.sq_off.array);
    unsigned *done = (void *)(cq + p.cq_off.tail);
    unsigned *flags = (void *)(sq + p.sq_off.flags);
    long long before = 0, in_vain = 0;
    unsigned n = argc > 1 ? atoi(argv[1]) : 1;
    for (unsigned i = 0; i < n; i++) {
        memset(&e[i % 8], 0, sizeof *e);
        e[i % 8].opcode = IORING_OP_NOP;
        array[i % 8] = i % 8;
        __atomic_store_n(tail, i + 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(done, __ATOMIC_ACQUIRE) != i + 1) {
            if (__atomic_load_n(flags, __ATOMIC_SEQ_CST) & IORING_SQ_NEED_WAKEUP)
                syscall(SYS_io_uring_enter, ring, 0, 0, IORING_ENTER_SQ_WAKEUP, 0, 0);
            nap(1);
        }
        __atomic_store_n((unsigned *)(cq + p.cq_off.head), i + 1, __ATOMIC_RELEASE);
        if (i) continue;
        before = used(tid); /* it looks for more from now on */
        while (used(tid) < before + 20000000) nap(1);
        in_vain = used(tid) - before;
    }
    printf("%d %lld\n", tid, in_vain);
    return 0;
}
