/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A processor that is busy for a known part of the time, in bursts: bursts CPU BURST_NS PERIOD_NS PHASE_NS
 *
 * Each period begins at a multiple of PERIOD_NS of CLOCK_MONOTONIC, plus PHASE_NS. For each line "SINCE UNTIL" (two moments)
 * on standard input, the program prints for how many ns it was busy between them, by the clock.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

enum { KEPT = 1 << 20 };
static struct {
	uint64_t from, until;
} bursts[KEPT];
static _Atomic uint64_t count; /* finished bursts */
static _Atomic uint64_t open_since; /* start of the current burst; 0: none */
static uint64_t burst, period, phase;
static int cpu;

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *work(void *nothing)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof set, &set))
		exit(1);
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	for (;;) {
		uint64_t start = now();
		if (burst < period) {
			start = (start - phase) / period * period + period + phase;
			struct timespec t = {.tv_sec = (time_t)(start / 1000000000u), .tv_nsec = (long)(start % 1000000000u)};
			clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
		}
		if (!burst)
			continue;
		uint64_t from = now(), until;
		atomic_store(&open_since, from);
		while ((until = now()) < from + burst)
			;
		uint64_t n = atomic_load(&count);
		bursts[n % KEPT].from = from;
		bursts[n % KEPT].until = until;
		atomic_store(&open_since, 0);
		atomic_store(&count, n + 1);
	}
	return nothing;
}

/* Return the busy time between two moments, the later of which may be now. */
static uint64_t busy(uint64_t since, uint64_t until)
{
	uint64_t total = 0, n = atomic_load(&count), open = atomic_load(&open_since);
	for (uint64_t i = n > KEPT ? n - KEPT : 0; i < n; i++) {
		uint64_t from = bursts[i % KEPT].from, to = bursts[i % KEPT].until;
		from = from < since ? since : from;
		to = to > until ? until : to;
		total += to > from ? to - from : 0;
	}
	if (open && open < until)
		total += until - (open < since ? since : open);
	return total;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	unsigned long long since, until;
	if (argc < 5)
		return 2;
	cpu = atoi(argv[1]);
	burst = strtoull(argv[2], NULL, 10);
	period = strtoull(argv[3], NULL, 10);
	phase = strtoull(argv[4], NULL, 10) % period;
	if (pthread_create(&thread, NULL, work, NULL))
		return 1;
	while (scanf("%llu %llu", &since, &until) == 2) {
		printf("%llu\n", (unsigned long long)busy(since, until));
		fflush(stdout);
	}
	return 0;
}
