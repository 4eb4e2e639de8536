/* A runtime that collects profile buffers of its own, and looks into them only when that can be useful.

   Each thread of this program writes a record into its buffer whenever it finishes a piece of work, as the code that a JIT
   made would. Only the thread writes there; a full buffer takes nothing more, and the thread counts what found no room.
   One collector empties all buffers. When it looks into which follows from the processor time that each thread has used:
   headway_polling.h. Some threads always work, some work now and then, and most wake only to sleep again.

   $ cc -O2 -pthread -I"$(python -c 'import headway; print(headway.get_include())')" collector.c -o collector
   $ ./collector [SECONDS] */
#define _GNU_SOURCE
#include <headway_polling.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define SECOND INT64_C(1000000000)
#define RECORDS 512
#define BUSY 2
#define BURSTY 6
#define IDLE 56
#define THREADS (BUSY + BURSTY + IDLE)

struct record {
	int64_t when;
	uint64_t work;
};

#define CAPACITY ((int64_t)(RECORDS * sizeof(struct record)))

/* The buffer of a thread: the thread moves `head`, the collector `tail`. */
struct buffer {
	struct record records[RECORDS];
	atomic_uint_fast64_t head, tail, lost;
	uint64_t written; /* by the thread, for the sum at the end */
};

struct worker {
	struct buffer buffer;
	pthread_t thread;
	clockid_t clock; /* its processor time */
	int64_t work, rest; /* ns */
	/* the collector's */
	struct headway_polling polling;
	int64_t moment; /* the clock does not need to be read before */
	uint64_t lost_before, collected, looks, drains, clocks;
};

static struct worker workers[THREADS];
static atomic_bool over;

static int64_t time_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * SECOND + now.tv_nsec;
}

static void sleep_until(int64_t moment)
{
	struct timespec when = {moment / SECOND, moment % SECOND};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &when, NULL);
}

/* ---- The threads -------------------------------------------------------------------------------------------------------- */

static void put(struct buffer *buffer, int64_t when, uint64_t work)
{
	uint_fast64_t head = atomic_load_explicit(&buffer->head, memory_order_relaxed);

	buffer->written++;
	if (head - atomic_load_explicit(&buffer->tail, memory_order_acquire) == RECORDS) {
		atomic_fetch_add_explicit(&buffer->lost, 1, memory_order_relaxed);
		return;
	}
	buffer->records[head % RECORDS] = (struct record){when, work};
	atomic_store_explicit(&buffer->head, head + 1, memory_order_release);
}

static uint64_t piece_of_work(uint64_t seed)
{
	for (int i = 0; i < 20000; i++)
		seed = seed * UINT64_C(6364136223846793005) + 1;
	return seed;
}

static void *run(void *argument)
{
	struct worker *self = argument;
	uint64_t seed = (uint64_t)(self - workers);

	while (!atomic_load_explicit(&over, memory_order_relaxed)) {
		int64_t begun = time_of(CLOCK_MONOTONIC), now = begun;

		while (now < begun + self->work && !atomic_load_explicit(&over, memory_order_relaxed)) {
			seed = piece_of_work(seed);
			now = time_of(CLOCK_MONOTONIC);
			put(&self->buffer, now, seed);
		}
		if (self->rest)
			sleep_until(now + self->rest);
	}
	return NULL;
}

/* ---- The collector ------------------------------------------------------------------------------------------------------ */

static void drain(struct worker *worker)
{
	struct buffer *buffer = &worker->buffer;
	uint_fast64_t tail = atomic_load_explicit(&buffer->tail, memory_order_relaxed);
	uint_fast64_t head = atomic_load_explicit(&buffer->head, memory_order_acquire);

	worker->collected += head - tail; /* a runtime would read records[tail … head) here */
	worker->drains++;
	atomic_store_explicit(&buffer->tail, head, memory_order_release);
}

static void look(struct worker *worker, int64_t now, int64_t used)
{
	const int64_t size = sizeof(struct record);
	struct buffer *buffer = &worker->buffer;
	uint64_t lost = atomic_load_explicit(&buffer->lost, memory_order_relaxed);
	uint64_t filled = atomic_load_explicit(&buffer->head, memory_order_acquire) -
		atomic_load_explicit(&buffer->tail, memory_order_relaxed);

	worker->looks++;
	if (headway_polling_looked(
			&worker->polling, now, used, (int64_t)filled * size, (int64_t)(lost - worker->lost_before) * size))
		drain(worker);
	worker->lost_before = lost;
}

/* Ask the threads whose moment has come, look where that is useful, and return the next moment. */
static int64_t collect(int64_t now)
{
	int64_t next = HEADWAY_POLLING_NEVER;

	for (int i = 0; i < THREADS; i++) {
		struct worker *worker = &workers[i];

		if (worker->moment <= now) {
			int64_t used = time_of(worker->clock);

			worker->clocks++;
			worker->moment = headway_polling_due(&worker->polling, now, used);
			if (worker->moment <= now) {
				look(worker, now, used);
				worker->moment = headway_polling_due(&worker->polling, now, used);
			}
		}
		if (worker->moment < next)
			next = worker->moment;
	}
	return next;
}

int main(int count, char **words)
{
	static struct headway_polling_usual usual; /* nothing is known of it yet */
	int64_t end = time_of(CLOCK_MONOTONIC) + (int64_t)((count > 1 ? atof(words[1]) : 2.0) * SECOND);
	uint64_t written = 0, collected = 0, lost = 0, left = 0, looks = 0, drains = 0, clocks = 0, wakeups = 0;

	for (int i = 0; i < THREADS; i++) {
		struct worker *worker = &workers[i];

		worker->work = i < BUSY ? SECOND : i < BUSY + BURSTY ? SECOND / 50 : 1;
		worker->rest = i < BUSY ? 0 : i < BUSY + BURSTY ? SECOND / 4 : SECOND / 10;
		headway_polling_init(&worker->polling, CAPACITY, &usual, SECOND / 100);
		if (pthread_create(&worker->thread, NULL, run, worker) ||
			pthread_getcpuclockid(worker->thread, &worker->clock)) {
			perror("collector");
			return 1;
		}
	}

	for (int64_t now; (now = time_of(CLOCK_MONOTONIC)) < end; wakeups++) {
		int64_t next = collect(now);

		sleep_until(next < now + SECOND / 1000 ? now + SECOND / 1000 : next < end ? next : end);
	}
	int64_t cost = time_of(CLOCK_THREAD_CPUTIME_ID);

	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++) {
		struct worker *worker = &workers[i];

		pthread_join(worker->thread, NULL);
		written += worker->buffer.written;
		collected += worker->collected;
		lost += worker->buffer.lost;
		left += worker->buffer.head - worker->buffer.tail;
		looks += worker->looks;
		drains += worker->drains;
		clocks += worker->clocks;
	}
	printf("%llu records: %llu collected, %llu left, %llu lost\n", (unsigned long long)written,
		(unsigned long long)collected, (unsigned long long)left, (unsigned long long)lost);
	printf("%llu looks, %llu drains, %llu clocks read, %llu wake-ups, %.1f ms of processor time\n",
		(unsigned long long)looks, (unsigned long long)drains, (unsigned long long)clocks, (unsigned long long)wakeups,
		(double)cost / 1e6);
	return 0;
}
