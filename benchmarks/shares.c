/* Work of known shares: three functions in the ratio 5 : 3 : 2, by their own processor time; or a ping-pong. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile unsigned long sink;
static double own[3];

static double used(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

NOINLINE void spin(long n)
{
	for (volatile long i = 0; i < n; i++)
		sink += i;
	sink++;
}

NOINLINE void half(void)
{
	spin(50000);
	sink++;
}

NOINLINE void third(void)
{
	spin(30000);
	sink++;
}

NOINLINE void fifth(void)
{
	spin(20000);
	sink++;
}

static void timed(int which, void (*part)(void))
{
	double before = used(CLOCK_THREAD_CPUTIME_ID);
	part();
	own[which] += used(CLOCK_THREAD_CPUTIME_ID) - before;
}

static double processor_time(int who)
{
	struct rusage u;
	getrusage(who, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/*
 * Prints how long a round trip takes, and how much processor time of the two processes: ns. Both stay on one processor.
 * Else what is measured decides on which they run, and that costs more or less than measuring does.
 */
static int ping_pong(int laps)
{
	int there[2], back[2];
	char byte = 0;
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		return 1;
	if (pipe(there) || pipe(back))
		return 1;
	if (!fork()) {
		close(there[1]);
		while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
			;
		_exit(0);
	}
	close(there[0]);
	double before = used(CLOCK_MONOTONIC);
	for (int i = 0; i < laps; i++)
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			return 1;
	double elapsed = used(CLOCK_MONOTONIC) - before;
	close(there[1]);
	wait(NULL);
	double busy = processor_time(RUSAGE_SELF) + processor_time(RUSAGE_CHILDREN);
	printf("%.0f %.0f\n", elapsed / laps * 1e9, busy / laps * 1e9);
	return 0;
}

int main(int argc, char **argv)
{
	int laps = argc > 2 ? atoi(argv[2]) : 1;
	if (argc > 1 && !strcmp(argv[1], "switch"))
		return ping_pong(laps);
	for (int i = 0; i < laps; i++) {
		timed(0, half);
		timed(1, third);
		timed(2, fifth);
	}
	double all = own[0] + own[1] + own[2];
	printf("%f %f %f %f\n", used(CLOCK_PROCESS_CPUTIME_ID), own[0] / all, own[1] / all, own[2] / all);
	return 0;
}
