/*
 * Work in the background that stands back while it keeps others from a processor, as a garbage collector could.
 *
 *     cc -O2 -pthread -I"$(python3 -c 'import headway; print(headway.get_include())')" yielding.c -o yielding
 *     sudo headway stat --publish -- ./yielding
 *
 * Each processor has a worker that computes, and a collector competes with them. Every ms of its work it looks how long the
 * workers were ready, that is: wanted a processor and had none. If that was much of the time, it sleeps, the longer the more
 * often. It does not need to know how many processors there are, what else runs, or what the workers do.
 */
#define _GNU_SOURCE /* gettid */
#include <headway.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = 64, STEP = 1000000, LONGEST = 32000000 /* ns */ };

static headway_thread_t workers[MOST];
static volatile uint32_t ids[MOST];
static int n_workers;
static volatile int over;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *work(void *number) {
    ids[(intptr_t)number] = (uint32_t)gettid();
    while (!over)
        for (volatile int i = 0; i < 10000; i++) {}
    return NULL;
}

/* Returns how long the workers were ready so far, all together, and adds up their progress. */
static uint64_t ready(uint64_t *progress) {
    uint64_t sum = 0;
    *progress = 0;
    for (int i = 0; i < n_workers; i++) {
        headway_thread_again(&workers[i]);
        sum += workers[i].progress.ready;
        *progress += workers[i].progress.epi;
    }
    return sum;
}

/* Collects for a while. Returns the share of its time in which it worked. */
static double collect(double seconds, int yields) {
    uint64_t begun = now(), end = begun + (uint64_t)(seconds * 1e9), rest = STEP, worked = 0, before, after, ignored;
    before = ready(&ignored);
    while (now() < end) {
        uint64_t step = now();
        while (now() < step + STEP) {
            for (volatile int i = 0; i < 1000; i++) {}
        }
        step = now() - step;
        worked += STEP;
        after = ready(&ignored);
        if (yields && after - before > step / 8) {
            struct timespec nap = {0, (long)rest};
            nanosleep(&nap, NULL);
            rest = rest < LONGEST ? 2 * rest : LONGEST;
            after = ready(&ignored);
        } else if (rest > STEP) {
            rest /= 2;
        }
        before = after;
    }
    return (double)worked / (double)(now() - begun);
}

int main(int n, char **words) {
    double seconds = n > 1 ? atof(words[1]) : 1.0;
    headway_progress_t mine;
    pthread_t threads[MOST];
    int waited = 0;
    n_workers = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (n_workers > MOST) n_workers = MOST;
    for (int i = 0; i < n_workers; i++) pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i);
    for (; !headway_progress(&mine) && waited < 500; waited++) usleep(10000);
    for (int i = 0; i < n_workers; i++)
        for (; (!ids[i] || !headway_thread(ids[i], &workers[i])) && waited < 500; waited++) usleep(10000);
    if (waited >= 500) {
        fputs("yielding: nobody tells it how long its threads are ready: run it with headway stat --publish\n", stderr);
        return 1;
    }
    for (int yields = 0; yields < 2; yields++) {
        uint64_t was, is_now, begun = now(), waited_for = ready(&was);
        double share = collect(seconds, yields);
        waited_for = ready(&is_now) - waited_for;
        double all = (double)(now() - begun) * n_workers;
        printf("%s: the collector worked %.1f %% of the time; of theirs, the workers made progress in %.0f %%, and were "
               "ready for %.0f %%\n", yields ? "it stands back" : "it goes on", 100 * share,
            100 * (double)(is_now - was) / all, 100 * (double)waited_for / all);
        fflush(stdout);
    }
    over = 1;
    for (int i = 0; i < n_workers; i++) pthread_join(threads[i], NULL);
    return 0;
}
