// Asks a socket in vain while a thread of higher priority takes the same processor again and again, each time for longer
// than the gap between two checks. Prints 0 if the machine has no such priority for it, otherwise how often it asked.
#define _GNU_SOURCE
#include "marking.h"
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>

enum { ASKED = 10000, BETWEEN = 5000, TAKEN = 1000000 };
static volatile int done;

static void *take(void *unused)
{
	(void)unused;
	setpriority(PRIO_PROCESS, 0, -20); // of this thread
	while (!done) {
		usleep(300);
		work(TAKEN);
	}
	return NULL;
}

int main(void)
{
	int pair[2];
	char byte;
	cpu_set_t one;
	pthread_t other;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	if (setpriority(PRIO_PROCESS, 0, -1) || sched_setaffinity(0, sizeof(one), &one)) {
		puts("0");
		return 0;
	}
	pthread_create(&other, NULL, take, NULL);
	for (int i = 0; i < ASKED; i++) {
		recv(pair[0], &byte, 1, MSG_DONTWAIT);
		work(BETWEEN);
	}
	done = 1;
	pthread_join(other, NULL);
	printf("%d\n", ASKED);
	return 0;
}
