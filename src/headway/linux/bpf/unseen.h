/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What did not show: which thread a processor is running when nobody said so, since when, and what it did before. */
#ifndef HEADWAY_UNSEEN_H
#define HEADWAY_UNSEEN_H

#include "holders.h"
#include "snapshots.h"

/* When the running thread came onto this processor, on our clock: from the run queue's clock then and at our last switch. */
INLINE u64 arrival_time(struct processor *p, struct task_struct *task, u64 now)
{
	u64 at = p->since, told = last_snapshot_read(now);
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
GLOBAL int end_unseen_run(u32 number, u64 now)
{
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	if (!p || !record)
		return 0;
	u64 at = arrival_time(p, bpf_get_current_task_btf(), now);
	u64 told = last_snapshot_read(at);
	u32 state = p->state;
	count_loss(p, LOST_SWITCHES, 1);
	if (p->since < told && told <= at && state < N_STATES) {
		add_to_cell(record, state, told - p->since, 0);
		if (settings.record)
			record_any_span(number, p->since, told, told - p->since, state);
		cell_of(p, state)->time += told - p->since;
		p->since = told;
	}
	add_to_cell(record, UNKNOWN, at - p->since, 1);
	p->cells[UNKNOWN].time += at - p->since;
	if (settings.record) {
		record_any_span(number, p->since, at, at - p->since, UNKNOWN);
		record_return(number, UNKNOWN, at, at); /* it counts for the thread alone */
	}
	p->since = at;
	p->longest = 0;
	if (state < N_STATES) {
		record->resume = p->depth ? p->nested[0] : state; /* the latest that is known */
		record->depth = 0;
		if (p->depth)
			count_interrupted(p, record, state);
		count_interrupted(p, record, record->resume); /* if it goes on, it begins anew */
	}
	record->since = at;
	record->state = UNKNOWN;
	ORDER();
	record->cpu = 0;
	return 0;
}

/*
 * A thread that waited runs, or is about to, and its wake-up did not show: that was on a processor on which nothing
 * shows, see end_unseen_run. The kernel has counted since when it was ready, and by `clock`, that of its run queue, counts
 * still if it does not run yet. Who woke it is known only where that showed on another processor.
 */
NOINLINE int end_unseen_wait(struct task_struct *task, u32 number, u64 clock, u64 until)
{
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	if (!p || !record)
		return 0;
	u32 state = record->state;
	if (state == READY || state == UNKNOWN || state == ELSEWHERE || until <= record->since)
		return 0;
	u64 ready = 0, since = record->since, queued = 0;
	if (FIELD_EXISTS(task->sched_info.run_delay)) {
		ready = task->sched_info.run_delay - record->run_delay;
		queued = task->sched_info.last_queued;
	}
	if (!FIELD_EXISTS(task->sched_info.run_delay) || (queued && !clock)) {
		count_loss(p, LOST_WAKES, 1);
		return 0;
	}
	if (clock > queued && queued)
		ready += clock - queued;
	u64 at = ready < until - since ? until - ready : since, told = last_snapshot_read(until);
	if (at < told)
		at = told;
	if (at < since)
		at = since;
	if (settings.why)
		charge_wait_causes(record, at); /* what it was for is known, and who ended it if only the end did not show */
	add_to_cell(record, state, at - since, 1);
	if (settings.stacks)
		charge_stack(record, state, at - since, 1);
	if (settings.record)
		record_return(number, state, since, at);
	record->waker_kind = OBJECT_NONE; /* not that of the next wait */
	record->since = at;
	record->state = READY;
	return 0;
}

/* Interrupts that are under way will end, and nothing will be known of their beginning. */
INLINE void drop_nested_states(struct processor *p)
{
	if (p->depth)
		p->settled = 0;
	p->depth = 0;
}

/* The state of the call that a status check or a neutral call is, while the thread is in it; 0: it is in none. */
INLINE u32 call_asked(struct thread_record *record)
{
	u32 check = record->current_check;
	if (!check)
		return 0;
	return KERNEL_CALL +
		(check >= NEUTRAL ? settings.neutrals[MASKED(check - NEUTRAL, N_NEUTRAL)].call
						  : settings.checks[MASKED(check - 1, N_CHECKS)].call);
}

/*
 * Which thread runs here? Asked when measuring begins, when a thread was opened while it ran, and at the first event
 * after a switch to a thread that is not measured. No handler has run since the open span began, so
 * the state cannot have changed during it.
 */
GLOBAL u32 identify_running_thread(u64 now, u32 state)
{
	struct processor *p = this_processor();
	struct task_struct *task = bpf_get_current_task_btf();
	if (!p)
		return 0;
	u32 number = task->pid ? thread_record_of(task) : 0;
	u32 cpu = bpf_get_smp_processor_id();
	if (settings.why)
		p->running = task->pid;
	p->task = (u64)task;
	forget_pending(p); /* of the thread that was here, not of this one */
	if (settings.some_cpus && !p->selected)
		number = 0;
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	if (!record) {
		u32 before = p->state, state_now = task->pid ? UNMEASURED : IDLE;
		if (before < N_STATES && before != state_now) {
			u64 at = arrival_time(p, task, now);
			cell_of(p, before)->time += at - p->since;
			if (settings.record)
				record_any_span(0, p->since, at, at - p->since, before);
			p->since = at;
			p->longest = 0;
		}
		p->state = state_now;
		drop_nested_states(p);
		p->thread_record = 0;
		return 0;
	}
	p->thread_record = number;
	if (record->cpu != cpu + 1) {
		u64 from = arrival_time(p, task, now);
		if (record->since > from)
			from = record->since;
		if (from > now)
			from = now;
		bool known = record->state != UNKNOWN;
		save_if_due(record, number, now);
		end_unseen_wait(task, number, 0, from);
		if (settings.why && record->state == READY)
			charge_holders(number, from);
		if (from > record->since) {
			add_to_cell(record, record->state, from - record->since, 1);
			if (settings.stacks)
				charge_stack(record, record->state, from - record->since, 1);
			if (settings.record)
				record_return(number, record->state, record->since, from);
		}
		if (p->state < N_STATES && from > p->since) { /* before it came, or was opened */
			u32 before = p->state == UNKNOWN && !control.snapshot ? UNMEASURED : p->state;
			if (before < N_STATES) {
				cell_of(p, before)->time += from - p->since;
				if (settings.record)
					record_any_span(0, p->since, from, from - p->since, before);
			}
		}
		record->since = p->since = from;
		p->longest = 0; /* that was somebody else's */
		record->cpu = cpu + 1;
		if (record->flags &
			THREAD_EXECUTES) { /* whose registers may already be those of another architecture's program */
			record->flags &= ~THREAD_EXECUTES;
			state = state ? state : call_state(CALL_EXECVE);
		}
		p->state = state ? state : state_by_registers(task);
		if (p->state == USER)
			p->state = record->user; /* it may have left in a marked function */
		if (known) { /* what it left in has ended unseen, unless it is in it still */
			u32 left = record->depth ? record->nested[0] : record->resume;
			if (is_poll(left) && p->state == call_asked(record)) /* the registers do not tell that the call polls */
				p->state = left;
			if (record->depth)
				count_interrupted(p, record, record->resume);
			if (left != p->state)
				count_interrupted(p, record, left);
		}
		drop_nested_states(p);
	}
	return number;
}

#endif
