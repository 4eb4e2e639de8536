/* Threads of different activity: BUSY ones compute all the time, BURSTY ones compute for 20 to 100 ms and then sleep for 5
 * to 15 s, IDLE ones wake once a second without work. Prints a line when all run; ends when standard input is closed. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum kind { BUSY, BURSTY, IDLE };

static volatile uint64_t sink;

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static __attribute__((noinline)) void compute(void)
{
    for (int i = 0; i < 100000; i++)
        sink += (uint64_t) i * i;
}

static void pause_ms(unsigned ms)
{
    struct timespec t = {ms / 1000, (long) (ms % 1000) * 1000000};
    nanosleep(&t, NULL);
}

static void *work(void *argument)
{
    enum kind kind = (enum kind) ((uintptr_t) argument & 3);
    unsigned seed = (unsigned) ((uintptr_t) argument >> 2) + 1;
    for (;;) {
        if (kind == BUSY) {
            compute();
        } else if (kind == BURSTY) {
            pause_ms(5000 + (unsigned) rand_r(&seed) % 10000);
            uint64_t end = now() + (20 + (unsigned) rand_r(&seed) % 80) * 1000000ull;
            while (now() < end)
                compute();
        } else {
            pause_ms(1000);
        }
    }
    return NULL;
}

int main(int count, char **words)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    for (int kind = BUSY; kind <= IDLE && kind + 1 < count; kind++) {
        for (int i = 0; i < atoi(words[kind + 1]); i++) {
            pthread_t thread;
            uintptr_t argument = (uintptr_t) i << 2 | (uintptr_t) kind;
            if (pthread_create(&thread, &attributes, work, (void *) argument))
                return 1;
        }
    }
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
