/*
 * A thread that works and polls in turn, each in the given amount, for benchmarks/progress.py.
 *
 * polls CALL CHECKS UNITS CYCLES: each cycle has UNITS of arithmetic and one exchange of data, which a check finds at once,
 * and then CHECKS checks that find nothing. Prints "POLLED_NS WORKED_NS" by the thread's own clock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int sockets[2], pipes[2], instance;

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Return 1 if there was something, 0 if not. */
static int check_recv(void)
{
	char byte;

	return recv(sockets[0], &byte, 1, MSG_DONTWAIT) == 1;
}

static int check_read(void)
{
	char byte;

	return read(pipes[0], &byte, 1) == 1;
}

static int check_epoll(void)
{
	struct epoll_event event;

	return epoll_wait(instance, &event, 1, 0) == 1 && check_recv();
}

static int check_yield(void)
{
	sched_yield();
	return 0;
}

int main(int argc, char **argv)
{
	struct epoll_event wanted = {.events = EPOLLIN};
	int64_t polled = 0, worked = 0;
	volatile uint64_t x = 1;
	int (*check)(void);

	if (argc != 5)
		return 2;
	long checks = atol(argv[2]), units = atol(argv[3]), cycles = atol(argv[4]);

	check = !strcmp(argv[1], "recv")         ? check_recv
		: !strcmp(argv[1], "read")       ? check_read
		: !strcmp(argv[1], "epoll_wait") ? check_epoll
						 : check_yield;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || pipe2(pipes, O_NONBLOCK) || (instance = epoll_create1(0)) < 0 ||
	    epoll_ctl(instance, EPOLL_CTL_ADD, sockets[0], &wanted))
		return 1;
	while (cycles--) {
		int64_t start = now(), middle;

		for (long i = 0; i < units; i++)
			x = x * 6364136223846793005ULL + 1;
		if (check != check_yield) {
			if (write(check == check_read ? pipes[1] : sockets[1], "", 1) != 1 || !check())
				return 1;
		}
		middle = now();
		for (long i = 0; i < checks; i++)
			if (check())
				return 1;
		worked += middle - start;
		polled += now() - middle;
	}
	printf("%lld %lld\n", (long long)polled, (long long)worked);
	return 0;
}
