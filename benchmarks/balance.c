/*
 * Threads that work and lose time in turn, each in the given amount, until they are killed; for benchmarks/balance.py.
 *
 * balance KIND UNITS TIMES THREADS FILE: each thread does UNITS of arithmetic, and then TIMES of what KIND says: "compute" (no
 * more), "reads" (of 1 MiB), "short-reads" (of 64 KiB), "polls" (a look at 256 sockets, none of which ever has data). Each
 * thread counts its rounds in a word of 64 bits of FILE, 64 bytes apart: a round is the same progress for each kind.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define APART 8 /* words */
#define SOCKETS 256

static long units, times;
static ssize_t size;
static int kind, zero;
static struct pollfd sockets[SOCKETS];
static uint64_t *rounds;

static void *run(void *number)
{
	volatile uint64_t *mine = rounds + (uintptr_t)number * APART;
	uint64_t x = 1;
	char *bytes = malloc(size);

	for (;;) {
		for (long i = 0; i < units; i++) {
			x = x * 6364136223846793005ULL + 1;
			__asm__ volatile("" : "+r"(x));
		}
		for (long i = 0; i < times; i++)
			if (kind == 'p' ? poll(sockets, SOCKETS, 0) : pread(zero, bytes, size, 0) != size)
				abort();
		++*mine;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return 2;
	kind = argv[1][0];
	units = atol(argv[2]);
	times = kind == 'c' ? 0 : atol(argv[3]);
	size = kind == 's' ? 64 << 10 : 1 << 20;
	long threads = atol(argv[4]);
	int file = open(argv[5], O_RDWR | O_CREAT, 0600);

	prctl(PR_SET_NAME, argv[1]);
	zero = open("/dev/zero", O_RDONLY);
	for (int i = 0; i < SOCKETS; i++)
		sockets[i] = (struct pollfd){.fd = socket(AF_INET, SOCK_DGRAM, 0), .events = POLLIN};
	if (zero < 0 || file < 0 || ftruncate(file, threads * APART * 8))
		return 1;
	rounds = mmap(NULL, threads * APART * 8, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	if (rounds == MAP_FAILED)
		return 1;
	for (long i = 1; i < threads; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, run, (void *)i))
			return 1;
	}
	run(NULL);
}
