/*
 * Two threads on a processor that switch to each other: `switches PROCESSOR PAUSE`. PAUSE is the time between two round
 * trips in ns; 0: none. Without pauses they have real-time priority, and do nothing but sched_yield(2).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];
static long pause_ns;

static void *answer(void *unused)
{
	char byte;
	(void)unused;
	while (!pause_ns)
		sched_yield();
	while (read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1)
		;
	return NULL;
}

int main(int argc, char **argv)
{
	cpu_set_t cpus;
	pthread_t thread;
	char byte = 0;
	if (argc != 3 || pipe(there) || pipe(back))
		return 1;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(argv[1]), &cpus);
	pause_ns = atol(argv[2]);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		return 1;
	if (!pause_ns && sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){1}))
		return 1;
	if (pthread_create(&thread, NULL, answer, NULL))
		return 1;
	while (!pause_ns)
		sched_yield();
	struct timespec rest = {pause_ns / 1000000000, pause_ns % 1000000000};
	while (write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1)
		nanosleep(&rest, NULL);
	return 0;
}
