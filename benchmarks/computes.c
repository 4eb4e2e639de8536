/* Programs that compute and never wait, in loops of every kind that may look like spinning, one kind a run:

   $ ./computes KIND [SECONDS]

   sums strings search sort chase matrix sieve nbody counters collatz hash exchange */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define N 4096

static int numbers[N], sorted[N];
static char text[N + 1];
static double a[64][64], b[64][64], c[64][64];
static struct node {
	struct node *next;
	uint64_t value;
} nodes[N];
static unsigned char sieve[1 << 16];
static atomic_ulong counter, exchanged;
static volatile uint64_t result;
static volatile int goes_on = 1;

static void sums(void)
{
	uint64_t sum = 0;

	for (int i = 0; i < N; i++)
		sum += (uint64_t)numbers[i];
	result += sum;
}

static void strings(void)
{
	const char *at = text;

	while (*at != 'x' && *at)
		at++;
	result += (uint64_t)(at - text);
}

static void search(void)
{
	for (int key = 0; key < N; key += 7) {
		int low = 0, high = N;

		while (low < high) {
			int middle = (low + high) / 2;

			if (sorted[middle] < key)
				low = middle + 1;
			else
				high = middle;
		}
		result += (uint64_t)low;
	}
}

static int compare(const void *x, const void *y)
{
	return *(const int *)x - *(const int *)y;
}

static void sort(void)
{
	int copy[N];

	memcpy(copy, numbers, sizeof(copy));
	qsort(copy, N, sizeof(int), compare);
	result += (uint64_t)copy[0];
}

static void chase(void)
{
	struct node *node = nodes;

	do
		node = node->next;
	while (node->value);
	result += node->value;
}

static void matrix(void)
{
	for (int i = 0; i < 64; i++)
		for (int j = 0; j < 64; j++) {
			double sum = 0;

			for (int k = 0; k < 64; k++)
				sum += a[i][k] * b[k][j];
			c[i][j] = sum;
		}
	result += (uint64_t)c[3][4];
}

static void primes(void)
{
	memset(sieve, 1, sizeof(sieve));
	for (size_t i = 2; i * i < sizeof(sieve); i++)
		if (sieve[i])
			for (size_t j = i * i; j < sizeof(sieve); j += i)
				sieve[j] = 0;
	result += sieve[65521];
}

static void nbody(void)
{
	double x = 1, v = 0;

	for (int i = 0; i < N; i++) {
		v -= x * 0.001;
		x += v * 0.001;
	}
	result += (uint64_t)(x * 1000);
}

/* Its progress is in registers for floating point alone. */
static void integrate(void)
{
	double x = 0;

	for (double t = 1; t < 1e7; t += 1)
		x += 1 / t;
	result += (uint64_t)x;
}

static void counters(void)
{
	for (int i = 0; i < N; i++)
		atomic_fetch_add(&counter, 1);
}

static void collatz(void)
{
	for (uint64_t n = 1; n < 500; n++)
		for (uint64_t x = n; x != 1; x = x % 2 ? 3 * x + 1 : x / 2)
			result++;
}

static void hash(void)
{
	uint64_t x = result;

	for (int i = 0; i < N && goes_on; i++) /* it asks in each turn whether it is to go on */
		x = (x ^ (x >> 33)) * UINT64_C(0xff51afd7ed558ccd);
	result = x;
}

static void exchange(void)
{
	for (int i = 0; i < N; i++) {
		unsigned long old = atomic_load(&exchanged);

		while (!atomic_compare_exchange_weak(&exchanged, &old, old + 3))
			;
	}
}

static const struct {
	const char *name;
	void (*run)(void);
} kinds[] = {
	{"sums", sums},
	{"strings", strings},
	{"search", search},
	{"sort", sort},
	{"chase", chase},
	{"matrix", matrix},
	{"sieve", primes},
	{"nbody", nbody},
	{"integrate", integrate},
	{"counters", counters},
	{"collatz", collatz},
	{"hash", hash},
	{"exchange", exchange},
};

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

int main(int count, char **words)
{
	double end = now() + (count > 2 ? atof(words[2]) : 1.0);

	memset(text, 'a', N);
	for (int i = 0; i < N; i++) {
		numbers[i] = (int)((unsigned)i * 2654435761u >> 8);
		sorted[i] = i;
		nodes[i].next = &nodes[(i + 17) % N];
		nodes[i].value = i != 0;
	}
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (count > 1 && !strcmp(words[1], kinds[i].name)) {
			while (now() < end)
				for (int k = 0; k < 20; k++)
					kinds[i].run();
			return 0;
		}
	fprintf(stderr, "usage: computes KIND [SECONDS]\n");
	return 2;
}
