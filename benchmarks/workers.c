/*
 * Threads that read their own processor clock as their last act, for benchmarks/accuracy.py.
 *
 * workers SCENARIO THREADS MILLISECONDS: runs the threads for that long, prints a line "TID CPU_NS MINOR_FAULTS CALLS" for
 * each, and leaves them blocked, so that their totals do not change, until the program is killed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 256
#define CALLS 300000
#define PAGES 20000

static struct {
	long tid;
	int64_t cpu;
	long faults, calls;
	atomic_int done;
} out[MAX_THREADS];

static int n_threads, first_pipe[2], second_pipe[2];
static int64_t until;
static const char *scenario;

static int64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void compute_for(int64_t ns)
{
	int64_t end = now(CLOCK_MONOTONIC) + ns;
	volatile uint64_t x = 1;

	while (now(CLOCK_MONOTONIC) < end)
		for (int i = 0; i < 1000; i++)
			x = x * 6364136223846793005ULL + 1;
}

static void doze(long ns)
{
	nanosleep(&(struct timespec){0, ns}, NULL);
}

static long work(long number)
{
	char byte = 0, *pages;
	long calls = 0;

	if (!strcmp(scenario, "compute") || (!strcmp(scenario, "beside") && !number)) {
		while (now(CLOCK_MONOTONIC) < until)
			compute_for(1000000);
	} else if (!strcmp(scenario, "yield")) {
		while (now(CLOCK_MONOTONIC) < until) {
			compute_for(50000);
			sched_yield();
		}
	} else if (!strcmp(scenario, "wake")) {
		while (now(CLOCK_MONOTONIC) < until) {
			compute_for(200000);
			doze(1000000);
		}
	} else if (!strcmp(scenario, "sleep") || (!strcmp(scenario, "beside") && number)) {
		while (now(CLOCK_MONOTONIC) < until)
			doze(5000000);
	} else if (!strcmp(scenario, "pingpong")) {
		/* The first thread ends the exchange by a byte that is not 0. */
		while (!byte) {
			if (number == 0) {
				byte = now(CLOCK_MONOTONIC) >= until;
				if (write(first_pipe[1], &byte, 1) != 1 || (!byte && read(second_pipe[0], &byte, 1) != 1))
					abort();
			} else if (read(first_pipe[0], &byte, 1) != 1 || (!byte && write(second_pipe[1], &byte, 1) != 1)) {
				abort();
			}
		}
	} else if (!strcmp(scenario, "calls")) {
		for (; calls < CALLS; calls++)
			syscall(SYS_getppid);
	} else if (!strcmp(scenario, "faults")) {
		pages = mmap(NULL, PAGES * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (pages == MAP_FAILED)
			abort();
		madvise(pages, PAGES * 4096L, MADV_NOHUGEPAGE);
		for (long i = 0; i < PAGES; i++)
			pages[i * 4096] = 1;
	} else {
		abort();
	}
	return calls;
}

static void *run(void *argument)
{
	long number = (long)argument;
	struct rusage usage;

	out[number].tid = syscall(SYS_gettid);
	out[number].calls = work(number);
	getrusage(RUSAGE_THREAD, &usage);
	out[number].faults = usage.ru_minflt + usage.ru_majflt;
	atomic_store(&out[number].done, 1);
	out[number].cpu = now(CLOCK_THREAD_CPUTIME_ID);
	for (;;)
		pause();
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	long spread = 1;

	if (argc != 4 || (n_threads = atoi(argv[2])) < 1 || n_threads > MAX_THREADS)
		return 2;
	scenario = argv[1];
	if (!strncmp(scenario, "apart-", 6)) { /* two threads get a processor each; otherwise they share one */
		scenario += 6;
		spread = sysconf(_SC_NPROCESSORS_ONLN);
	}
	if (pipe(first_pipe) || pipe(second_pipe))
		return 1;
	until = now(CLOCK_MONOTONIC) + atoi(argv[3]) * 1000000LL;
	for (long i = 0; i < n_threads; i++) {
		pthread_attr_t attributes;
		cpu_set_t cpus;

		pthread_attr_init(&attributes);
		CPU_ZERO(&cpus);
		CPU_SET(i % spread, &cpus);
		if (n_threads == 2)
			pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus);
		if (pthread_create(&thread, &attributes, run, (void *)i))
			return 1;
	}
	for (int i = 0; i < n_threads; i++)
		while (!atomic_load(&out[i].done))
			doze(1000000);
	doze(20000000); /* until they have blocked */
	for (int i = 0; i < n_threads; i++)
		printf("%ld %lld %ld %ld\n", out[i].tid, (long long)out[i].cpu, out[i].faults, out[i].calls);
	puts("done");
	fflush(stdout);
	pause();
	return 0;
}
