/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What did not show: which thread a processor is running when nobody said so, since when, and what it did before. */
#ifndef HEADWAY_UNSEEN_H
#define HEADWAY_UNSEEN_H

#include "causes.h"
#include "snapshots.h"

/* When the running thread came onto this processor, on our clock: from the run queue's clock then and at our last switch. */
INLINE u64 arrival(struct processor *p, struct task_struct *task, u64 now)
{
	u64 at = p->since, told = told_until(now);
	if (FIELD_EXISTS(task->sched_info.last_arrival) && p->switched == at) {
		s64 later = task->sched_info.last_arrival - p->switched_clock;
		if (later > 0)
			at += later;
	}
	if (at < told)
		at = told;
	return at > now ? now : at;
}

/*
 * A kernel may keep some threads from being traced (a hypervisor's agent, say): their own events do not show, nor does
 * the switch from them to the next thread. Then the thread we took for running has left unseen.
 */
NOINLINE int left_unseen(struct processor *p, u32 number, u64 now)
{
	struct thread_record *s = thread_record_at(number);
	u64 at = arrival(p, bpf_get_current_task_btf(), now);
	if (!s)
		return 0;
	u64 told = told_until(at);
	u32 state = p->state;
	lose(p, LOST_SWITCHES, 1);
	if (p->since < told && told <= at && state < N_STATES) {
		add(s, state, told - p->since, 0);
		if (settings.record)
			record_any_span(number, p->since, told, told - p->since, state);
		cell_of(p, state)->time += told - p->since;
		p->since = told;
	}
	add(s, UNKNOWN, at - p->since, 1);
	p->cells[UNKNOWN].time += at - p->since;
	if (settings.record) {
		record_any_span(number, p->since, at, at - p->since, UNKNOWN);
		record_return(number, UNKNOWN, at, at); /* it counts for the thread alone */
	}
	p->since = at;
	p->longest = 0;
	if (state < N_STATES) {
		s->resume = p->depth ? p->nested[0] : state; /* the latest that is known */
		s->depth = 0;
		if (p->depth)
			count_last(p, s, state);
		count_last(p, s, s->resume); /* if it goes on, it begins anew */
	}
	s->since = at;
	s->state = UNKNOWN;
	ORDER();
	s->cpu = 0;
	return 0;
}

/*
 * A thread that waited runs, or is about to, and its wake-up did not show: that was on a processor on which nothing
 * shows, see left_unseen. The kernel has counted since when it was ready, and by `clock`, that of its run queue, counts
 * still if it does not run yet. Who woke it is known only where that showed on another processor.
 */
NOINLINE int woken_unseen(struct task_struct *task, u32 number, u64 clock, u64 until)
{
	struct processor *p = here();
	struct thread_record *s = thread_record_at(number);
	if (!p || !s)
		return 0;
	u32 state = s->state;
	if (state == READY || state == UNKNOWN || state == ELSEWHERE || until <= s->since)
		return 0;
	u64 ready = 0, since = s->since, queued = 0;
	if (FIELD_EXISTS(task->sched_info.run_delay)) {
		ready = task->sched_info.run_delay - s->run_delay;
		queued = task->sched_info.last_queued;
	}
	if (!FIELD_EXISTS(task->sched_info.run_delay) || (queued && !clock)) {
		lose(p, LOST_WAKES, 1);
		return 0;
	}
	if (clock > queued && queued)
		ready += clock - queued;
	u64 at = ready < until - since ? until - ready : since, told = told_until(until);
	if (at < told)
		at = told;
	if (at < since)
		at = since;
	if (settings.why)
		note_wait(s, at); /* what it was for is known, and who ended it if only the end did not show */
	add(s, state, at - since, 1);
	if (settings.stacks)
		charge_stack(s, state, at - since, 1);
	if (settings.record)
		record_return(number, state, since, at);
	s->waker_kind = OBJECT_NONE; /* not that of the next wait */
	s->since = at;
	s->state = READY;
	return 0;
}

/* Who had the processor while a thread was ready that then came to it unseen: after the last switch that showed, somebody. */
NOINLINE int blame_unseen(struct processor *p, u32 number, u64 until)
{
	struct thread_record *s = thread_record_at(number);
	if (!s)
		return 0;
	u64 since = p->switched > s->since ? p->switched : s->since;
	blame_holders(number, until);
	if (since < until)
		blame(s, READY, HOLDER_THREAD, HELD_UNSEEN, until - since, 1, NULL);
	return 0;
}

/* Interrupts that are under way will end, and nothing will be known of their beginning. */
INLINE void forget_nested(struct processor *p)
{
	if (p->depth)
		p->settled = 0;
	p->depth = 0;
}

/*
 * Which thread runs here? Asked when measuring begins, when a thread was opened while it ran, and at the first event
 * after a switch to a thread that is not measured. No handler has run since the open span began, so
 * the state cannot have changed during it.
 */
NOINLINE u32 look(struct processor *p, u64 now, u32 state)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 number = task->pid ? thread_record_of(task) : 0;
	u32 cpu = bpf_get_smp_processor_id();
	p->task = (u64)task;
	p->pending_state = 0; /* of the thread that was here, not of this one */
	p->pending_user = 0;
	if (settings.some_cpus && !p->selected)
		number = 0;
	struct thread_record *s = number ? thread_record_at(number) : NULL;
	if (!s) {
		u32 before = p->state, state_now = task->pid ? UNMEASURED : IDLE;
		if (before < N_STATES && before != state_now) {
			u64 at = arrival(p, task, now);
			cell_of(p, before)->time += at - p->since;
			if (settings.record)
				record_any_span(0, p->since, at, at - p->since, before);
			p->since = at;
			p->longest = 0;
		}
		p->state = state_now;
		forget_nested(p);
		p->thread_record = 0;
		return 0;
	}
	p->thread_record = number;
	if (s->cpu != cpu + 1) {
		u64 from = arrival(p, task, now);
		if (s->since > from)
			from = s->since;
		if (from > now)
			from = now;
		bool known = s->state != UNKNOWN;
		save_if_due(s, number, now);
		woken_unseen(task, number, 0, from);
		if (settings.why && s->state == READY)
			blame_unseen(p, number, from);
		if (from > s->since) {
			add(s, s->state, from - s->since, 1);
			if (settings.stacks)
				charge_stack(s, s->state, from - s->since, 1);
			if (settings.record)
				record_return(number, s->state, s->since, from);
		}
		if (p->state < N_STATES && from > p->since) { /* before it came, or was opened */
			u32 before = p->state == UNKNOWN && !control.snapshot ? UNMEASURED : p->state;
			if (before < N_STATES) {
				cell_of(p, before)->time += from - p->since;
				if (settings.record)
					record_any_span(0, p->since, from, from - p->since, before);
			}
		}
		s->since = p->since = from;
		p->longest = 0; /* that was somebody else's */
		s->cpu = cpu + 1;
		if (s->flags & THREAD_EXECUTES) { /* whose registers may already be those of another architecture's program */
			s->flags &= ~THREAD_EXECUTES;
			state = state ? state : call_state(CALL_EXECVE);
		}
		p->state = state ? state : state_by_registers(task);
		if (p->state == USER)
			p->state = s->user; /* it may have left in a marked function */
		if (known) { /* what it left in has ended unseen, unless it is in it still */
			u32 left = s->depth ? s->nested[0] : s->resume;
			if (s->depth)
				count_last(p, s, s->resume);
			if (left != p->state)
				count_last(p, s, left);
		}
		forget_nested(p);
	}
	return number;
}

#endif
