// Spins as a thread that may run 10 ms of each 100 ms (SCHED_DEADLINE, sched_setattr(2)). Prints 0 if the kernel refuses it.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int main(void)
{
	struct attributes attributes = {sizeof(attributes), 6, 0, 0, 0, 10000000, 100000000, 100000000};
	if (syscall(SYS_sched_setattr, 0, &attributes, 0)) {
		puts("0");
		return 0;
	}
	long long start = now(), before = start, at, away = 0;
	do {
		at = now();
		if (at - before > 10000000) away += at - before; // it was off the processor
		before = at;
	} while (at < start + 500000000);
	printf("%lld\n", away);
	return 0;
}
