/* SPDX-License-Identifier: Apache-2.0 */
/* See meeting.h for the protocol. */
#define _GNU_SOURCE
#include "meeting.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE 128 /* two cache lines, because they are fetched in pairs */
#define PRIORITY 90 /* before threaded interrupts, after the kernel's watchdogs */
#define MAX_LOOK 1000 /* the longest time in ns between two undisturbed looks at the clock */
#define SLICE 100000 /* ns: the shortest slice of EEVDF, with which it dispatches a waking thread soon */

enum phase { OPEN, GO, VOID_ };

/* The state of a meeting in one word: the attempt's number, its phase, and how many readers have come. */
#define WORD(number, phase, count) ((uint64_t)(number) << 32 | (uint64_t)(phase) << 24 | (count))
#define NUMBER(word) ((uint32_t)((word) >> 32))
#define PHASE(word) ((uint32_t)(word) >> 24)
#define COUNT(word) ((uint32_t)(word) & 0xffffff)

struct reader {
	struct meeting *meeting;
	pthread_t thread;
	int cpu;
	int tid;
	int error; /* errno of binding it */
	int fifo; /* it can run before all ordinary threads (SCHED_FIFO) */
	int ordinary; /* but it runs as an ordinary thread at present */
	uint64_t forced, own, ran, since; /* the thread's switches and processor time at the moment `since` */
	int started;
	uint32_t n_sources;
	struct meeting_source sources[MEETING_SOURCES];
	_Atomic uint32_t expected;
	_Atomic uint64_t published; /* the attempt of `reading`; written last */
	struct meeting_reading reading;
} __attribute__((aligned(LINE)));

struct meeting {
	/* Written by the conductor between attempts. */
	_Atomic uint32_t call __attribute__((aligned(LINE))); /* futex: number of the announced attempt */
	_Atomic uint32_t stop;
	_Atomic uint32_t expected;
	uint64_t patience, wait, chain_length, snapshot_ahead;
	uint64_t *snapshot_at;
	uint32_t *snapshot_number;
	/* Written by the readers in the meeting. */
	_Atomic uint64_t word __attribute__((aligned(LINE)));
	_Atomic uint64_t done __attribute__((aligned(LINE))); /* WORD with the number of readers that have read */
	_Atomic uint64_t left __attribute__((aligned(LINE))); /* WORD with the number of readers that have left */
	_Atomic uint32_t over; /* futex: number of the last attempt that all readers have left */
	_Atomic uint64_t snapshot;
	_Atomic uint32_t ready; /* futex: number of threads that have started */
	uint32_t n;
	struct reader *readers;
};

uint64_t meeting_clock(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Return the processor time of this thread. */
static uint64_t run_time(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct timespec timespec_of(uint64_t ns)
{
	return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
}

/* Wait until the word changes from `value`, or until this moment (0: no limit). */
static void futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t until)
{
	struct timespec t = timespec_of(until);
	syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, until ? &t : NULL, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void futex_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 0x7fffffff, NULL, NULL, 0);
}

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

/* Count one more reader into this attempt. Return how many there are then; 0 if the attempt is no longer open. */
static uint32_t count_in(_Atomic uint64_t *word, uint32_t number)
{
	uint64_t old = atomic_load_explicit(word, memory_order_relaxed);
	do {
		if (NUMBER(old) != number || PHASE(old) != OPEN)
			return 0;
	} while (!atomic_compare_exchange_weak_explicit(word, &old, old + 1, memory_order_acq_rel, memory_order_relaxed));
	return COUNT(old) + 1;
}

/*
 * Additions each of which needs the result of the one before: one cycle each, on every processor that Linux runs on. The
 * second operand is a register, because some processors do additions of constants without spending a cycle.
 */
#define ADD \
	x += y; \
	__asm__ volatile("" : "+r"(x));
#define ADD8 ADD ADD ADD ADD ADD ADD ADD ADD
static uint64_t __attribute__((noinline)) additions(uint64_t x, uint64_t y, uint64_t n)
{
	for (; n; n -= 64) {
		ADD8 ADD8 ADD8 ADD8 ADD8 ADD8 ADD8 ADD8
	}
	return x;
}

/* Return the time of `length` cycles: a long chain minus a short one, which cancels the cost of reading the clock. */
static uint64_t time_chain(uint64_t length, uint64_t seed)
{
	uint64_t brief = (length / 8 + 63) & ~(uint64_t)63, start, middle, end;
	start = meeting_clock();
	seed = additions(seed, start, brief);
	middle = meeting_clock();
	seed = additions(seed, middle, brief + length);
	__asm__ volatile("" ::"r"(seed));
	end = meeting_clock();
	return end - middle > middle - start ? (end - middle) - (middle - start) : 0;
}

static void switches(uint64_t *forced, uint64_t *own)
{
	struct rusage usage;
	*forced = *own = 0;
	if (!getrusage(RUSAGE_THREAD, &usage)) {
		*forced = (uint64_t)usage.ru_nivcsw;
		*own = (uint64_t)usage.ru_nvcsw;
	}
}

/* Begin the account of disturbances. */
static void begin_account(struct reader *self)
{
	switches(&self->forced, &self->own);
	self->ran = run_time();
	self->since = meeting_clock();
}

/* Write the disturbances since begin_account. */
static void end_account(const struct reader *self, struct meeting_reading *r)
{
	uint64_t ran = run_time() - self->ran, passed = meeting_clock() - self->since;
	r->away = passed > ran ? passed - ran : 0;
	switches(&r->preempted, &r->waited);
	r->preempted -= self->forced;
	r->waited -= self->own;
}

static int pin(int cpu)
{
	int failed = 0;
	size_t size = CPU_ALLOC_SIZE(cpu + 1);
	cpu_set_t *set = CPU_ALLOC(cpu + 1);
	if (!set)
		return ENOMEM;
	CPU_ZERO_S(size, set);
	CPU_SET_S(cpu, size, set);
	if (sched_setaffinity(0, size, set))
		failed = errno;
	CPU_FREE(set);
	return failed;
}

/* Return whether this thread may run on that processor and on no other. */
static int bound_to(int cpu)
{
	cpu_set_t set[8]; /* 8,192 processors */
	if (sched_getaffinity(0, sizeof(set), set))
		return 0;
	return CPU_COUNT_S(sizeof(set), set) == 1 && CPU_ISSET_S(cpu, sizeof(set), set);
}

/* For sched_setattr(2), which glibc before 2.41 does not have. */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
	uint32_t util_min, util_max;
};

/* Make a thread ordinary, with a short slice, so that it is dispatched early. Kernels before 6.12 ignore the slice. */
static void make_ordinary(int tid)
{
	struct attributes a = {.size = sizeof(a), .policy = SCHED_OTHER, .runtime = SLICE};
	a.nice = getpriority(PRIO_PROCESS, (id_t)tid);
	syscall(SYS_sched_setattr, tid, &a, 0);
}

/* Let a thread run before all ordinary ones. Return whether that is allowed. */
static int give_precedence(int tid)
{
	struct sched_param parameter = {.sched_priority = PRIORITY};
	return !sched_setscheduler(tid, SCHED_FIFO, &parameter);
}

/* Read the clock, and keep the longest time between two looks. */
static inline uint64_t look(struct meeting_reading *r, uint64_t *last)
{
	uint64_t now = meeting_clock();
	if (now - *last > r->gap)
		r->gap = now - *last;
	*last = now;
	return now;
}

static void read_sources(struct reader *self, struct meeting_reading *r)
{
	uint32_t at = 0;
	for (uint32_t i = 0; i < self->n_sources; i++) {
		const struct meeting_source *s = &self->sources[i];
		size_t size = s->words * sizeof(uint64_t);
		ssize_t got = s->offset < 0 ? read(s->fd, &r->words[at], size) : pread(s->fd, &r->words[at], size, s->offset);
		if (got != (ssize_t)size)
			r->missing |= 1u << i;
		at += s->words;
	}
}

/*
 * All have come. The snapshot of the ledger is of a moment in the meeting, and then it begins, unless somebody's patience
 * has ended meanwhile.
 */
static void go(struct meeting *m, uint32_t number, uint32_t count)
{
	uint64_t word = WORD(number, OPEN, count);
	if (m->snapshot_at) {
		uint64_t at = meeting_clock() + m->snapshot_ahead;
		__atomic_store_n(m->snapshot_at, at, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		__atomic_store_n(m->snapshot_number, *m->snapshot_number + 1, __ATOMIC_RELEASE);
		atomic_store_explicit(&m->snapshot, at, memory_order_relaxed);
	}
	atomic_compare_exchange_strong_explicit(
		&m->word, &word, WORD(number, GO, count), memory_order_release, memory_order_relaxed);
}

/*
 * Count this reader in and wait for the others. After `patience` it gives way to any thread that wants the processor.
 * Disturbances after that do not count, unless the others have come meanwhile. Return whether all met.
 */
static int meet(struct meeting *m, struct reader *self, struct meeting_reading *r, uint32_t number)
{
	uint32_t expected = atomic_load_explicit(&m->expected, memory_order_relaxed);
	uint64_t last = r->arrived = meeting_clock(), gave_way = 0;
	uint32_t count = count_in(&m->word, number);
	if (!count)
		return 0;
	if (count == expected)
		go(m, number, count);
	for (;;) {
		uint64_t word = atomic_load_explicit(&m->word, memory_order_acquire);
		uint64_t now = look(r, &last);
		if (NUMBER(word) != number || PHASE(word) == VOID_)
			return 0;
		if (PHASE(word) == GO) {
			r->saw_go = now;
			r->gave_way = gave_way ? now - gave_way : 0;
			return 1;
		}
		/* The exchange fails if a reader has come meanwhile: look again, it may have been the last one. */
		if (now - r->arrived > m->wait &&
			atomic_compare_exchange_strong_explicit(
				&m->word, &word, WORD(number, VOID_, COUNT(word)), memory_order_acq_rel, memory_order_relaxed))
			return 0;
		if (gave_way) {
			if (r->gap > MAX_LOOK) {
				begin_account(self);
				last = self->since;
			}
			r->gap = 0;
		} else if (now - r->arrived > m->patience) {
			gave_way = now;
			if (self->fifo)
				make_ordinary(0);
			self->ordinary = 1;
		}
		relax();
	}
}

static void read_in_meeting(struct meeting *m, struct reader *self, struct meeting_reading *r, uint32_t number)
{
	uint32_t expected = atomic_load_explicit(&m->expected, memory_order_relaxed);
	r->before = meeting_clock();
	read_sources(self, r);
	r->after = meeting_clock();
	if (m->chain_length) {
		time_chain(256, r->after); /* bring its code into the cache */
		for (int i = 0; i < MEETING_CHAINS; i++)
			r->chain_ns[i] = time_chain(m->chain_length, r->after + (uint64_t)i);
	}
	uint64_t begun = meeting_clock(), last = begun;
	uint32_t count = count_in(&m->done, number);
	while (count && count < expected) {
		uint64_t word = atomic_load_explicit(&m->done, memory_order_acquire);
		if (NUMBER(word) != number || COUNT(word) >= expected || look(r, &last) - begun > m->patience / 2)
			break;
		relax();
	}
	r->saw_done = meeting_clock();
}

static void attend(struct reader *self, uint32_t number)
{
	struct meeting *m = self->meeting;
	struct meeting_reading *r = &self->reading;
	atomic_store_explicit(&self->published, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	memset(r, 0, sizeof(*r));
	r->attempt = number;
	r->cpu_before = sched_getcpu();
	r->loose = !bound_to(self->cpu);
	if (r->cpu_before != self->cpu || r->loose)
		r->repin_error = pin(self->cpu);
	begin_account(self);
	r->woken = meeting_clock();
	r->met = (uint32_t)meet(m, self, r, number);
	if (r->met)
		read_in_meeting(m, self, r, number);
	end_account(self, r);
	r->cpu_after = sched_getcpu();
	if (self->ordinary && self->fifo)
		give_precedence(0);
	self->ordinary = 0;
	atomic_store_explicit(&self->published, number, memory_order_release);
	if (count_in(&m->left, number) == atomic_load_explicit(&m->expected, memory_order_relaxed)) {
		atomic_store_explicit(&m->over, number, memory_order_release);
		futex_wake(&m->over);
	}
}

static void *reader_main(void *argument)
{
	struct reader *self = argument;
	struct meeting *m = self->meeting;
	uint32_t seen = 0;
	char name[16];
	self->tid = (int)syscall(SYS_gettid);
	snprintf(name, sizeof(name), "headway/%d", self->cpu);
	prctl(PR_SET_NAME, name, 0, 0, 0);
	self->error = pin(self->cpu);
	prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
	self->fifo = self->fifo && give_precedence(0);
	if (!self->fifo)
		make_ordinary(0);
	atomic_fetch_add_explicit(&m->ready, 1, memory_order_release);
	futex_wake(&m->ready);
	for (;;) {
		futex_wait(&m->call, seen, 0);
		uint32_t number = atomic_load_explicit(&m->call, memory_order_acquire);
		if (atomic_load_explicit(&m->stop, memory_order_acquire))
			return NULL;
		if (number == seen)
			continue;
		seen = number;
		if (atomic_load_explicit(&self->expected, memory_order_relaxed))
			attend(self, number);
	}
}

struct meeting *meeting_new(const int *cpus, uint32_t n)
{
	struct meeting *m = NULL;
	if (posix_memalign((void **)&m, LINE, sizeof(*m)))
		return NULL;
	memset(m, 0, sizeof(*m));
	if (posix_memalign((void **)&m->readers, LINE, (n ? n : 1) * sizeof(struct reader))) {
		free(m);
		return NULL;
	}
	memset(m->readers, 0, n * sizeof(struct reader));
	m->n = n;
	m->patience = m->wait = 10000;
	for (uint32_t i = 0; i < n; i++) {
		m->readers[i].meeting = m;
		m->readers[i].cpu = cpus[i];
		m->readers[i].expected = 1;
	}
	return m;
}

void meeting_add_source(struct meeting *m, uint32_t reader, struct meeting_source source)
{
	struct reader *r = &m->readers[reader];
	if (r->n_sources < MEETING_SOURCES)
		r->sources[r->n_sources++] = source;
}

int meeting_start(struct meeting *m, int want_fifo)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int failed = pthread_attr_init(&attributes);
	uint32_t started = 0;
	if (failed)
		return failed;
	if (!sched_getscheduler(0)) /* SCHED_OTHER: the user chose no other policy */
		make_ordinary(0);
	pthread_attr_setstacksize(&attributes, 1 << 16);
	sigfillset(&all); /* the main thread handles signals */
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (; started < m->n && !failed; started++) {
		struct reader *r = &m->readers[started];
		r->fifo = want_fifo;
		failed = pthread_create(&r->thread, &attributes, reader_main, r);
		if (failed)
			break;
		r->started = 1;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	for (uint32_t ready; (ready = atomic_load_explicit(&m->ready, memory_order_acquire)) < started;)
		futex_wait(&m->ready, ready, 0);
	return failed;
}

int meeting_error(const struct meeting *m, uint32_t reader)
{
	return m->readers[reader].error;
}

int meeting_tid(const struct meeting *m, uint32_t reader)
{
	return m->readers[reader].tid;
}

int meeting_fifo(const struct meeting *m, uint32_t reader)
{
	return m->readers[reader].fifo;
}

int meeting_precede(struct meeting *m, int precede)
{
	int all = 1;
	for (uint32_t i = 0; i < m->n; i++) {
		struct reader *r = &m->readers[i];
		if (!r->started)
			continue;
		if (precede)
			r->fifo = give_precedence(r->tid);
		else if (r->fifo)
			make_ordinary(r->tid);
		r->fifo = r->fifo && precede;
		all = all && r->fifo;
	}
	return all;
}

void meeting_expect(struct meeting *m, uint32_t reader, int expected)
{
	atomic_store_explicit(&m->readers[reader].expected, (uint32_t)expected, memory_order_relaxed);
}

void meeting_set_snapshot(struct meeting *m, uint64_t *at, uint32_t *number, uint64_t ahead)
{
	m->snapshot_at = at;
	m->snapshot_number = number;
	m->snapshot_ahead = ahead;
}

void meeting_set_limits(struct meeting *m, uint64_t patience, uint64_t wait, uint64_t chain_length)
{
	m->patience = patience;
	m->wait = wait;
	m->chain_length = (chain_length + 63) & ~(uint64_t)63;
}

int meeting_attempt(struct meeting *m, uint64_t moment, uint64_t deadline)
{
	uint32_t number = atomic_load_explicit(&m->call, memory_order_relaxed) + 1, expected = 0;
	struct attributes usual;
	uint64_t word;
	for (uint32_t i = 0; i < m->n; i++)
		expected += atomic_load_explicit(&m->readers[i].expected, memory_order_relaxed);
	atomic_store_explicit(&m->expected, expected, memory_order_relaxed);
	atomic_store_explicit(&m->left, WORD(number, OPEN, 0), memory_order_relaxed);
	atomic_store_explicit(&m->done, WORD(number, OPEN, 0), memory_order_relaxed);
	atomic_store_explicit(&m->word, WORD(number, OPEN, 0), memory_order_relaxed);
	struct timespec until = timespec_of(moment);
	while (
		expected && meeting_clock() < moment && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
	moment = meeting_clock();
	atomic_store_explicit(&m->call, number, memory_order_release);
	if (!expected)
		return 0;
	/* Only now, as the conductor is about to sleep: before, it would take the processor from a reader that gave way. */
	int precedes = m->readers[0].fifo && !syscall(SYS_sched_getattr, 0, &usual, sizeof(usual), 0) && give_precedence(0);
	futex_wake(&m->call);
	for (;;) {
		uint32_t over = atomic_load_explicit(&m->over, memory_order_acquire);
		if (over == number)
			break;
		if (meeting_clock() >= moment + deadline)
			break;
		futex_wait(&m->over, over, moment + deadline);
	}
	if (precedes)
		syscall(SYS_sched_setattr, 0, &usual, 0);
	/* A reader that has not come by now is too late; the phase does not change after this. */
	word = atomic_load_explicit(&m->word, memory_order_acquire);
	while (PHASE(word) == OPEN &&
		!atomic_compare_exchange_weak_explicit(
			&m->word, &word, WORD(number, VOID_, COUNT(word)), memory_order_acq_rel, memory_order_acquire))
		;
	return PHASE(atomic_load_explicit(&m->word, memory_order_acquire)) == GO;
}

int meeting_sleep(const int *fds, uint32_t n, uint64_t until)
{
	struct pollfd watched[MEETING_WATCHED];
	uint64_t now = meeting_clock();
	struct timespec rest = timespec_of(until > now ? until - now : 0);
	for (uint32_t i = 0; i < n; i++)
		watched[i] = (struct pollfd){.fd = fds[i], .events = POLLIN};
	return ppoll(watched, n, &rest, NULL) != 0;
}

uint64_t meeting_number(const struct meeting *m)
{
	return atomic_load_explicit(&m->call, memory_order_relaxed);
}

uint64_t meeting_snapshot(const struct meeting *m)
{
	return atomic_load_explicit(&m->snapshot, memory_order_relaxed);
}

void meeting_read(const struct meeting *m, uint32_t reader, struct meeting_reading *to)
{
	const struct reader *r = &m->readers[reader];
	memset(to, 0, sizeof(*to));
	if (atomic_load_explicit(&r->published, memory_order_acquire) == meeting_number(m))
		*to = r->reading; /* the reader does not change it until the next attempt is announced */
}

void meeting_free(struct meeting *m)
{
	atomic_store_explicit(&m->stop, 1, memory_order_release);
	atomic_fetch_add_explicit(&m->call, 1, memory_order_release);
	futex_wake(&m->call);
	for (uint32_t i = 0; i < m->n; i++)
		if (m->readers[i].started)
			pthread_join(m->readers[i].thread, NULL);
	free(m->readers);
	free(m);
}
