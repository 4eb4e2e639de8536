#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <linux/futex.h>
#include "until_seen.h"
static void nap(long ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000}; nanosleep(&t, 0); }
static void name(const char *text) { prctl(PR_SET_NAME, text); }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
/* Until a thread of this process waits for something. */
static inline void until_asleep(pid_t tid) {
    char path[64], line[512], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    while (state != 'S') {
        FILE *file = fopen(path, "r");
        if (file && fgets(line, sizeof line, file)) state = strrchr(line, ')')[2];
        if (file) fclose(file);
        if (state != 'S') nap(1);
    }
}
/* Until an observer has looked; if none says when it does, for so long. */
static inline void nap_until_seen(long ms) {
    if (!getenv("UNTIL_SEEN")) nap(ms);
    until_seen();
}
