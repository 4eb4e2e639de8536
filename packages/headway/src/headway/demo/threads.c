/*
 * A small program whose threads know what they do.
 *
 * Every thread has a name, does one thing, and measures itself meanwhile: processor time with CLOCK_THREAD_CPUTIME_ID,
 * which preemption does not disturb, and waiting with CLOCK_MONOTONIC. At the end the program prints what each thread
 * knows as one JSON document on standard output. A tool that watched from outside can be compared with it. A thread
 * reports only what it really knows: one that makes system calls all the time can count them, but it could measure their
 * duration only by making other calls.
 *
 * The threads want this much processor time: compute 1, memory 1 in the first half, syscalls 1 in the second half, dodger
 * 1/4, poller and marked 1/5 each, the others little. This is more than 2 1/2 processors, so that on a machine with two
 * processors a thread also has to wait for its turn.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <linux/magic.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <headway.h>

#define SECOND 1000000000LL
#define MILLISECOND 1000000LL
#define MICROSECOND 1000LL
#define MIB (1LL << 20)
#define LINE 64 /* bytes of a cache line; a divisor of the real size is good enough */
#define MAX_FIGURES 10

struct figure {
	const char *key;
	double value; /* whole nanoseconds and counts are exact up to 2^53 */
	int decimals;
};

struct worker {
	const char *name;
	const char *what;
	const char *aim;
	void (*run)(struct worker *);
	bool selected;
	bool created;
	pthread_t thread;
	long tid;
	const char *skipped; /* why it did nothing, if it did nothing */
	struct figure figures[MAX_FIGURES];
	int n_figures;
	alignas(128) atomic_bool stop; /* alone on its cache line, because the loops read it */
};

static int64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

static int64_t wall(void)
{
	return now(CLOCK_MONOTONIC);
}

static int64_t processor_time(void)
{
	return now(CLOCK_THREAD_CPUTIME_ID);
}

/* Return what one reading of the thread's own clock, a system call, adds to a time measured with two of them. */
static int64_t cost_of_reading(void)
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < 100; i++) {
		int64_t start = processor_time(), cost = processor_time() - start;

		least = cost < least ? cost : least;
	}
	return least;
}

static void sleep_until(int64_t when)
{
	struct timespec t = {when / SECOND, when % SECOND};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* The time of a sleeping thread: it waits until the moment it asked for; after that it is ready and wants its turn. */
struct pause {
	int64_t waited;
	int64_t late;
};

static void doze(struct pause *p, int64_t length)
{
	int64_t start = wall();

	sleep_until(start + length);
	p->waited += length;
	p->late += wall() - start - length;
}

static bool stopped(struct worker *w)
{
	return atomic_load_explicit(&w->stop, memory_order_relaxed);
}

static void report_decimal(struct worker *w, const char *key, double value, int decimals)
{
	if (w->n_figures == MAX_FIGURES) {
		fprintf(stderr, "threads: more figures than there is room for\n");
		abort();
	}
	w->figures[w->n_figures++] = (struct figure){key, value, decimals};
}

static void report(struct worker *w, const char *key, int64_t value)
{
	report_decimal(w, key, (double)value, 0);
}

/* Compute in registers. The result must be used, or the compiler removes the computation. */
static uint64_t arithmetic(uint64_t x, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		__asm__ volatile("" : "+r"(x));
	}
	return x;
}

/* compute ----------------------------------------------------------------------------------------------------------- */

static void compute(struct worker *w)
{
	int64_t wall_start = wall(), start = processor_time(), used, passed;
	uint64_t x = 88172645463325252ULL;

	while (!stopped(w))
		x = arithmetic(x, 10000);
	used = processor_time() - start;
	passed = wall() - wall_start;
	report(w, "user_ns", used);
	report(w, "ready_ns", passed > used ? passed - used : 0); /* it never waits, so the rest is time without a turn */
}

/* memory ------------------------------------------------------------------------------------------------------------ */

static struct {
	char *start;
	int64_t size;
	int64_t cache;
} buffer;

static int64_t read_number(const char *path, int64_t otherwise)
{
	FILE *file = fopen(path, "re");
	long long number;
	char unit = 0;
	int found;

	if (!file)
		return otherwise;
	found = fscanf(file, "%lld%c", &number, &unit);
	fclose(file);
	if (found < 1)
		return otherwise;
	return number * (unit == 'K' ? 1024 : unit == 'M' ? MIB : 1);
}

static int64_t last_level_cache(void)
{
	int64_t size, largest = 0;
	char path[80];

	for (int i = 0; i < 8; i++) {
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
		size = read_number(path, 0);
		largest = size > largest ? size : largest;
	}
	return largest;
}

static int64_t memory_to_spare(void)
{
	int64_t available = INT64_MAX, limit = read_number("/sys/fs/cgroup/memory.max", INT64_MAX);
	int64_t old_limit = read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", INT64_MAX); /* cgroup v1 */
	FILE *file = fopen("/proc/meminfo", "re");
	char line[128];
	long long kib;

	while (file && fgets(line, sizeof line, file))
		if (sscanf(line, "MemAvailable: %lld kB", &kib) == 1)
			available = kib * 1024;
	if (file)
		fclose(file);
	limit = old_limit < limit ? old_limit : limit;
	return limit < available ? limit : available;
}

/*
 * Lay a ring of pointers through every cache line of the buffer. The order is that of a linear congruential generator with
 * full period (Hull and Dobell: odd increment, multiplier = 1 mod 4, power of two as modulus). It has no stride for a
 * prefetcher to find, and it can be written from front to back, which also touches every page.
 */
static const char *lay_ring(void)
{
	int64_t wanted, lines;

	buffer.cache = last_level_cache();
	wanted = buffer.cache ? 4 * buffer.cache : 128 * MIB;
	for (buffer.size = 64 * MIB; buffer.size < wanted && buffer.size < 256 * MIB; buffer.size *= 2)
		;
	while (buffer.size > memory_to_spare() / 4)
		buffer.size /= 2;
	if (buffer.size < MIB)
		return "too little memory is free";
	buffer.start = mmap(NULL, buffer.size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer.start == MAP_FAILED)
		return "no memory for its buffer";
	lines = buffer.size / LINE;
	for (int64_t i = 0; i < lines; i++) {
		uint64_t next = ((uint64_t)i * 1664525u + 1013904223u) & (uint64_t)(lines - 1);

		*(char **)(buffer.start + i * LINE) = buffer.start + next * LINE;
	}
	return NULL;
}

static void chase(struct worker *w)
{
	int64_t wall_start = wall(), start = processor_time(), used, passed, accesses = 0;
	char *at = buffer.start;

	while (!stopped(w)) {
		for (int i = 0; i < 1024; i++)
			at = *(char *volatile *)at;
		accesses += 1024;
	}
	used = processor_time() - start;
	passed = wall() - wall_start;
	report(w, "user_ns", used);
	report(w, "ready_ns", passed > used ? passed - used : 0);
	report(w, "accesses", accesses);
	report_decimal(w, "access_ns", accesses ? (double)used / (double)accesses : 0, 2);
	report(w, "buffer_bytes", buffer.size);
	report(w, "cache_bytes", buffer.cache);
}

/* syscalls ---------------------------------------------------------------------------------------------------------- */

static void call(struct worker *w)
{
	int64_t wall_start = wall(), start = processor_time(), used, passed, calls = 0;

	while (!stopped(w)) {
		for (int i = 0; i < 256; i++)
			syscall(SYS_getppid);
		calls += 256;
	}
	used = processor_time() - start;
	passed = wall() - wall_start;
	report(w, "calls", calls);
	report_decimal(w, "call_ns", calls ? (double)used / (double)calls : 0, 1);
	report(w, "ready_ns", passed > used ? passed - used : 0);
}

/* lock and holder --------------------------------------------------------------------------------------------------- */

#define HELD (9 * MILLISECOND)
#define FREE (1 * MILLISECOND)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int64_t released; /* the time at which holder released the mutex; protected by the mutex */

static void hold(struct worker *w)
{
	struct pause with = {0}, without = {0};
	int64_t held = 0, calls = 0, start;

	while (!stopped(w)) {
		pthread_mutex_lock(&mutex);
		start = wall();
		doze(&with, HELD);
		released = wall();
		held += released - start;
		pthread_mutex_unlock(&mutex);
		doze(&without, FREE);
		calls += 2;
	}
	report(w, "held_ns", held);
	report(w, "calls", calls);
	report(w, "wait_ns", with.waited + without.waited);
	report(w, "ready_ns", with.late + without.late);
}

static void wait_for_lock(struct worker *w)
{
	struct pause without = {0};
	int64_t for_lock = 0, late = 0, locks = 0, start, end;
	uint64_t x = 1;

	while (!stopped(w)) {
		start = wall();
		pthread_mutex_lock(&mutex);
		end = wall();
		if (released > start) {
			for_lock += released - start;
			late += end - released;
		}
		locks++;
		while (wall() < end + 100 * MICROSECOND)
			x = arithmetic(x, 1000);
		pthread_mutex_unlock(&mutex);
		doze(&without, FREE); /* so that the holder takes it again */
	}
	report(w, "lock_ns", for_lock);
	report(w, "wait_ns", for_lock + without.waited);
	report(w, "ready_ns", late + without.late);
	report(w, "locks", locks);
}

/* sleeper ----------------------------------------------------------------------------------------------------------- */

static void sleep_mostly(struct worker *w)
{
	struct pause pause = {0};
	int64_t calls = 0;

	while (!stopped(w)) {
		doze(&pause, 5 * MILLISECOND);
		calls++;
	}
	report(w, "wait_ns", pause.waited);
	report(w, "ready_ns", pause.late);
	report(w, "calls", calls);
}

/* dodger ------------------------------------------------------------------------------------------------------------ */

static struct {
	int64_t period;
	int64_t phase; /* a tick falls at each moment at which CLOCK_MONOTONIC modulo period has this value */
} tick;

/*
 * Find the period and phase of the tick. The tick moves the coarse clock on, and ticks are a fixed number of nanoseconds of
 * CLOCK_MONOTONIC apart. A movement can be seen late but never early, so the earliest of several is the phase. The main
 * thread does this, because a thread that watches for a tick is running when it falls.
 */
static void find_tick(void)
{
	struct timespec resolution;
	int64_t before, seen, give_up, late, earliest = 0;

	clock_getres(CLOCK_MONOTONIC_COARSE, &resolution);
	tick.period = resolution.tv_sec * SECOND + resolution.tv_nsec;
	if (tick.period < 500 * MICROSECOND || tick.period > 20 * MILLISECOND)
		tick.period = 4 * MILLISECOND;
	for (int i = 0; i < 5; i++) {
		before = now(CLOCK_MONOTONIC_COARSE);
		give_up = wall() + 3 * tick.period;
		do
			seen = wall();
		while (now(CLOCK_MONOTONIC_COARSE) == before && seen < give_up);
		if (i == 0)
			tick.phase = seen % tick.period;
		late = (seen - tick.phase) % tick.period;
		if (late > tick.period / 2)
			late -= tick.period;
		earliest = late < earliest ? late : earliest;
	}
	tick.phase += earliest;
}

static int64_t nanoseconds(struct timeval t)
{
	return t.tv_sec * SECOND + t.tv_usec * MICROSECOND;
}

static void dodge(struct worker *w)
{
	const int64_t begin = tick.period * 3 / 8, burst = tick.period / 8, latest = tick.period * 5 / 8;
	static char
		random_bytes[1 << 16]; /* a long call, so that almost none of the loop around it is outside the kernel */
	int64_t user = 0, kernel = 0, bursts = 0, calls = 0, cost = cost_of_reading();
	struct rusage usage;
	uint64_t x = 1;

	while (!stopped(w)) {
		int64_t start = wall(), into = (start - tick.phase) % tick.period;
		int64_t asleep, working, calling, end;

		asleep = processor_time();
		if (into < begin || into > latest) {
			sleep_until(start - into + begin + (into > latest ? tick.period : 0));
			kernel += processor_time() - asleep;
			continue;
		}
		working = processor_time();
		while (wall() < start + burst)
			x = arithmetic(x, 1000);
		calling = processor_time();
		user += calling - working - cost;
		end = wall() + burst;
		for (; wall() < end && wall() < start - into + latest + 2 * burst; calls++)
			syscall(SYS_getrandom, random_bytes, sizeof random_bytes, 0);
		bursts++;
		sleep_until(start - into + begin + tick.period);
		kernel += processor_time() - calling + cost;
	}
	getrusage(RUSAGE_THREAD, &usage);
	report(w, "user_ns", user);
	report(w, "kernel_ns", kernel);
	report(w, "bursts", bursts);
	report(w, "calls", calls);
	report(w, "tick_user_ns", nanoseconds(usage.ru_utime));
	report(w, "tick_kernel_ns", nanoseconds(usage.ru_stime));
}

/* disk -------------------------------------------------------------------------------------------------------------- */

#define BLOCK (256 * 1024)
#define BLOCKS 16

static struct {
	int fd;
	int direct;
	bool in_memory;
	char *block;
} disk = {.fd = -1, .direct = -1};

static int open_nameless(const char *directory)
{
	char name[4096];
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0 || snprintf(name, sizeof name, "%s/headway-demo-XXXXXX", directory) >= (int)sizeof name)
		return fd;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd >= 0)
		unlink(name);
	return fd;
}

/* Make a file without a name, so that nothing is left behind however the program ends; if possible not in memory. */
static const char *make_file(void)
{
	const char *directories[] = {getenv("TMPDIR"), "/var/tmp", "/tmp", "."};
	char path[64];

	for (size_t i = 0; i < sizeof directories / sizeof *directories; i++) {
		struct statfs fs;
		bool in_memory;
		int fd = directories[i] && *directories[i] ? open_nameless(directories[i]) : -1;

		if (fd < 0)
			continue;
		in_memory = fstatfs(fd, &fs) || fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC;
		if (disk.fd >= 0 && in_memory) {
			close(fd);
			continue;
		}
		if (disk.fd >= 0)
			close(disk.fd);
		disk.fd = fd;
		disk.in_memory = in_memory;
		if (!in_memory)
			break;
	}
	if (disk.fd < 0)
		return "no directory to write a file in: set TMPDIR to one";
	if (posix_memalign((void **)&disk.block, 4096, BLOCK))
		return "no memory for its buffer";
	memset(disk.block, 'h', BLOCK);
	for (int i = 0; i < BLOCKS; i++)
		if (pwrite(disk.fd, disk.block, BLOCK, (off_t)i * BLOCK) != BLOCK)
			return "no room for a file of 4 MiB: set TMPDIR to a directory that has it";
	fdatasync(disk.fd);
	snprintf(path, sizeof path, "/proc/self/fd/%d", disk.fd);
	disk.direct = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (disk.direct >= 0 && pread(disk.direct, disk.block, BLOCK, 0) != BLOCK) {
		close(disk.direct);
		disk.direct = -1;
	}
	return NULL;
}

static void use_disk(struct worker *w)
{
	const int64_t round = 10 * MILLISECOND;
	int64_t waited = 0, syncs = 0, reads = 0, written = 0;

	for (int64_t i = 0; !stopped(w); i++) {
		int64_t start = wall(), cpu = processor_time();

		/* Make one synchronous write a round, to spare flash; the rest of the round reads what was written. */
		if (pwrite(disk.fd, disk.block, BLOCK / 16, (i % BLOCKS) * BLOCK) > 0)
			written += BLOCK / 16;
		fdatasync(disk.fd);
		syncs++;
		while (disk.direct >= 0 && !stopped(w) && wall() < start + round) {
			if (pread(disk.direct, disk.block, BLOCK, (reads++ * 7 % BLOCKS) * BLOCK) < 0)
				break;
		}
		if (wall() < start + round)
			sleep_until(start + round);
		waited += (wall() - start) - (processor_time() - cpu);
	}
	report(w, "away_ns", waited > 0 ? waited : 0); /* it cannot tell waiting from waiting for its turn */
	report(w, "syncs", syncs);
	report(w, "reads", reads);
	report(w, "written_bytes", written);
	report(w, "in_memory", disk.in_memory);
}

/* poller ------------------------------------------------------------------------------------------------------------ */

static struct {
	int timer;
	int epoll;
} polled = {.timer = -1, .epoll = -1};

static const char *make_timer(void)
{
	struct epoll_event readable = {.events = EPOLLIN};

	polled.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	polled.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (polled.timer < 0 || polled.epoll < 0 || epoll_ctl(polled.epoll, EPOLL_CTL_ADD, polled.timer, &readable))
		return "no timer to poll: timerfd or epoll failed";
	return NULL;
}

/*
 * Make rows of status checks, each of which finds nothing until the timer expires; then work. The thread's clock is read
 * before and after a row but never inside it: reading it is a system call, and would end the row.
 */
static void poll_timer(struct worker *w)
{
	const int64_t round = 10 * MILLISECOND, row = MILLISECOND, work = MILLISECOND;
	int64_t polling = 0, working = 0, checks = 0, found = 0, cost = cost_of_reading();
	uint64_t x = 1, expirations;
	struct epoll_event event;

	while (!stopped(w)) {
		int64_t start = wall(), due = start + row, begun, end;
		struct itimerspec once = {.it_value = {due / SECOND, due % SECOND}};

		if (timerfd_settime(polled.timer, TFD_TIMER_ABSTIME, &once, NULL))
			break;
		begun = processor_time();
		while (epoll_wait(polled.epoll, &event, 1, 0) == 0)
			checks++;
		polling += processor_time() - begun - cost;
		found += read(polled.timer, &expirations, sizeof expirations) > 0;
		end = wall() + work;
		begun = processor_time();
		while (wall() < end)
			x = arithmetic(x, 1000);
		working += processor_time() - begun - cost;
		sleep_until(start + round);
	}
	report(w, "poll_ns", polling);
	report(w, "user_ns", working);
	report(w, "checks", checks);
	report(w, "found", found);
}

/* marked ------------------------------------------------------------------------------------------------------------ */

static long parse(const char *text)
{
	long sum = 0;
	char *end;

	for (;; text = end) {
		long number = strtol(text, &end, 10);

		if (end == text)
			return sum;
		sum += number;
	}
}

/*
 * Spend one third on work, one third on parsing what was parsed before, and one third on spinning until a moment. All of it
 * is the thread's own code, and only its marks tell the parts apart. Its clock is read outside the regions. The regions are
 * long, so that the thread is interrupted and switched out inside them.
 */
static void mark(struct worker *w)
{
	const int64_t round = 300 * MILLISECOND, part = 20 * MILLISECOND;
	int64_t working = 0, parsing = 0, spinning = 0, regions = 0, cost = cost_of_reading(), begun, end;
	static char text[4096];
	volatile long sum = 0;
	uint64_t x = 1;

	for (size_t i = 0; i + 8 < sizeof text; i += 8)
		snprintf(text + i, sizeof text - i, "%7zu ", i * 1237 % 10000000);
	while (!stopped(w)) {
		int64_t start = wall();

		begun = processor_time();
		for (end = start + part; !stopped(w) && wall() < end;)
			x = arithmetic(x, 1000);
		working += processor_time() - begun - cost;

		begun = processor_time();
		HEADWAY_NONEFFECTIVE("parse")
		{
			for (end = wall() + part; !stopped(w) && wall() < end;)
				sum += parse(text);
		}
		parsing += processor_time() - begun - cost;

		begun = processor_time();
		HEADWAY_POLL("spin")
		{
			for (end = wall() + part; !stopped(w) && wall() < end;)
				;
		}
		spinning += processor_time() - begun - cost;

		regions += 2;
		while (!stopped(w) && wall() < start + round)
			sleep_until(wall() + 5 * MILLISECOND);
	}
	report(w, "user_ns", working);
	report(w, "parse_ns", parsing);
	report(w, "poll_ns", spinning);
	report(w, "regions", regions);
}

/* The program ------------------------------------------------------------------------------------------------------- */

enum { COMPUTE, MEMORY, SYSCALLS, LOCK, HOLDER, SLEEPER, DODGER, DISK, POLLER, MARKED, WORKERS };

static struct worker workers[WORKERS] = {
	[COMPUTE] = {"compute", "arithmetic in registers", "user all the time", compute},
	[MEMORY] = {"memory", "follows pointers through a buffer larger than the caches", "user all the time, in stalls",
		chase},
	[SYSCALLS] = {"syscalls", "calls getppid in a loop", "kernel for the most part", call},
	[LOCK] = {"lock", "waits for a mutex that holder has", "waits 9 parts of 10 for the mutex", wait_for_lock},
	[HOLDER] = {"holder", "holds that mutex, asleep", "holds 9 ms, leaves it free 1 ms", hold},
	[SLEEPER] = {"sleeper", "sleeps 5 ms at a time", "waits all the time", sleep_mostly},
	[DODGER] = {"dodger", "works only between two ticks", "half user, half kernel, a quarter of the time", dodge},
	[DISK] = {"disk", "writes and syncs a file, reads it past the cache", "waits for the disk most of the time",
		use_disk},
	[POLLER] = {"poller", "asks for a timer in rows, then works", "polls 1 ms, works 1 ms, sleeps 8 ms", poll_timer},
	[MARKED] = {"marked", "marks what of its own code is no progress", "works, parses, spins, 20 ms each; then sleeps",
		mark},
};

static void *start_worker(void *argument)
{
	struct worker *w = argument;
	int64_t start = wall();

	pthread_setname_np(pthread_self(), w->name);
	prctl(PR_SET_TIMERSLACK, 1UL); /* ns; with the default the kernel could wake it 50 us late */
	w->tid = syscall(SYS_gettid);
	w->run(w);
	report(w, "cpu_ns", processor_time());
	report(w, "elapsed_ns", wall() - start);
	return NULL;
}

static void create(struct worker *w)
{
	int error;

	if (!w->selected || w->skipped)
		return;
	error = pthread_create(&w->thread, NULL, start_worker, w);
	if (error) {
		w->skipped = strerror(error);
		return;
	}
	w->created = true;
}

static void finish(struct worker *w)
{
	atomic_store(&w->stop, true);
	if (!w->created)
		return;
	pthread_join(w->thread, NULL);
	w->created = false;
}

/* Wait until that moment or a signal. Signals are blocked, so none is missed. Return true if a signal came. */
static bool pause_until(int64_t when, const sigset_t *signals)
{
	int64_t left;

	while ((left = when - wall()) > 0) {
		struct timespec t = {left / SECOND, left % SECOND};

		if (sigtimedwait(signals, NULL, &t) > 0)
			return true;
	}
	return false;
}

static void print(double seconds, int64_t elapsed, bool interrupted)
{
	const char *separator = "";

	printf("{\"program\": \"threads\", \"pid\": %ld, \"seconds\": %g, \"elapsed_ns\": %lld, \"interrupted\": %s, ",
		(long)getpid(), seconds, (long long)elapsed, interrupted ? "true" : "false");
	printf("\"tick_ns\": %lld, \"threads\": [", (long long)tick.period);
	for (struct worker *w = workers; w < workers + WORKERS; w++) {
		if (!w->selected)
			continue;
		printf("%s\n  {\"name\": \"%s\", \"tid\": %ld, \"what\": \"%s\", \"aim\": \"%s\", ", separator, w->name, w->tid,
			w->what, w->aim);
		if (w->skipped)
			printf("\"skipped\": \"%s\", ", w->skipped);
		printf("\"truth\": {");
		for (int i = 0; i < w->n_figures; i++)
			printf("%s\"%s\": %.*f", i ? ", " : "", w->figures[i].key, w->figures[i].decimals, w->figures[i].value);
		printf("}}");
		separator = ",";
	}
	printf("\n]}\n");
}

static void usage(FILE *out)
{
	fprintf(out,
		"usage: threads [--seconds N] [--only NAME[,NAME...]]\n"
		"Runs threads that know what they do and prints what they know as JSON.\n"
		"  --seconds N   how long, 0.05 to 3600 (default: 3); SIGINT ends it early\n"
		"  --only NAMES  only these threads:");
	for (int i = 0; i < WORKERS; i++)
		fprintf(out, " %s", workers[i].name);
	fprintf(out, "\n                (lock brings holder with it)\n");
}

static int misused(const char *what, const char *value)
{
	fprintf(stderr, "threads: %s: '%s'\n", what, value);
	usage(stderr);
	return 2;
}

static bool select_only(char *names, const char **unknown)
{
	char *rest = NULL;

	for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
		int i = 0;

		while (i < WORKERS && strcmp(name, workers[i].name))
			i++;
		if (i == WORKERS) {
			*unknown = name;
			return false;
		}
		workers[i].selected = true;
	}
	if (workers[LOCK].selected)
		workers[HOLDER].selected = true;
	for (int i = 0; i < WORKERS; i++)
		if (workers[i].selected)
			return true;
	*unknown = names;
	return false;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"seconds", required_argument, NULL, 's'},
		{"only", required_argument, NULL, 'o'},
		{"help", no_argument, NULL, 'h'},
		{0},
	};
	const char *unknown;
	bool all = true, interrupted;
	double seconds = 3;
	int64_t start;
	sigset_t signals;
	char *end;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 's':
			seconds = strtod(optarg, &end);
			if (*end || end == optarg || !(seconds >= 0.05 && seconds <= 3600))
				return misused("not a number of seconds from 0.05 to 3600", optarg);
			break;
		case 'o':
			all = false;
			if (!select_only(optarg, &unknown))
				return misused("no thread of that name", unknown);
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
	}
	if (optind < argc)
		return misused("unexpected argument", argv[optind]);

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	for (int i = 0; i < WORKERS; i++)
		workers[i].selected |= all;

	if (workers[MEMORY].selected)
		workers[MEMORY].skipped = lay_ring();
	if (workers[DISK].selected)
		workers[DISK].skipped = make_file();
	if (workers[POLLER].selected)
		workers[POLLER].skipped = make_timer();
	find_tick();

	start = wall();
	for (int i = 0; i < WORKERS; i++)
		if (i != SYSCALLS || !workers[MEMORY].selected)
			create(&workers[i]);
	interrupted = pause_until(start + (int64_t)(seconds * SECOND / 2), &signals);
	if (workers[MEMORY].selected && workers[SYSCALLS].selected) {
		finish(&workers[MEMORY]);
		if (interrupted)
			workers[SYSCALLS].skipped = "interrupted before it began";
		else
			create(&workers[SYSCALLS]);
	}
	interrupted = interrupted || pause_until(start + (int64_t)(seconds * SECOND), &signals);
	for (int i = 0; i < WORKERS; i++)
		atomic_store(&workers[i].stop, true);
	for (int i = 0; i < WORKERS; i++)
		finish(&workers[i]);
	print(seconds, wall() - start, interrupted);
	return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
