// Spins on one processor as a thread that other threads keep from running at most 5 % of the time (SCHED_FIFO). Prints for
// how long it was kept from running, ns; 0 if the kernel refuses the policy, or never stops it (sched_rt_runtime_us).
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <time.h>

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int main(void)
{
	struct sched_param priority = {1};
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof(one), &one) || sched_setscheduler(0, SCHED_FIFO, &priority)) {
		puts("0");
		return 0;
	}
	long long start = now(), before = start, at, away = 0;
	do {
		at = now();
		if (at - before > 10000000) away += at - before; // it was off the processor
		before = at;
	} while (at < start + 1300000000);
	printf("%lld\n", away);
	return 0;
}
