#include <headway.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static uint64_t now(int clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
static uint64_t parse, ring;
static void spin(uint64_t ns) { uint64_t end = now(CLOCK_MONOTONIC) + ns; while (now(CLOCK_MONOTONIC) < end) {} }
int main(int n, char **arguments) {
    char go;
    uint64_t start, used, total = 0;
    (void)n; (void)arguments;
    HEADWAY_NONEFFECTIVE("parse") {}
    HEADWAY_POLL("ring") {}
    if (write(1, "!\n", 2) != 2 || read(0, &go, 1) != 1) return 1;
    used = now(CLOCK_PROCESS_CPUTIME_ID);
    while (total < 600000000) {
        uint64_t begun = now(CLOCK_MONOTONIC);
        spin(6000000);
        start = now(CLOCK_MONOTONIC);
        HEADWAY_NONEFFECTIVE("parse") { spin(3000000); }
        parse += now(CLOCK_MONOTONIC) - start;
        start = now(CLOCK_MONOTONIC);
        HEADWAY_POLL("ring") { spin(1000000); }
        ring += now(CLOCK_MONOTONIC) - start;
        if (WAITS) { HEADWAY_NONEFFECTIVE("asleep") { usleep(4000); } }
        total += now(CLOCK_MONOTONIC) - begun;
    }
    used = now(CLOCK_PROCESS_CPUTIME_ID) - used;
    printf("%llu %llu %llu\n", (unsigned long long)parse, (unsigned long long)ring, (unsigned long long)used);
    fflush(stdout);
    return read(0, &go, 1) != 1;
}
