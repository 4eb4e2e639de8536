/* Works on more tasks than there is room for, some time on each; prints the time on all of them. */
#include "marking.h"
int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 3000;
    long all = 0;
    headway_task(0);
    for (int i = 1; i <= n; i++) {
        headway_task((uint64_t)i);
        all += work(10000);
    }
    headway_task(0);
    printf("%d %ld\n", n, all);
    return 0;
}
