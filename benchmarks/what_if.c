/*
 * Small programs, each of which can be changed in one way: `what_if PROGRAM [changed]`. what_if.py predicts the effect of
 * the change from a recording of the unchanged program, and measures it.
 *
 * Work is counted in loops, not in time, so that it is the same with and without the change.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "headway.h"

enum { MS = 1000000, LOOPS = 3000 }; /* loops: about a microsecond */

static bool changed;

static void work(long microseconds)
{
	for (long i = 0; i < microseconds * LOOPS; i++)
		__asm__ volatile("");
}

static void parse(long microseconds)
{
	HEADWAY_NONEFFECTIVE("parse")
	{
		work(microseconds);
	}
}

static void rest(long nanoseconds)
{
	struct timespec time = {nanoseconds / 1000000000, nanoseconds % 1000000000};
	nanosleep(&time, NULL);
}

static pthread_t start(const char *name, void *(*run)(void *), void *argument)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, run, argument))
		exit(1);
	pthread_setname_np(thread, name);
	return thread;
}

static void join(pthread_t thread)
{
	pthread_join(thread, NULL);
}

/* A bounded queue of numbers. */
struct queue {
	pthread_mutex_t lock;
	pthread_cond_t filled, emptied;
	int numbers[8], n;
};

#define QUEUE {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, {0}, 0}

static void put(struct queue *queue, int number)
{
	pthread_mutex_lock(&queue->lock);
	while (queue->n == 8)
		pthread_cond_wait(&queue->emptied, &queue->lock);
	queue->numbers[queue->n++] = number;
	pthread_cond_signal(&queue->filled);
	pthread_mutex_unlock(&queue->lock);
}

static int take(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	while (queue->n == 0)
		pthread_cond_wait(&queue->filled, &queue->lock);
	int number = queue->numbers[0];
	memmove(queue->numbers, queue->numbers + 1, --queue->n * sizeof(int));
	pthread_cond_signal(&queue->emptied);
	pthread_mutex_unlock(&queue->lock);
	return number;
}

/* ---- a function made faster ---- */

static void function(void)
{
	for (int i = 0; i < 200; i++) {
		work(1500);
		parse(changed ? 500 : 1000);
	}
}

/* ---- a stage of a pipeline made faster ---- */

static struct queue stages = QUEUE;

static void *encode(void *unused)
{
	while (take(&stages))
		parse(changed ? 500 : 2000);
	return unused;
}

static void pipeline(void)
{
	pthread_t encoder = start("encoder", encode, NULL);
	for (int i = 0; i < 250; i++) {
		work(1000);
		put(&stages, 1);
	}
	put(&stages, 0);
	join(encoder);
}

/* ---- a lock split ---- */

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void *locking(void *number)
{
	pthread_mutex_t *lock = &locks[changed ? (long)number : 0];
	for (int i = 0; i < 250; i++) {
		work(500);
		pthread_mutex_lock(lock);
		work(1500);
		pthread_mutex_unlock(lock);
	}
	return NULL;
}

static void lock_split(void)
{
	pthread_t workers[] = {start("worker-0", locking, (void *)0), start("worker-1", locking, (void *)1)};
	join(workers[0]);
	join(workers[1]);
}

/* ---- other processors: changed by taskset(1), not here ---- */

static void *half_asleep(void *unused)
{
	for (int i = 0; i < 100; i++) {
		work(3000);
		rest(2 * MS);
	}
	return unused;
}

static void processors(void)
{
	pthread_t workers[] = {start("worker-0", half_asleep, NULL), start("worker-1", half_asleep, NULL),
		start("worker-2", half_asleep, NULL)};
	for (int i = 0; i < 3; i++)
		join(workers[i]);
}

/* ---- a pool doubled ---- */

static struct queue jobs = QUEUE;

static void *serving(void *unused)
{
	while (take(&jobs)) {
		work(300);
		rest(2 * MS);
	}
	return unused;
}

static void pool(void)
{
	int n = changed ? 4 : 2;
	pthread_t workers[4];
	for (int i = 0; i < n; i++)
		workers[i] = start("worker", serving, NULL);
	for (int i = 0; i < 400; i++)
		put(&jobs, 1);
	for (int i = 0; i < n; i++)
		put(&jobs, 0);
	for (int i = 0; i < n; i++)
		join(workers[i]);
}

/* ---- a sleep shortened ---- */

static void sleeping(void)
{
	for (int i = 0; i < 150; i++) {
		work(1500);
		rest(changed ? 1 * MS : 2 * MS);
	}
}

/* ---- a neighbour gone ---- */

static void *computing(void *unused)
{
	for (int i = 0; i < 400; i++)
		work(1000);
	return unused;
}

static void neighbour(void)
{
	pid_t other = 0;
	if (!changed && !(other = fork())) {
		prctl(PR_SET_NAME, "neighbour");
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			work(1000);
	}
	pthread_t worker = start("worker", computing, NULL);
	computing(NULL);
	join(worker);
	if (other) {
		kill(other, SIGKILL);
		waitpid(other, NULL, 0);
	}
}

/* ---- a device made faster: a process that answers requests on a pipe after a while ---- */

static void device(void)
{
	int requests[2], answers[2];
	char byte = 0;
	if (pipe(requests) || pipe(answers))
		exit(1);
	if (!fork()) {
		prctl(PR_SET_NAME, "device");
		close(requests[1]);
		while (read(requests[0], &byte, 1) == 1) {
			rest(changed ? 1 * MS : 2 * MS);
			if (write(answers[1], &byte, 1) != 1)
				break;
		}
		_exit(0);
	}
	for (int i = 0; i < 200; i++) {
		work(1000);
		if (write(requests[1], &byte, 1) != 1 || read(answers[0], &byte, 1) != 1)
			exit(1);
	}
	close(requests[1]);
	wait(NULL);
}

/* ---- a system call made faster: half as much is read ---- */

static void call(void)
{
	static char room[4 << 20];
	int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < 400; i++) {
		work(500);
		if (read(file, room, changed ? sizeof(room) / 2 : sizeof(room)) < 0)
			exit(1);
	}
	close(file);
}

/* ---- one of two threads made faster, so that the other one is what is waited for ---- */

static void *share(void *loops)
{
	for (long i = 0; i < (long)loops; i++)
		work(1000);
	return NULL;
}

static void balance(void)
{
	for (int i = 0; i < 10; i++) {
		pthread_t slow = start("slow", share, (void *)(changed ? 20L : 60L)), fast = start("fast", share, (void *)40L);
		join(slow);
		join(fast);
	}
}

/* ---- a server's answer made faster, over the loopback device ---- */

static int listener;

static void *answer(void *unused)
{
	char byte;
	int client = accept(listener, NULL, NULL);
	while (read(client, &byte, 1) == 1) {
		parse(changed ? 250 : 1000);
		if (write(client, &byte, 1) != 1)
			break;
	}
	close(client);
	return unused;
}

static void server(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	char byte = 0;
	listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (void *)&address, size) || listen(listener, 1) || getsockname(listener, (void *)&address, &size))
		exit(1);
	pthread_t thread = start("server", answer, NULL);
	int client = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(client, (void *)&address, size))
		exit(1);
	for (int i = 0; i < 300; i++) {
		work(500);
		if (write(client, &byte, 1) != 1 || read(client, &byte, 1) != 1)
			exit(1);
	}
	close(client);
	join(thread);
}

static const struct {
	const char *name;
	void (*run)(void);
} programs[] = {
	{"function", function},
	{"pipeline", pipeline},
	{"lock", lock_split},
	{"processors", processors},
	{"pool", pool},
	{"sleep", sleeping},
	{"neighbour", neighbour},
	{"device", device},
	{"call", call},
	{"balance", balance},
	{"server", server},
};

int main(int argc, char **argv)
{
	changed = argc > 2 && !strcmp(argv[2], "changed");
	for (size_t i = 0; argc > 1 && i < sizeof(programs) / sizeof(*programs); i++)
		if (!strcmp(argv[1], programs[i].name)) {
			programs[i].run();
			return 0;
		}
	fprintf(stderr, "what_if PROGRAM [changed]\n");
	return 2;
}
