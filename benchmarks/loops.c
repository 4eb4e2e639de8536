/*
 * Loops of calls, faults and hand-overs that read their own processor clock, for benchmarks/corrected.py.
 *
 * The program waits for lines "WHAT TIMES" on standard input, does WHAT so many times, and answers each with a line
 * "CPU_NS WALL_NS": the processor time of all its threads meanwhile, and the wall-clock time.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2], zero;

static int64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void *partner(void *nothing)
{
	char byte;

	while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
		;
	return nothing;
}

static void work(const char *what, long times)
{
	volatile uint64_t x = 1;
	char byte = 0;

	if (!strcmp(what, "compute")) {
		for (long i = 0; i < times; i++)
			x = x * 6364136223846793005ULL + 1;
	} else if (!strcmp(what, "getppid")) {
		while (times--)
			syscall(SYS_getppid);
	} else if (!strcmp(what, "read")) {
		while (times--)
			if (read(zero, &byte, 1) != 1)
				abort();
	} else if (!strcmp(what, "mixed")) { /* a call after some computing, as in real programs */
		while (times--) {
			for (int i = 0; i < 300; i++)
				x = x * 6364136223846793005ULL + 1;
			if (read(zero, &byte, 1) != 1)
				abort();
		}
	} else if (!strcmp(what, "faults")) {
		long page = sysconf(_SC_PAGESIZE), size = 4096 * page;

		for (long left = times; left > 0; left -= 4096) {
			char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			if (memory == MAP_FAILED)
				abort();
			madvise(memory, size, MADV_NOHUGEPAGE);
			for (long i = 0; i < size; i += page)
				*(volatile char *)(memory + i) = 1;
			munmap(memory, size);
		}
	} else if (!strcmp(what, "pingpong")) {
		while (times--)
			if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
				abort();
	} else {
		abort();
	}
}

int main(void)
{
	pthread_t thread;
	char what[16];
	long times;

	zero = open("/dev/zero", O_RDONLY);
	if (zero < 0 || pipe(there) || pipe(back) || pthread_create(&thread, NULL, partner, NULL))
		return 1;
	while (scanf("%15s %ld", what, &times) == 2) {
		int64_t wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);

		work(what, times);
		cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
		wall = now(CLOCK_MONOTONIC) - wall;
		printf("%lld %lld\n", (long long)cpu, (long long)wall);
		fflush(stdout);
	}
	return 0;
}
