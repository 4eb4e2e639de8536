#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
int main(int argc, char **argv) { /* computes so many ms; says for how long, in ns */
    long start = now(), t;
    volatile double x = 1;
    do {
        for (int i = 0; i < 100000; i++) x *= 1.0000001;
        t = now();
    } while (t < start + atol(argv[argc - 1]) * 1000000L);
    printf("%ld\n", t - start);
    return 0;
}
