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
static void nap(long ms) { struct timespec t = {ms / 1000, ms % 1000 * 1000000}; nanosleep(&t, 0); }
static void name(const char *text) { prctl(PR_SET_NAME, text); }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
