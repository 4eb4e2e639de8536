/* SPDX-License-Identifier: Apache-2.0 */
/* Programs with one fault each: faults NAME SECONDS [FILE]. The fault is the only thing worth mending in them.
 *
 * FILE is a scratch file on the disk, for those that need one. Work is a loop of calibrated length, so that what a thread
 * does beside its fault is the same on every machine.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MICROSECOND 1000ull
#define MILLISECOND 1000000ull

static uint64_t length, until;
static double per_ns;
static const char *file;
static volatile uint64_t sink;

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int goes_on(void)
{
	return now() < until;
}

static void steps(uint64_t number)
{
	for (uint64_t i = 0; i < number; i++)
		sink += i ^ (sink >> 3);
}

static void work(uint64_t ns)
{
	steps((uint64_t)(ns * per_ns));
}

static void calibrate(void)
{
	uint64_t best = UINT64_MAX;
	for (int i = 0; i < 5; i++) {
		uint64_t start = now();
		steps(200000);
		uint64_t took = now() - start;
		if (took < best)
			best = took;
	}
	per_ns = 200000.0 / best;
}

static void nap(uint64_t ns)
{
	struct timespec t = {ns / 1000000000ull, ns % 1000000000ull};
	nanosleep(&t, NULL);
}

static void be(const char *name)
{
	prctl(PR_SET_NAME, name);
}

static void on_one_processor(void)
{
	cpu_set_t set;
	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void check(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(1);
	}
}

static void in_threads(int number, void *(*run)(void *))
{
	pthread_t threads[16];
	for (int i = 0; i < number; i++)
		check(pthread_create(&threads[i], NULL, run, (void *)(intptr_t)i), "pthread_create");
	for (int i = 0; i < number; i++)
		pthread_join(threads[i], NULL);
}

/* one lock around nearly all work */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *locker(void *number)
{
	(void)number;
	be("locker");
	while (goes_on()) {
		pthread_mutex_lock(&lock);
		work(300 * MICROSECOND);
		pthread_mutex_unlock(&lock);
		work(20 * MICROSECOND);
	}
	return NULL;
}
static void contended(void)
{
	in_threads(3, locker);
}

/* a thread sleeps while it holds the lock */
static void *sleeper(void *number)
{
	be(number ? "waiter" : "holder");
	while (goes_on()) {
		pthread_mutex_lock(&lock);
		if (number)
			work(50 * MICROSECOND);
		else
			nap(20 * MILLISECOND);
		pthread_mutex_unlock(&lock);
		nap(number ? 100 * MICROSECOND : 1 * MILLISECOND);
	}
	return NULL;
}
static void convoy(void)
{
	in_threads(2, sleeper);
}

/* asks an epoll again and again, with a timeout of 0 */
static void epoll(void)
{
	int ends[2], epoll = epoll_create1(0);
	check(pipe(ends), "pipe");
	struct epoll_event event = {.events = EPOLLIN};
	check(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event), "epoll_ctl");
	while (goes_on())
		for (int i = 0; i < 100; i++)
			epoll_wait(epoll, &event, 1, 0);
}

/* asks a socket that does not block again and again */
static void receive(void)
{
	int ends[2];
	char byte;
	check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), "socketpair");
	while (goes_on())
		for (int i = 0; i < 100; i++)
			(void)!recv(ends[0], &byte, 1, 0);
}

/* spins until another thread has done its part, yielding */
static volatile int turn;
static void *yielder(void *number)
{
	be(number ? "spinner" : "worker");
	while (goes_on()) {
		while (turn != (int)(intptr_t)number && goes_on())
			sched_yield();
		if (!number)
			work(2 * MILLISECOND);
		turn = !number;
	}
	return NULL;
}
static void yields(void)
{
	in_threads(2, yielder);
}

/* writes single bytes */
static void small_writes(void)
{
	int out = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	check(out < 0, file);
	while (goes_on()) {
		for (int i = 0; i < 1000; i++)
			(void)!write(out, "x", 1);
		(void)!ftruncate(out, 0);
		lseek(out, 0, SEEK_SET);
	}
}

/* forces each small write to the disk */
static void forced(void)
{
	int out = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	check(out < 0, file);
	while (goes_on()) {
		(void)!write(out, "record\n", 7);
		fsync(out);
	}
}

/* gives memory back and touches it anew */
static void page_faults(void)
{
	size_t size = 32 << 20;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(memory == MAP_FAILED, "mmap");
	madvise(memory, size, MADV_NOHUGEPAGE);
	while (goes_on()) {
		for (size_t at = 0; at < size; at += 4096)
			memory[at] = 1;
		madvise(memory, size, MADV_DONTNEED);
	}
}

/* maps and unmaps */
static void mappings(void)
{
	while (goes_on())
		for (int i = 0; i < 100; i++) {
			char *memory = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			check(memory == MAP_FAILED, "mmap");
			munmap(memory, 1 << 16);
		}
}

/* a process for each little thing */
static void processes(void)
{
	while (goes_on()) {
		pid_t child = fork();
		check(child < 0, "fork");
		if (!child) {
			work(20 * MICROSECOND);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
}

/* another process wants the same processor */
static void neighbour(void)
{
	on_one_processor();
	pid_t child = fork();
	check(child < 0, "fork");
	be(child ? "victim" : "neighbour");
	while (goes_on())
		work(1 * MILLISECOND);
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
}

/* more threads that compute than processors */
static void *burner(void *number)
{
	(void)number;
	be("burner");
	while (goes_on())
		work(1 * MILLISECOND);
	return NULL;
}
static void own_threads(void)
{
	on_one_processor();
	in_threads(4, burner);
}

/* computes; the quota is set from outside */
static void computes(void)
{
	burner(NULL);
}

/* wakes up far too often */
static void naps(void)
{
	prctl(PR_SET_TIMERSLACK, 1);
	while (goes_on())
		for (int i = 0; i < 100; i++)
			nap(1);
}

/* reads from a pipe that a slow process fills */
static void slow_pipe(void)
{
	int ends[2];
	char byte;
	check(pipe(ends), "pipe");
	pid_t child = fork();
	check(child < 0, "fork");
	be(child ? "consumer" : "producer");
	if (!child) {
		close(ends[0]);
		while (goes_on()) {
			work(5 * MILLISECOND);
			(void)!write(ends[1], "x", 1);
		}
		_exit(0);
	}
	close(ends[1]);
	while (read(ends[0], &byte, 1) == 1)
		work(100 * MICROSECOND);
	waitpid(child, NULL, 0);
}

/* waits for one child after the other */
static void slow_child(void)
{
	be("parent");
	while (goes_on()) {
		pid_t child = fork();
		check(child < 0, "fork");
		if (!child) {
			be("child");
			work(50 * MILLISECOND);
			_exit(0);
		}
		waitpid(child, NULL, 0);
		work(1 * MILLISECOND);
	}
}

/* asks a server that sleeps before it answers */
static void slow_server(void)
{
	int ends[2];
	char byte;
	check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
	pid_t child = fork();
	check(child < 0, "fork");
	be(child ? "client" : "server");
	close(ends[!!child]);
	if (!child) {
		while (recv(ends[1], &byte, 1, 0) == 1) {
			nap(10 * MILLISECOND);
			(void)!send(ends[1], "x", 1, MSG_NOSIGNAL);
		}
		_exit(0);
	}
	while (goes_on()) {
		(void)!send(ends[0], "x", 1, MSG_NOSIGNAL);
		(void)!recv(ends[0], &byte, 1, 0);
		work(500 * MICROSECOND);
	}
	close(ends[0]);
	waitpid(child, NULL, 0);
}

/* reads a file that is never in memory */
static void cold_file(void)
{
	static char buffer[1 << 16] __attribute__((aligned(4096)));
	size_t size = 64 << 20;
	int in = open(file, O_RDWR | O_CREAT | O_TRUNC, 0600);
	check(in < 0, file);
	for (size_t at = 0; at < size; at += sizeof(buffer))
		check(write(in, buffer, sizeof(buffer)) != sizeof(buffer), file);
	fsync(in);
	be("reader");
	until = now() + length;
	for (size_t at = 0; goes_on(); at = (at + sizeof(buffer) * 7) % size) {
		posix_fadvise(in, 0, 0, POSIX_FADV_DONTNEED);
		(void)!pread(in, buffer, sizeof(buffer), at);
	}
}

/* two processes share a file by its lock */
static void file_lock(void)
{
	pid_t child = fork();
	check(child < 0, "fork");
	be(child ? "writer" : "keeper");
	int mine = open(file, O_RDWR | O_CREAT, 0600);
	check(mine < 0, file);
	while (goes_on()) {
		flock(mine, LOCK_EX);
		work(child ? 100 * MICROSECOND : 10 * MILLISECOND);
		flock(mine, LOCK_UN);
		nap(200 * MICROSECOND);
	}
	if (!child)
		_exit(0);
	waitpid(child, NULL, 0);
}

static const struct {
	const char *name;
	void (*run)(void);
} faults[] = {
	{"contended", contended}, {"convoy", convoy},	    {"epoll", epoll},		  {"receive", receive},
	{"yields", yields},	  {"small-writes", small_writes}, {"forced", forced},	  {"page-faults", page_faults},
	{"mappings", mappings},	  {"processes", processes}, {"neighbour", neighbour},	  {"own-threads", own_threads},
	{"quota", computes},	  {"naps", naps},	    {"slow-pipe", slow_pipe},	  {"slow-child", slow_child},
	{"slow-server", slow_server}, {"cold-file", cold_file}, {"file-lock", file_lock},
};

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	file = argc > 3 ? argv[3] : "";
	calibrate();
	length = (uint64_t)(atof(argv[2]) * 1e9);
	until = now() + length;
	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		if (!strcmp(argv[1], faults[i].name)) {
			faults[i].run();
			return 0;
		}
	fprintf(stderr, "there is no fault %s\n", argv[1]);
	return 2;
}
