/* A pool of threads that paces itself: it has as many workers as get a processor.

   Workers that are ready and do not run only take each other's caches. Each worker reads its own progress after each piece
   of work, which makes no system call, and adds what was new to sums of the pool. Ten times a second the pool looks at
   them: of the time that its workers could run, which share were they ready without a processor?

       cc -O2 -pthread -I"$(python -c 'import headway; print(headway.get_include())')" workers.c -o workers
       sudo headway stat --publish -- ./workers 8 2

   The arguments are the number of threads and seconds. Where nobody measures, all threads work. */
#include <headway.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PERIOD UINT64_C(100000000) /* ns from one look to the next */
#define TOO_MUCH 0.10              /* a share of ready above which there are fewer workers */
#define LITTLE 0.02                /* and one below which there is one more */
#define PATIENCE 64                /* periods until that is tried again, at most */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int threads, working, over, patience = 1, waited;
static uint64_t ran, ready, pieces, looked;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void piece_of_work(void) {
    for (volatile int i = 0; i < 100000; i++) {}
}

/* Have another number of workers, by what they did since the last look. The caller has the lock. */
static void adapt(void) {
    double share = (double)ready / (double)(ran + ready);
    int wanted = working;
    if (share > TOO_MUCH) {
        wanted = (int)(working * (1 - share) + 0.5);
        patience = patience < PATIENCE ? 2 * patience : PATIENCE; /* one more was too many */
        waited = 0;
    } else if (share < LITTLE && ++waited >= patience) {
        wanted = working + 1;
        waited = 0;
    }
    working = wanted < 1 ? 1 : wanted > threads ? threads : wanted;
    ran = ready = 0;
    pthread_cond_broadcast(&changed);
}

static void *work(void *argument) {
    int number = (int)(intptr_t)argument;
    headway_progress_t before, after;
    int measured = headway_progress(&before);
    pthread_mutex_lock(&lock);
    while (!over) {
        if (number >= working) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        pthread_mutex_unlock(&lock);
        piece_of_work();
        if (headway_progress(&after)) {
            pthread_mutex_lock(&lock);
            if (measured) {
                ran += after.rpi - before.rpi;
                ready += after.ready - before.ready;
            }
            before = after;
            measured = 1;
        } else {
            measured = 0;
            pthread_mutex_lock(&lock);
        }
        pieces++;
        if (ran + ready && now() - looked >= PERIOD) {
            adapt();
            looked = now();
        }
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

int main(int n, char **words) {
    double seconds = n > 2 ? atof(words[2]) : 2;
    struct timespec length = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    threads = n > 1 ? atoi(words[1]) : 8;
    if (threads < 1 || threads > 1000 || seconds <= 0) {
        fputs("usage: workers THREADS SECONDS\n", stderr);
        return 2;
    }
    working = threads;
    looked = now();
    pthread_t *all = malloc((size_t)threads * sizeof *all);
    for (int i = 0; i < threads; i++) pthread_create(&all[i], NULL, work, (void *)(intptr_t)i);
    nanosleep(&length, NULL);
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
    printf("%d of %d threads work; %llu pieces\n", working, threads, (unsigned long long)pieces);
    free(all);
    return 0;
}
