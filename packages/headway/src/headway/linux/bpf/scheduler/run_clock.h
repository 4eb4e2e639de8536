/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The clocks of a processor: how long threads had it, how long those of each process, and how long interrupts. Clocks only
 * grow, so the difference of two readings tells what the processor did in between, however often it switched. They are
 * stopped at each switch: a reader adds the run that goes on.
 *
 * Nothing here calls the kernel, so a test compiles it for itself (tests/linux/ready_parts.c).
 */
#ifndef HEADWAY_RUN_CLOCK_H
#define HEADWAY_RUN_CLOCK_H

#include "shared/layout.h"

#define CLOCK_INLINE static inline __attribute__((always_inline))

/* One processor's. Only that processor writes it; others read it while it does (read_clocks). */
struct run_clock {
	__u64 switched; /* when the thread that has the processor came */
	__u64 taken; /* interrupts and stolen time until then */
	__u64 busy; /* threads' time until then, without interrupts and stolen time */
	__u64 interrupts; /* 2 A + n modulo 2^64: the time in interrupts until t is A + n t; n is 1 in one */
	__u32 process; /* the process that has the processor: its number, NO_PROCESS or IDLE_PROCESS */
	__u32 sequence; /* odd while a switch is written */
	__u64 stolen; /* stolen time until then */
	__u64 spare[2]; /* a cache line */
};
_Static_assert(sizeof(struct run_clock) == 64, "a cache line");

enum process_number {
	NO_PROCESS, /* a process without a number: it is nobody's own */
	IDLE_PROCESS = 0xffffffff, /* no thread has the processor */
};

/*
 * Returns 1 if a difference of two times is negative, else 0. What follows multiplies by it: the verifier follows both ways
 * of a branch, and since 6.18 both values of a sign that masks.
 */
CLOCK_INLINE __u64 is_negative(__u64 difference)
{
	__u64 sign = difference >> 63;
	__asm__ volatile("" : "+r"(sign)); /* or the compiler would make a branch of it */
	return sign;
}

/* Returns the time in interrupts until a moment. */
CLOCK_INLINE __u64 interrupts_until(__u64 word, __u64 at)
{
	return (word + (word & 1) * (2 * at - 1)) >> 1;
}

/* An interrupt begins (`on`), or the last one ends. */
CLOCK_INLINE __u64 switch_interrupts(__u64 word, __u64 at, int on)
{
	return word + ((word & 1) - (__u64)on) * (2 * at - 1);
}

/* So much time was stolen in an interrupt: it is stolen time, and no time of the interrupt. */
CLOCK_INLINE __u64 without_stolen(__u64 word, __u64 time)
{
	return word - 2 * time;
}

/* Returns the time that was left to a run by interrupts and stolen time. `taken`: both, until its end. */
CLOCK_INLINE __u64 run_time(__u64 since, __u64 until, __u64 taken_before, __u64 taken)
{
	__u64 run = until - since, lost = taken - taken_before;
	run *= is_negative(run) ^ 1;
	run -= lost * (is_negative(lost) ^ 1);
	return run * (is_negative(run) ^ 1);
}

/* The thread that has the processor leaves it. `own`: the clock of its process there, if it has one. */
CLOCK_INLINE void end_run(struct run_clock *clock, __u64 *own, __u64 now, __u64 stolen)
{
	__u64 taken = interrupts_until(clock->interrupts, now) + stolen;
	__u64 run = run_time(clock->switched, now, clock->taken, taken);
	if (clock->process != IDLE_PROCESS) {
		clock->busy += run;
		if (own)
			*own += run;
	}
	clock->switched = now;
	clock->taken = taken;
	clock->stolen = stolen;
}

/* What the clocks show at a switch, to this processor itself. `own`: the clock of a process. */
CLOCK_INLINE void clocks_at_switch(const struct run_clock *clock, __u64 own, struct ready_clocks *to)
{
	to->own = own;
	to->busy = clock->busy;
	to->interrupts = clock->taken - clock->stolen;
	to->stolen = clock->stolen;
}

/*
 * Reads the clocks as of a moment, for a process. `own`: its clock there. `stolen` is there already. `deferred`: time in
 * interrupts that the clocks do not have yet. Returns 0 if the processor was at a switch: then nothing fits together.
 */
CLOCK_INLINE int try_to_read_clocks(const volatile struct run_clock *clock, const volatile __u64 *own, __u32 process,
	__u64 at, __u64 deferred, struct ready_clocks *to)
{
	__u32 sequence = clock->sequence;
	asm volatile("" ::: "memory");
	__u64 word = clock->interrupts, interrupts = interrupts_until(word, at) + (word & 1 ? 0 : deferred);
	__u64 run = run_time(clock->switched, at, clock->taken, interrupts + to->stolen);
	__u32 running = clock->process;
	to->interrupts = interrupts;
	to->busy = clock->busy + (running == IDLE_PROCESS ? 0 : run);
	to->own = *own + (running == process ? run : 0);
	asm volatile("" ::: "memory");
	return !(sequence & 1) && sequence == clock->sequence;
}

#endif
