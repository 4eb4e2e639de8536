/* Changes its task every microsecond or so without a system call of its own; prints how often, and how long on each. */
#include "marking.h"
int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 20000;
    long time[4] = {0};
    headway_task(0);
    for (int i = 0; i < rounds; i++)
        for (uint64_t task = 1; task < 4; task++) {
            headway_task(task);
            time[task] += work(300 * (long)task);
        }
    headway_task(0);
    printf("%d %ld %ld %ld\n", rounds, time[1], time[2], time[3]);
    return 0;
}
