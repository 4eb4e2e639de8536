/*
 * A program with a planted cause: most of its time goes into one thing, in one of four shapes.
 *
 *     causes CAUSE SHAPE MILLISECONDS [FILE]
 *
 * SHAPE: alone (one thread), pool (four threads; where they compute, one for each processor at most), crowd (four), idle
 * (one thread, beside eight that rest), mixed (one that also computes for a third of its time). FILE: a file on a disk, a
 * FIFO whose other end writes, or a port. `causes serve MILLISECONDS` answers each byte on a socket, whose port it prints,
 * after that time.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000LL
#define MAX_THREADS 4
#define RESTING 8
#define REGION (4 << 20)
#define BLOCK 4096
#define LARGE (16 * BLOCK)
#define POLLED 64
#define FILE_BLOCKS 4096
#define NONE -1

typedef struct {
	int number, file, pipe;
	char *memory;
} worker;

static const char *file_name;
static long long deadline;
static int mixed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, resting = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static atomic_int flag;
static volatile unsigned sink;

static int allowed(void)
{
	cpu_set_t set;
	return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

static long long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 * MS + t.tv_nsec;
}

static void nap(long long ns)
{
	struct timespec t = {ns / (1000 * MS), ns % (1000 * MS)};
	nanosleep(&t, 0);
}

static void compute(long long ns)
{
	for (long long end = now() + ns; now() < end;)
		for (unsigned i = 0; i < 1000; i++)
			sink = sink * 1664525u + i;
}

static void own_code(worker *w)
{
	compute(MS);
}

static void sleeps(worker *w)
{
	nap(2 * MS);
}

static void locked(worker *w)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	nap(MS / 10);
}

/* What the threads of a pool do with the lock themselves. */
static void locked_by_turns(worker *w)
{
	pthread_mutex_lock(&lock);
	compute(MS);
	pthread_mutex_unlock(&lock);
	nap(MS / 20);
}

static void *hold(void *none)
{
	prctl(PR_SET_NAME, "holder");
	while (now() < deadline) {
		pthread_mutex_lock(&lock);
		nap(10 * MS);
		pthread_mutex_unlock(&lock);
		nap(MS / 2);
	}
	return 0;
}

static void writes(worker *w)
{
	if (pwrite(w->file, w->memory, BLOCK, (off_t)(rand() % FILE_BLOCKS) * BLOCK) < 0 || fdatasync(w->file))
		exit(3);
}

static void reads(worker *w)
{
	for (int i = 0; i < 8; i++)
		if (pread(w->file, w->memory, LARGE, (off_t)(rand() % (FILE_BLOCKS / 16)) * LARGE) != LARGE)
			exit(3);
}

static void asks(worker *w)
{
	char byte = 1;
	if (write(w->file, &byte, 1) != 1 || read(w->file, &byte, 1) != 1)
		exit(3);
}

static void takes(worker *w)
{
	char byte;
	if (read(w->file, &byte, 1) != 1)
		exit(3);
}

static void faults(worker *w)
{
	for (int i = 0; i < REGION; i += BLOCK)
		w->memory[i] = 1;
	madvise(w->memory, REGION, MADV_DONTNEED);
}

static void calls(worker *w)
{
	static __thread char bytes[1 << 16];
	for (int i = 0; i < 20; i++)
		if (read(w->file, bytes, sizeof bytes) < 0)
			exit(3);
}

static void polls(worker *w)
{
	struct pollfd never = {w->pipe, POLLIN, 0};
	for (long long end = now() + 2 * MS; now() < end;)
		poll(&never, 1, 0);
}

static void spins(worker *w)
{
	while (!atomic_load_explicit(&flag, memory_order_relaxed))
		;
	atomic_store(&flag, 0);
}

static void *sets(void *none)
{
	prctl(PR_SET_NAME, "setter");
	for (; now() < deadline + 100 * MS; nap(20 * MS))
		atomic_store(&flag, 1);
	return 0;
}

static const struct {
	const char *name;
	void (*step)(worker *);
	int flags; /* how FILE is opened, or NONE */
} CAUSES[] = {
	{"own_code", own_code, NONE},
	{"sleep", sleeps, NONE},
	{"lock", locked, NONE},
	{"disk_writes", writes, O_RDWR},
	{"page_faults", faults, NONE},
	{"disk_reads", reads, O_RDONLY | O_DIRECT},
	{"network", asks, NONE},
	{"pipe", takes, O_RDONLY},
	{"system_calls", calls, O_RDONLY},
	{"polling", polls, NONE},
	{"spinning", spins, NONE},
};

static void (*step)(worker *);
static int flags;

static int connected(void)
{
	struct sockaddr_in to = {AF_INET, htons(atoi(file_name)), {htonl(INADDR_LOOPBACK)}};
	int found = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(found, (void *)&to, sizeof to))
		exit(3);
	return found;
}

static void *run(void *given)
{
	worker *w = given;
	int ends[2];
	if (w->number)
		prctl(PR_SET_NAME, "worker");
	w->memory = mmap(0, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (flags != NONE)
		w->file = open(file_name, flags);
	if (step == asks)
		w->file = connected();
	if (w->file < 0 || pipe(ends))
		exit(3);
	w->pipe = ends[0];
	for (long long began; (began = now()) < deadline;) {
		step(w);
		if (mixed)
			compute((now() - began) / 2);
	}
	return 0;
}

static void *rest(void *even)
{
	prctl(PR_SET_NAME, "resting");
	if (even) {
		struct epoll_event event;
		int never = epoll_create1(0);
		while (now() < deadline)
			epoll_wait(never, &event, 1, 50);
		return 0;
	}
	pthread_mutex_lock(&resting);
	while (now() < deadline)
		pthread_cond_wait(&work, &resting);
	pthread_mutex_unlock(&resting);
	return 0;
}

static int serve(long long delay)
{
	struct sockaddr_in here = {AF_INET, 0, {htonl(INADDR_LOOPBACK)}};
	socklen_t size = sizeof here;
	int all = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(all, (void *)&here, size) || listen(all, 8) || getsockname(all, (void *)&here, &size))
		return 3;
	printf("%d\n", ntohs(here.sin_port));
	fflush(stdout);
	for (;;) {
		int one = accept(all, 0, 0);
		if (fork()) {
			close(one);
			continue;
		}
		for (char byte; read(one, &byte, 1) == 1;) {
			nap(delay);
			if (write(one, &byte, 1) != 1)
				break;
		}
		return 0;
	}
}

int main(int count, char **words)
{
	pthread_t threads[MAX_THREADS], others[RESTING], helper;
	static worker workers[MAX_THREADS];
	if (count == 3 && !strcmp(words[1], "serve"))
		return serve(atoi(words[2]) * MS);
	if (count < 4)
		return 2;
	for (size_t i = 0; i < sizeof CAUSES / sizeof *CAUSES; i++)
		if (!strcmp(words[1], CAUSES[i].name))
			step = CAUSES[i].step, flags = CAUSES[i].flags;
	if (!step)
		return 2;
	int crowd = !strcmp(words[2], "crowd"), pool = crowd || !strcmp(words[2], "pool"),
		rests = strcmp(words[2], "idle") ? 0 : RESTING;
	int waits = step == sleeps || step == locked || step == asks || step == takes || step == writes || step == reads;
	int number = !pool ? 1 : waits || crowd || allowed() > MAX_THREADS ? MAX_THREADS : allowed();
	mixed = !strcmp(words[2], "mixed");
	file_name = count > 4 ? words[4] : "/dev/zero";
	deadline = now() + atoi(words[3]) * MS;
	int held = step == locked && !pool;
	if (step == locked && pool)
		step = locked_by_turns;
	for (int i = 0; i < rests; i++)
		pthread_create(&others[i], 0, rest, i % 2 ? &flag : 0);
	if (held)
		pthread_create(&helper, 0, hold, 0);
	if (step == spins)
		pthread_create(&helper, 0, sets, 0);
	for (int i = 1; i < number; i++) {
		workers[i].number = i;
		pthread_create(&threads[i], 0, run, &workers[i]);
	}
	run(&workers[0]);
	for (int i = 1; i < number; i++)
		pthread_join(threads[i], 0);
	pthread_cond_broadcast(&work);
	for (int i = 0; i < rests; i++)
		pthread_join(others[i], 0);
	if (held || step == spins)
		pthread_join(helper, 0);
}
