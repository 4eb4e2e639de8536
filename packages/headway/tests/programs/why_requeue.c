/* A thread waits at `first`, is moved to `second`, and woken there; then it waits for any of both, and is woken at `second`.
 * Then two threads wait at `first`, and are moved one after the other. Writes the least time that it waited at each, ns: in the first wait at `first`, then at `second`, and in the second wait. */
#include "causes.h"
#include <stdint.h>
#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
struct waitv { uint64_t value, address; uint32_t flags, spare; };
uint32_t first, second;
static volatile pid_t waiting;
static volatile int woken;
static long futex(uint32_t *at, int operation, long value, long moved, uint32_t *to) {
    return syscall(SYS_futex, at, operation | FUTEX_PRIVATE_FLAG, value, moved, to, 0);
}
static long long ns(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000LL + t.tv_nsec; }
static void *wait(void *none) {
    name("waiter");
    waiting = syscall(SYS_gettid);
    futex(&first, FUTEX_WAIT, 0, 0, 0);
    woken = 1;
    struct waitv list[2] = {{0, (uintptr_t)&first, 2 | 128, 0}, {0, (uintptr_t)&second, 2 | 128, 0}}; /* FUTEX_32 */
    if (syscall(SYS_futex_waitv, list, 2, 0, 0, 0) == 1) woken = 2;
    return 0;
}
static void *follow(void *tid) {
    name("follower");
    *(volatile pid_t *)tid = syscall(SYS_gettid);
    futex(&first, FUTEX_WAIT, 0, 0, 0);
    return 0;
}
static long long part(void) { long long at = ns(); nap(40); return ns() - at; }
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, wait, 0);
    while (!waiting) nap(1);
    until_asleep(waiting);
    long long at_first = part();
    while (futex(&first, FUTEX_REQUEUE, 0, 1, &second) != 1) nap(1);
    long long at_second = part();
    while (futex(&second, FUTEX_WAKE, 1, 0, 0) != 1) nap(1);
    while (!woken) nap(1);
    until_asleep(waiting);
    long long at_both = part();
    while (futex(&second, FUTEX_WAKE, 1, 0, 0) != 1) nap(1);
    pthread_join(thread, 0);
    pthread_t followers[2];
    volatile pid_t tids[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        pthread_create(&followers[i], 0, follow, (void *)&tids[i]);
        while (!tids[i]) nap(1);
        until_asleep(tids[i]);
    }
    for (int i = 0; i < 2; i++)
        while (futex(&first, FUTEX_REQUEUE, 0, 1, &second) != 1) nap(1);
    for (int left = 2; left;) left -= futex(&second, FUTEX_WAKE, left, 0, 0);
    for (int i = 0; i < 2; i++) pthread_join(followers[i], 0);
    printf("%lld %lld %lld\n", at_first, at_second, woken == 2 ? at_both : 0);
    fflush(stdout);
    nap_until_seen(300);
}
