/* A signal handler sets a task of its own, and the one before again, at any point of the changes of the main program. */
#include "marking.h"
static volatile long handled;
static void handler(int number) {
    uint64_t before = headway_current_task();
    headway_task(77);
    handled++;
    headway_task(before);
    (void)number;
}
int main(void) {
    struct itimerval often = {{0, 50}, {0, 50}};
    int wrong = 0;
    headway_task(0);
    signal(SIGALRM, handler);
    setitimer(ITIMER_REAL, &often, 0);
    for (long end = now() + 500000000; now() < end;)
        for (uint64_t task = 1; task < 5; task++) {
            headway_task(task);
            wrong += headway_current_task() != task;
        }
    printf("%ld %d\n", (long)handled, wrong);
    return wrong != 0;
}
