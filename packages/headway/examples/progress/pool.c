/*
 * A pool of threads that share one processor's time fairly: by turns, or by progress.
 *
 *     cc -O2 -pthread -I"$(python3 -c 'import headway; print(headway.get_include())')" pool.c -o pool
 *     sudo headway stat --publish -- ./pool
 *
 * Each of three workers serves one customer. The first computes, the second reads small pieces of a file, and the third
 * touches fresh memory, so that much of the time of the two is the kernel's. By turns each gets the same time, and the
 * first makes far more progress. By progress, the turn goes to the worker whose EPI has grown least, which
 * headway_thread_again tells in some 50 ns. Then all make the same progress.
 */
#define _GNU_SOURCE /* gettid */
#include <fcntl.h>
#include <headway.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORKERS = 3, TURN = 500000 /* ns */ };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static headway_thread_t workers[WORKERS];
static uint64_t began[WORKERS]; /* EPI when the present policy began */
static uint32_t ids[WORKERS];
static int turn = -1, by_progress, over;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void compute(void) {
    for (volatile int i = 0; i < 1000; i++) {}
}

static void read_pieces(void) {
    static int file = -1;
    char piece[16];
    if (file < 0) file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 8; i++)
        if (read(file, piece, sizeof piece) < 0) abort();
    for (volatile int i = 0; i < 100; i++) {}
}

static void touch_memory(void) {
    char *memory = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    for (int i = 0; i < 1 << 16; i += 4096) memory[i] = 1;
    munmap(memory, 1 << 16);
    for (volatile int i = 0; i < 3000; i++) {}
}

static void (*const jobs[WORKERS])(void) = {compute, read_pieces, touch_memory};
static const char *const names[WORKERS] = {"computes", "reads", "touches memory"};

static uint64_t progress(int worker) {
    headway_thread_again(&workers[worker]); /* what it was stays, if it has just ended */
    return workers[worker].progress.epi - began[worker];
}

/* Returns who has the next turn. */
static int next_turn(int last) {
    int least = 0;
    if (!by_progress) return (last + 1) % WORKERS;
    for (int i = 1; i < WORKERS; i++)
        if (progress(i) < progress(least)) least = i;
    return least;
}

static void *serve(void *number) {
    int mine = (int)(intptr_t)number;
    pthread_mutex_lock(&lock);
    ids[mine] = (uint32_t)gettid();
    pthread_cond_broadcast(&changed);
    for (;;) {
        while (turn != mine && !over) pthread_cond_wait(&changed, &lock);
        if (over) break;
        pthread_mutex_unlock(&lock);
        for (uint64_t end = now() + TURN; now() < end;) jobs[mine]();
        pthread_mutex_lock(&lock);
        if (turn == mine) turn = next_turn(mine);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Lets the workers have turns for a while, and says what progress each made of it. */
static void share(double seconds, int policy) {
    uint64_t least = UINT64_MAX, most = 0;
    pthread_mutex_lock(&lock);
    by_progress = policy;
    for (int i = 0; i < WORKERS; i++) began[i] += progress(i);
    turn = 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    usleep((useconds_t)(seconds * 1e6));
    pthread_mutex_lock(&lock);
    turn = -1;
    printf("%s:", policy ? "by progress" : "by turns");
    for (int i = 0; i < WORKERS; i++) {
        uint64_t made = progress(i);
        if (made < least) least = made;
        if (made > most) most = made;
        printf(" %s %.1f ms%s", names[i], (double)made / 1e6, i < WORKERS - 1 ? "," : "");
    }
    printf("; the most is %.2f times the least\n", (double)most / (double)(least ? least : 1));
    fflush(stdout);
    pthread_mutex_unlock(&lock);
    usleep(20000); /* whoever has a turn ends it */
}

int main(int n, char **words) {
    pthread_t threads[WORKERS];
    headway_progress_t mine;
    double seconds = n > 1 ? atof(words[1]) : 1.0;
    int waited = 0;
    for (int i = 0; i < WORKERS; i++) pthread_create(&threads[i], NULL, serve, (void *)(intptr_t)i);
    pthread_mutex_lock(&lock);
    for (int i = 0; i < WORKERS; i++)
        while (!ids[i]) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    for (; !headway_progress(&mine) && waited < 500; waited++) usleep(10000);
    for (int i = 0; i < WORKERS; i++)
        for (; !headway_thread(ids[i], &workers[i]) && waited < 500; waited++) usleep(10000);
    if (waited >= 500 || workers[0].progress.epi == HEADWAY_UNKNOWN) {
        fputs("pool: nobody tells it what progress its threads make: run it with headway stat --publish\n", stderr);
        return 1;
    }
    share(seconds, 0);
    share(seconds, 1);
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
    return 0;
}
