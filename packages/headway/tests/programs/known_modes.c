/*
 * Runs 2 instructions of its own argv[1] times in each of argv[2] rounds, with argv[3] system calls after each round, and
 * leaves its processor after each round if argv[4] is 1. For arm64.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    unsigned long n = strtoul(argv[1], 0, 10), rounds = strtoul(argv[2], 0, 10), calls = strtoul(argv[3], 0, 10);
    int nap = argc > 4 && *argv[4] == '1';
    struct timespec a_little = {0, 1000};
    for (unsigned long i = 0; i < rounds; i++) {
        unsigned long left = n;
        __asm__ volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r"(left) : : "cc");
        for (unsigned long call = 0; call < calls; call++)
            getppid();
        if (nap)
            nanosleep(&a_little, 0);
    }
    return 0;
}
