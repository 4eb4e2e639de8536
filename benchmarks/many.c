/*
 * Many threads, for benchmarks/scale.py.
 *
 * many live THREADS: keep so many threads alive, each of which wakes ten times a second, until the program is killed.
 * many storm THREADS: start and end so many threads, at most fifty at a time, and print how many ns that took.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void *nap(void *argument)
{
	long first = (long)argument * 50021 % 100000000; /* spread over a tenth of a second */

	nanosleep(&(struct timespec){0, first}, NULL);
	for (;;)
		nanosleep(&(struct timespec){0, 100000000}, NULL);
	return NULL;
}

static void *end_at_once(void *argument)
{
	return argument;
}

int main(int argc, char **argv)
{
	struct timespec start, end;
	pthread_attr_t small;
	pthread_t threads[50];
	long n;

	if (argc != 3 || (n = atol(argv[2])) < 1)
		return 2;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 65536);
	if (!strcmp(argv[1], "live")) {
		for (long i = 1; i < n; i++)
			if (pthread_create(threads, &small, nap, (void *)i))
				return 1;
		puts("ready");
		fflush(stdout);
		nap(NULL);
	}
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (long left = n; left > 0;) {
		int some = left < 50 ? (int)left : 50;

		for (int i = 0; i < some; i++)
			if (pthread_create(&threads[i], &small, end_at_once, NULL))
				return 1;
		for (int i = 0; i < some; i++)
			pthread_join(threads[i], NULL);
		left -= some;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%lld\n", (end.tv_sec - start.tv_sec) * 1000000000LL + end.tv_nsec - start.tv_nsec);
	return 0;
}
