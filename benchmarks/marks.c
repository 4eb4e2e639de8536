/*
 * Marked regions whose lengths the program measures itself, for benchmarks/progress.py.
 *
 * marks UNITS TIMES [nested]: TIMES regions of UNITS units of arithmetic each, with as much in between. With nested, each is
 * inside another region that has as much before and after. Prints "INSIDE_NS AROUND_NS" (the latter without the former).
 * Long regions are timed by the thread's own clock. Short ones, for which reading that clock takes too long, are timed by
 * the wall clock; those that took at least half as long again as the median, because the thread was interrupted, count as
 * the median.
 */
#define _GNU_SOURCE
#include <headway.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LONG 100000 /* units */

static clockid_t source;

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(source, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void work(long units)
{
	volatile uint64_t x = 1;

	while (units--)
		x = x * 6364136223846793005ULL + 1;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t sum(int64_t *times, long n)
{
	int64_t total = 0, median;

	qsort(times, n, sizeof *times, compare);
	median = times[n / 2];
	for (long i = 0; i < n; i++)
		total += source == CLOCK_MONOTONIC && times[i] > median + median / 2 ? median : times[i];
	return total;
}

int main(int argc, char **argv)
{
	long units = argc > 2 ? atol(argv[1]) : 0, times = argc > 2 ? atol(argv[2]) : 0;
	int64_t *inside, *around, a, b, c, d;
	headway_tag_t inner = headway_tag("inner"), outer = headway_tag("outer");

	if (units < 1 || times < 1)
		return 2;
	source = units >= LONG ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
	inside = malloc(times * sizeof *inside);
	around = malloc(times * sizeof *around);
	if (!inside || !around)
		return 1;
	for (long i = 0; i < times; i++) {
		if (argc > 3) {
			headway_set_noneffective(outer);
			a = now();
			work(units);
			b = now();
			headway_set_noneffective(inner);
			c = now();
			work(units);
			inside[i] = now() - c;
			headway_clear_noneffective();
			c = now();
			work(units);
			d = now();
			headway_clear_noneffective();
			around[i] = (b - a) + (d - c);
		} else {
			headway_set_noneffective(inner);
			a = now();
			work(units);
			inside[i] = now() - a;
			headway_clear_noneffective();
			around[i] = 0;
		}
		work(units);
	}
	printf("%lld %lld\n", (long long)sum(inside, times), (long long)sum(around, times));
	return 0;
}
