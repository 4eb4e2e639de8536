/*
 * Work that is the same every time, and neighbours that disturb it, for benchmarks/spread.py.
 *
 * work compute UNITS: arithmetic in registers.
 * work chase UNITS: a walk through a buffer larger than the second-level cache; each step reads the address of the next.
 * work run CPU COMMAND...: any other program with its output discarded, bound to a processor (-1: to none). Prints its
 * "CPU_NS WALL_NS" by the kernel's account.
 *
 * Neighbours run until they are killed. work spin: arithmetic. work thrash: writes a whole buffer again and again. work
 * calls: system calls, and processes that are started and end at once.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHASED (16u << 20) /* bytes; a multiple of the line times a power of two */
#define THRASHED (64u << 20)
#define LINE 64u

static volatile uint64_t sink;

static void compute(long units)
{
	uint64_t x = 1;

	while (units--) {
		x = x * 6364136223846793005ULL + 1;
		__asm__ volatile("" : "+r"(x));
	}
	sink = x;
}

/* Visit all lines in one cycle, in an order that no prefetcher follows: a full-period linear congruence (a % 4 == 1, c odd). */
static void chase(long units)
{
	uint32_t lines = CHASED / LINE, at = 0;
	char *buffer = aligned_alloc(4096, CHASED);

	if (!buffer)
		abort();
	for (uint32_t i = 0; i < lines; i++)
		*(uint32_t *)(buffer + i * LINE) = (i * 1664525u + 1013904223u) % lines;
	while (units--)
		at = *(volatile uint32_t *)(buffer + at * LINE);
	sink = at;
}

static void thrash(void)
{
	char *buffer = malloc(THRASHED);

	if (!buffer)
		abort();
	for (;;)
		for (uint32_t i = 0; i < THRASHED; i += LINE)
			((volatile char *)buffer)[i]++;
}

static void calls(void)
{
	for (;;) {
		for (int i = 0; i < 200; i++)
			syscall(SYS_getppid);
		pid_t child = fork();

		if (child == 0)
			_exit(0);
		if (child > 0)
			waitpid(child, NULL, 0);
	}
}

static int64_t nanoseconds(struct timeval t)
{
	return t.tv_sec * 1000000000LL + t.tv_usec * 1000LL;
}

static int run(int cpu, char **command)
{
	struct timespec begin, end;
	struct rusage usage;
	int status;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	pid_t child = fork();

	if (child == 0) {
		cpu_set_t there;

		CPU_ZERO(&there);
		if (cpu >= 0)
			CPU_SET(cpu, &there);
		if ((cpu >= 0 && sched_setaffinity(0, sizeof there, &there)) || dup2(open("/dev/null", O_WRONLY), 1) < 0)
			_exit(126);
		execvp(command[0], command);
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &usage) < 0 || status)
		return 1;
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%lld %lld\n", (long long)(nanoseconds(usage.ru_utime) + nanoseconds(usage.ru_stime)),
	       (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (argc > 3 && !strcmp(what, "run"))
		return run(atoi(argv[2]), argv + 3);
	if (argc > 2 && !strcmp(what, "compute")) {
		compute(atol(argv[2]));
		return 0;
	}
	if (argc > 2 && !strcmp(what, "chase")) {
		chase(atol(argv[2]));
		return 0;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* so that neighbours do not outlive the benchmark */
	if (!strcmp(what, "spin"))
		for (;;)
			compute(1000000);
	else if (!strcmp(what, "thrash"))
		thrash();
	else if (!strcmp(what, "calls"))
		calls();
	return 2;
}
