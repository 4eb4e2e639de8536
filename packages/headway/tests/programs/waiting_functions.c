/*
 * Two functions that wait, one at a futex and one at a pipe, and two that end their waits. "waiter" waits in these only.
 * "calculate" uses the processor.
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 20, PAUSE_NS = 2000000, STEPS = 60000000 };

static _Atomic uint32_t turn;
static int pipe_ends[2];
static volatile uint64_t sum;

__attribute__((noinline)) static void pause_a_while(void)
{
	nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
}

__attribute__((noinline)) static void await_turn(uint32_t wanted)
{
	uint32_t now;
	while ((now = turn) < wanted)
		syscall(SYS_futex, &turn, FUTEX_WAIT, now, NULL, NULL, 0); /* the wait at the futex */
}

__attribute__((noinline)) static void give_turn(uint32_t number)
{
	turn = number;
	syscall(SYS_futex, &turn, FUTEX_WAKE, 1, NULL, NULL, 0);
}

__attribute__((noinline)) static void await_byte(void)
{
	char byte;
	if (read(pipe_ends[0], &byte, 1) != 1)
		_exit(1);
}

__attribute__((noinline)) static void give_byte(void)
{
	if (write(pipe_ends[1], "", 1) != 1)
		_exit(1);
}

__attribute__((noinline)) static void calculate(void)
{
	for (uint64_t i = 0; i < STEPS; i++)
		sum += i;
}

static void *wait_in_turns(void *unused)
{
	(void)unused;
	pthread_setname_np(pthread_self(), "waiter");
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		await_turn(i);
		await_byte();
	}
	return NULL;
}

int main(void)
{
	pthread_t thread;
	if (pipe(pipe_ends) || pthread_create(&thread, NULL, wait_in_turns, NULL))
		return 1;
	for (uint32_t i = 1; i <= ROUNDS; i++) {
		pause_a_while();
		give_turn(i);
		pause_a_while();
		give_byte();
	}
	calculate();
	return pthread_join(thread, NULL);
}
