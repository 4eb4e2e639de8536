/* Threads wait for locks of the kernel. `file PATH`: a writer has the file's lock until the page that it writes from is there
 * (userfaultfd(2)); another waits for the lock. Writes the least time that it did, ns.
 * `position PATH`: likewise, of the position in the file. `memory`: threads change one address
 * space; one goes on until it has waited for the lock of that five times. */
#include "causes.h"
#include <fcntl.h>
#include <stdint.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
static int file;
static char *page;
static int moves; /* the position */
static volatile pid_t tids[2];
static volatile int done;
static long long ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
/* Until a thread waits in a call. */
static void until_in(pid_t tid, long call) {
    char path[64], line[512];
    for (;; nap(1)) {
        long number = -1;
        snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid);
        FILE *from = fopen(path, "r");
        if (from && fgets(line, sizeof line, from)) sscanf(line, "%ld", &number);
        if (from) fclose(from);
        if (number == call) return; /* of a thread that runs, the kernel does not tell it */
    }
}
static void *hold(void *none) {
    name("holder");
    tids[0] = syscall(SYS_gettid);
    return (void *)(intptr_t)((moves ? write(file, page, 4096) : pwrite(file, page, 4096, 0)) != 4096);
}
static void *want(void *none) {
    name("waiter");
    tids[1] = syscall(SYS_gettid);
    return (void *)(intptr_t)((moves ? write(file, "x", 1) : pwrite(file, "x", 1, 0)) != 1);
}
static int wait_for_file(const char *path) {
    struct uffdio_api api = {.api = UFFD_API};
    int faults = syscall(SYS_userfaultfd, O_CLOEXEC);
    if (faults < 0 || ioctl(faults, UFFDIO_API, &api)) return 77;
    page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register there = {{(uintptr_t)page, 4096}, UFFDIO_REGISTER_MODE_MISSING, 0};
    if (ioctl(faults, UFFDIO_REGISTER, &there)) return 77;
    file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    pthread_t holder, waiter;
    pthread_create(&holder, 0, hold, 0);
    while (!tids[0]) nap(1);
    until_in(tids[0], moves ? SYS_write : SYS_pwrite64);
    struct uffd_msg message;
    if (read(faults, &message, sizeof message) != sizeof message) return 1; /* it has the lock, and wants its page */
    pthread_create(&waiter, 0, want, 0);
    while (!tids[1]) nap(1);
    until_in(tids[1], moves ? SYS_write : SYS_pwrite64);
    long long at = ns();
    nap(40);
    printf("%lld\n", ns() - at);
    struct uffdio_zeropage zero = {{(uintptr_t)page, 4096}, 0, 0};
    ioctl(faults, UFFDIO_ZEROPAGE, &zero);
    pthread_join(holder, 0);
    pthread_join(waiter, 0);
    return 0;
}
static void *fill(void *none) {
    enum { SIZE = 64 << 20 };
    name("holder");
    while (!done) munmap(mmap(0, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0), SIZE);
    return 0;
}
static void *change(void *none) {
    struct rusage use = {0};
    name("waiter");
    getrusage(RUSAGE_THREAD, &use);
    for (long before = use.ru_nvcsw; use.ru_nvcsw < before + 5; getrusage(RUSAGE_THREAD, &use))
        munmap(mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096);
    done = 1;
    return 0;
}
static int wait_for_memory(void) {
    pthread_t holder, waiter;
    pthread_create(&holder, 0, fill, 0);
    pthread_create(&waiter, 0, change, 0);
    pthread_join(holder, 0);
    pthread_join(waiter, 0);
    return 0;
}
int main(int argc, char **argv) {
    moves = argc > 2 && !strcmp(argv[1], "position");
    int status = argc > 2 ? wait_for_file(argv[2]) : wait_for_memory();
    fflush(stdout);
    if (!status) nap_until_seen(300);
    return status;
}
