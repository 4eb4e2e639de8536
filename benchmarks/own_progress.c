/* The cost of reading one's own progress, beside a reading of the clock: prints lines "name ns", medians of many batches, and
   how many states were read. */
#include <headway.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TIMES 1000
#define BATCHES 1001
#define MEASURE(name, body)                                                                      \
    do {                                                                                         \
        for (int batch = 0; batch < BATCHES; batch++) {                                          \
            uint64_t start = headway_now_();                                                     \
            for (int i = 0; i < TIMES; i++) { body; }                                            \
            batches[batch] = headway_now_() - start;                                             \
        }                                                                                        \
        qsort(batches, BATCHES, sizeof *batches, compare);                                       \
        printf("%s\t%.2f\n", name, (double)batches[BATCHES / 2] / TIMES);                        \
    } while (0)

static uint64_t batches[BATCHES];

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int n, char **words) {
    int wanted = n > 1 && words[1][0] == '1';
    headway_progress_t mine;
    static headway_states_t states, before, grown;
    static headway_thread_t other;
    volatile uint64_t sink = 0;
    for (uint64_t end = headway_now_() + 50000000; headway_now_() < end;) {} /* let the processor reach its speed */
    for (int i = 0; i < 500 && headway_progress(&mine) != wanted; i++) usleep(10000);
    if (headway_progress(&mine) != wanted) return 1;
    MEASURE("a reading of the clock", sink += headway_now_());
    MEASURE("getppid", sink += (uint64_t)headway_syscall_(SYS_getppid));
    if (!wanted) {
        MEASURE("C, where nobody measures", headway_progress(&mine); sink += mine.ready);
        return 0;
    }
    MEASURE("C", headway_progress(&mine); sink += mine.ready);
    if (!headway_states(&before)) return 1;
    MEASURE("C, by state", headway_states(&states); sink += states.n);
    printf("states\t%u\n", states.n);
    MEASURE("C, the difference of two moments", headway_states_between(&before, &states, &grown); sink += grown.n);
    if (!headway_thread((uint32_t)getpid(), &other)) return 1;
    MEASURE("C, a thread as others read it", headway_thread_again(&other); sink += other.progress.ready);
    HEADWAY_NONEFFECTIVE("region") { MEASURE("C, in a marked region", headway_progress(&mine); sink += mine.ready); }
    return 0;
}
