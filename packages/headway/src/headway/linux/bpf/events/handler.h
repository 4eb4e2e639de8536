/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* How a handler begins and ends: it charges the span that ends, then sets the next state. */
#ifndef HEADWAY_HANDLER_H
#define HEADWAY_HANDLER_H

#include "events/levels.h"
#include "scheduler/unseen.h"
#include "events/way_back.h"

enum { NOT_NOW = 0xfffffffe, PREPARE_TRIES = 3 };

/* Whether a handler can charge the open span, whose thread has this record, until the moment at which it read the clock. */
INLINE bool is_prepared(struct processor *p, u32 number, u64 now)
{
	return LIKELY(number != THREAD_UNSEEN && p->task == (u64)bpf_get_current_task_btf()) &&
		LIKELY(p->deferred_total == p->absorbed_total) &&
		LIKELY(p->snapshot == control.snapshot || (now < control.snapshot_at && p->snapshot == control.snapshot - 1));
}

/* Does what is_prepared asks for. Returns the thread record to charge (0: none), or NOT_NOW. */
INLINE u32 try_to_prepare(struct processor *p, u32 state)
{
	u32 number = p->thread_record;
	u64 now = bpf_ktime_get_ns(), began = now;
	if (!p->since || (s64)(now - p->since) < 0)
		return NOT_NOW;
	if (number == THREAD_UNSEEN)
		number = 0;
	if (p->snapshot != control.snapshot && !cross_snapshot(number, now))
		return NOT_NOW;
	if (UNLIKELY(has_new_level(p)))
		change_level(number, state);
	absorb_deferred(number, now < control.snapshot_at ? control.snapshot_at : (u64)-1);
	if (p->thread_record == THREAD_UNSEEN || p->task != (u64)bpf_get_current_task_btf()) {
		now = bpf_ktime_get_ns();
		if (measuring_is_over(now)) /* the hypervisor may have had the processor meanwhile */
			return NOT_NOW;
		if (OPTION(why))
			keep_hidden_holder(p, arrival_time(p, bpf_get_current_task_btf(), now));
		if (number)
			end_unseen_run(number, now);
		number = identify_running_thread(now, state);
	}
	if (number && is_way_back(p->state))
		end_way_back(number, state, began);
	return number;
}

/*
 * Does the rare work before a handler's own: a snapshot, deferred interrupts, identifying the running thread. Reads the
 * clock after that (`prepared_at`). Returns the thread record to charge (0: none), or NOT_NOW if nothing is to be measured.
 */
GLOBAL u64 prepare_event(u32 state)
{
	struct processor *p = this_processor();
	u32 number;
	u64 now;
	if (!p)
		return NOT_NOW;
	/* An interrupt deferred before the clock was read is charged first; the next handler charges a later one. */
#pragma clang loop unroll(disable)
	for (u32 tries = 0; tries < PREPARE_TRIES; tries++) {
		number = try_to_prepare(p, state);
		if (number == NOT_NOW)
			return NOT_NOW;
		now = bpf_ktime_get_ns();
		ORDER();
		p->prepared_at = now;
		if (is_prepared(p, number, now))
			return number;
	}
	return measuring_is_over(now) ? NOT_NOW : number;
}

/*
 * Begins a handler: charges the span that ends now. Returns false if nothing is measured here, not yet, or no longer.
 * `state` is the running thread's, if the handler knows it and the thread must be identified first; STATE_NONE: not known.
 * `ended`: whether the state that is charged ends now, and so has occurred once more.
 */
INLINE bool begin_event(struct processor *p, struct thread_record **record, u64 *at, u32 kind, u32 state, u64 ended)
{
	u32 number = p->thread_record;
	u64 now = bpf_ktime_get_ns();
	ORDER();
	if (!is_prepared(p, number, now) || UNLIKELY(is_way_back(p->state))) {
		number = prepare_event(state);
		if (number == NOT_NOW)
			return false;
		now = p->prepared_at;
	}
	*record = number ? thread_record_at(number) : NULL;
	charge_until_now(p, *record, now, ended, kind);
	*at = now;
	return true;
}

/* A handler is at work from here on: an interrupt that comes in between is only noted (deferred_interrupts.h). */
INLINE void enter(struct processor *p)
{
	p->busy = 1;
	ORDER();
}

INLINE void leave(struct processor *p)
{
	if (OPTION(publish))
		publish();
	ORDER();
	p->busy = 0;
}

/*
 * What an event costs depends on what else runs: on the other threads of a core, on caches, on the clock rate. So some
 * runs of the most frequent handlers are timed, chosen by the clock. That shows how much dearer events are at present than
 * they were during calibration. `began`: when the handler read the clock. A run that was interrupted does not count.
 */
enum { ONE_CALL_IN = 32, ONE_SWITCH_IN = 8, LOW_CLOCK_BITS = 6, LONGEST_RUN = 20000 };

INLINE bool is_timed(u64 began, u32 one_in)
{
	return UNLIKELY(!(began >> LOW_CLOCK_BITS & (one_in - 1)));
}

INLINE void time_handler(struct processor *p, u32 which, u64 began)
{
	u64 took = bpf_ktime_get_ns() - began;
	if (took > LONGEST_RUN || p->deferred_total != p->absorbed_total)
		return;
	p->timed[which].time += took;
	p->timed[which].runs++;
}

/*
 * The page fault that goes on turns out to be of another sort: the span that ends now is of that one. What was charged
 * before, because something interrupted the fault, stays where it is.
 */
INLINE void rename_fault(struct processor *p, u32 state)
{
	if (OPTION(durations))
		forget_pieces(p->thread_record, p->state);
	p->state = state;
}

/* A system call begins or ends. If the thread is in a fault, no end of it was seen: it failed. */
INLINE void end_failed_fault(struct processor *p)
{
	if (UNLIKELY(p->depth) && is_fault(p->state))
		rename_fault(p, KERNEL_FAULT);
}

INLINE bool push_state(struct processor *p, u32 state)
{
	u32 depth = p->depth;
	if (depth >= N_NESTED) {
		p->overflow++;
		count_loss(p, LOST_NESTED, 1);
		return false;
	}
	p->nested[MASKED(depth, N_NESTED)] = p->state;
	p->depth = depth + 1;
	p->state = state;
	return true;
}

INLINE void pop_state(struct processor *p)
{
	u32 depth = p->depth - 1;
	if (!p->depth) /* identify_running_thread has emptied the stack meanwhile */
		return;
	p->depth = depth;
	p->state = p->nested[MASKED(depth, N_NESTED)];
}

#endif
