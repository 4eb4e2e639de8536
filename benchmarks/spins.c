/* Threads that spin as programs do that were written without a thought of being measured, one kind a run:

   $ ./spins KIND [SECONDS]

   pthread   a thread waits for a pthread spin lock that another holds and sleeps with
   mutex     the same for a mutex of its own that never sleeps: compare and exchange, without PAUSE
   ring      a consumer waits for a ring that its producer seldom fills, as DPDK's do: loads, compares, PAUSE
   flag      a thread waits for a plain flag, without PAUSE
   openmp    threads wait at a barrier for the last one (build with -fopenmp; OMP_WAIT_POLICY=active)

   It prints for how long the waiting thread spun, in ns of its processor time, of how much in all, and its tid. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#define SIZE 64
#define HELD_NS 20000000
#define WORK 2000000

static pthread_spinlock_t lock;
static atomic_int mutex, over;
static atomic_int flag;
static struct {
	_Alignas(64) atomic_uint head;
	_Alignas(64) atomic_uint tail;
	uint64_t items[SIZE];
} ring;
static volatile uint64_t result;
static int64_t spun, had, worked;
static int tid;

static int64_t clock_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void rest(long ns)
{
	struct timespec time = {ns / 1000000000, ns % 1000000000};

	nanosleep(&time, NULL);
}

static void work(void)
{
	uint64_t x = result;

	for (int i = 0; i < WORK; i++)
		x = x * UINT64_C(6364136223846793005) + 1442695040888963407;
	result = x;
}

static void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* ---- What waits: each returns when it has what it waits for ---- */

static void wait_pthread(void)
{
	pthread_spin_lock(&lock);
	pthread_spin_unlock(&lock);
}

static void wait_mutex(void)
{
	int none = 0;

	while (!atomic_compare_exchange_weak(&mutex, &none, 1))
		none = 0;
	atomic_store(&mutex, 0);
}

static void wait_ring(void)
{
	unsigned tail = atomic_load_explicit(&ring.tail, memory_order_relaxed);

	while (atomic_load_explicit(&ring.head, memory_order_acquire) == tail)
		relax();
	result += ring.items[tail % SIZE];
	atomic_store_explicit(&ring.tail, tail + 1, memory_order_release);
}

static void wait_flag(void)
{
	while (!atomic_load_explicit(&flag, memory_order_acquire))
		;
	atomic_store(&flag, 0);
}

/* ---- Who lets it wait ---- */

static void hold_pthread(void)
{
	pthread_spin_lock(&lock);
	rest(HELD_NS);
	pthread_spin_unlock(&lock);
}

static void hold_mutex(void)
{
	int none = 0;

	while (!atomic_compare_exchange_weak(&mutex, &none, 1))
		none = 0;
	rest(HELD_NS);
	atomic_store(&mutex, 0);
}

static void fill_ring(void)
{
	unsigned head = atomic_load_explicit(&ring.head, memory_order_relaxed);

	rest(HELD_NS);
	ring.items[head % SIZE] = head;
	atomic_store_explicit(&ring.head, head + 1, memory_order_release);
}

static void raise_flag(void)
{
	rest(HELD_NS);
	atomic_store(&flag, 1);
}

static const struct {
	const char *name;
	void (*wait)(void), (*hold)(void);
} kinds[] = {
	{"pthread", wait_pthread, hold_pthread},
	{"mutex", wait_mutex, hold_mutex},
	{"ring", wait_ring, fill_ring},
	{"flag", wait_flag, raise_flag},
};

static void *waiter(void *argument)
{
	void (*wait)(void) = kinds[(intptr_t)argument].wait;
	int64_t begun = clock_of(CLOCK_THREAD_CPUTIME_ID);

	tid = gettid();
	while (!atomic_load(&over)) {
		int64_t before = clock_of(CLOCK_THREAD_CPUTIME_ID);

		wait();
		spun += clock_of(CLOCK_THREAD_CPUTIME_ID) - before;
		work();
	}
	had = clock_of(CLOCK_THREAD_CPUTIME_ID) - begun;
	return NULL;
}

#ifdef _OPENMP
static void openmp(double seconds)
{
	int64_t end = clock_of(CLOCK_MONOTONIC) + (int64_t)(seconds * 1e9);

	while (clock_of(CLOCK_MONOTONIC) < end) {
#pragma omp parallel num_threads(2)
		{
			if (omp_get_thread_num() == 0) {
				rest(HELD_NS);
#pragma omp barrier
			} else {
				tid = gettid();
#pragma omp barrier
				int64_t before = clock_of(CLOCK_THREAD_CPUTIME_ID);

				work();
				had = clock_of(CLOCK_THREAD_CPUTIME_ID);
				worked +=
					had - before; /* all else it waits, at this barrier, at the end of the region and for the next */
				spun = had - worked;
			}
		}
	}
}
#endif

int main(int count, char **words)
{
	double seconds = count > 2 ? atof(words[2]) : 1.0;
	const char *kind = count > 1 ? words[1] : "";
	intptr_t which = -1;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kind, kinds[i].name))
			which = (intptr_t)i;
#ifdef _OPENMP
	if (!strcmp(kind, "openmp")) {
		openmp(seconds);
		printf("%lld %lld %d\n", (long long)spun, (long long)had, tid);
		return 0;
	}
#endif
	if (which < 0) {
		fprintf(stderr, "usage: spins pthread|mutex|ring|flag|openmp [SECONDS]\n");
		return 2;
	}
	pthread_t thread;
	int64_t end = clock_of(CLOCK_MONOTONIC) + (int64_t)(seconds * 1e9);

	pthread_spin_init(&lock, PTHREAD_PROCESS_PRIVATE);
	pthread_create(&thread, NULL, waiter, (void *)which);
	while (clock_of(CLOCK_MONOTONIC) < end) {
		kinds[which].hold();
		rest(100000); /* time for the other to take it */
	}
	atomic_store(&over, 1);
	kinds[which].hold(); /* the last one, if it waits again */
	pthread_join(thread, NULL);
	printf("%lld %lld %d\n", (long long)spun, (long long)had, tid);
	return 0;
}
