/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The division of a time ready, by two readings of the clocks of the processor on which the thread was ready. */
#ifndef HEADWAY_READY_PARTS_H
#define HEADWAY_READY_PARTS_H

#include "scheduler/run_clock.h"

/* Returns how much a clock has grown. Clocks never go back, but two readings may not fit together by some nanoseconds. */
CLOCK_INLINE __u64 grown(__u64 before, __u64 after)
{
	__u64 much = after - before;
	return much * (is_negative(much) ^ 1);
}

/* Takes from what is left, and no more than that. Returns what it took. */
CLOCK_INLINE __u64 take(__u64 *left, __u64 much)
{
	__u64 less = much - *left, taken = *left + less * is_negative(less);
	*left -= taken;
	return taken;
}

/*
 * Divides `time` into parts that add up to it. A part gets no more than the parts before it have left.
 *
 * While a thread is throttled others may have the processor, or interrupts, and that time is in the clocks too. What the
 * clocks show beyond the time that is left is taken to have been then: first interrupts and stolen time, which come at any
 * time, then idleness. Threads of its own process have the same quota, mostly, so their time is none of it.
 */
CLOCK_INLINE void divide_ready(
	const struct ready_clocks *from, const struct ready_clocks *to, __u64 time, __u64 parts[N_READY_PARTS])
{
	__u64 left = time, own = grown(from->own, to->own), busy = grown(from->busy, to->busy);
	__u64 interrupts = grown(from->interrupts, to->interrupts), stolen = grown(from->stolen, to->stolen);
	__u64 throttled = take(&left, grown(from->throttled, to->throttled));
	parts[READY_THROTTLED] = throttled;
	interrupts -= take(&throttled, interrupts); /* `throttled` is what they may be in, from here on */
	stolen -= take(&throttled, stolen);
	parts[READY_OWN] = take(&left, own);
	parts[READY_NEIGHBOUR] = take(&left, grown(own, busy));
	parts[READY_INTERRUPT] = take(&left, interrupts);
	parts[READY_STOLEN] = take(&left, stolen);
	parts[READY_WAKEUP] = left;
}

/* The thread goes to another processor at this moment. Changes what it keeps, so that the times on both add up. */
CLOCK_INLINE void move_ready_clocks(
	struct ready_clocks *began, const struct ready_clocks *from, const struct ready_clocks *to)
{
	began->own += to->own - from->own;
	began->busy += to->busy - from->busy;
	began->interrupts += to->interrupts - from->interrupts;
	began->stolen += to->stolen - from->stolen;
	began->throttled += to->throttled - from->throttled;
}

/* Returns the largest part: it has the count, because a time ready is one occurrence. */
CLOCK_INLINE __u32 largest_part(const __u64 parts[N_READY_PARTS])
{
	__u32 found = READY_WAKEUP;
	__u64 most = parts[READY_WAKEUP];
	for (__u32 i = 0; i < N_READY_PARTS; i++) {
		__u64 more = is_negative(most - parts[i]);
		most += (parts[i] - most) * more;
		found += (i - found) * (__u32)more;
	}
	return found;
}

#endif
