/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Switches and wake-ups that did not show: find out which thread runs, since when, and what it did before. */
#ifndef HEADWAY_UNSEEN_H
#define HEADWAY_UNSEEN_H

#include "events/depth.h"
#include "scheduler/holders.h"
#include "reading/snapshots.h"

/*
 * Returns when the running thread came onto this processor, on our clock. The run queue's clock gives the time from our
 * last switch to the thread's arrival.
 */
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
 * Some kernels hide threads from tracing (a hypervisor's agent, say): neither their events show, nor the switch from them
 * to the next thread. So the expected thread left the processor and no switch showed it. Charges its time as UNKNOWN.
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
		if (OPTION(record))
			record_any_span(number, p->since, told, told - p->since, state);
		cell_of(p, state)->time += told - p->since;
		p->since = told;
	}
	add_to_cell(record, UNKNOWN, at - p->since, 1);
	p->cells[UNKNOWN].time += at - p->since;
	if (OPTION(record)) {
		record_any_span(number, p->since, at, at - p->since, UNKNOWN);
		record_return(number, UNKNOWN, at, at); /* an occurrence for the thread, not for the processor */
	}
	p->since = at;
	p->longest = 0;
	if (state < N_STATES) {
		record->resume = p->depth ? p->nested[0] : state; /* the last state that was seen */
		record->depth = 0;
		if (p->depth)
			count_interrupted(number, state);
		count_interrupted(number, record->resume); /* if the state goes on later, that is a new occurrence */
	}
	record->since = at;
	record->state = UNKNOWN;
	if (OPTION(publish))
		publish_thread(number, UNKNOWN, at, PUBLISHED_ABSENT);
	ORDER();
	record->cpu = 0;
	return 0;
}

/* Returns how long a thread was ready until it last came onto a processor, as the kernel has counted. */
INLINE u64 ready_counted(struct task_struct *task)
{
	return FIELD_EXISTS(task->sched_info.run_delay) ? task->sched_info.run_delay : 0;
}

/* Returns since when a thread has been ready, on the run queue's clock; 0: it is not, or the kernel does not tell. */
INLINE u64 queued_since(struct task_struct *task)
{
	return FIELD_EXISTS(task->sched_info.run_delay) ? task->sched_info.last_queued : 0;
}

/*
 * A thread that waited runs, or is about to run, and its wake-up did not show: the processor that woke it ran a thread
 * hidden from tracing (see end_unseen_run). The kernel has counted how long the thread was ready (`counted`, `queued`). If
 * the thread does not run yet, the kernel is still counting: `clock` is the run queue's clock now. The waker is known only
 * if the waking showed on another processor.
 */
GLOBAL int end_unseen_wait(u32 number, u64 clock, u64 until, u64 counted, u64 queued)
{
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	if (!p || !record)
		return 0;
	u32 state = record->state;
	if (state == READY || state == UNKNOWN || state == ELSEWHERE || until <= record->since)
		return 0;
	u64 ready = counted - record->run_delay, since = record->since;
	if (!FIELD_EXISTS(((struct task_struct *)NULL)->sched_info.run_delay) || (queued && !clock)) {
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
	if (OPTION(why))
		charge_wait_causes(record, at); /* the object is known; the waker too, if sched_waking showed */
	add_to_cell(record, state, at - since, 1);
	if (OPTION(stacks))
		charge_stack(record, state, at - since, 1);
	if (OPTION(record))
		record_return(number, state, since, at);
	record->waker_kind = OBJECT_NONE; /* the next wait has another waker */
	record->since = at;
	record->state = READY;
	record->ready_cpu = 0;
	return 0;
}

/* Forgets the interrupted states. Interrupts that are in progress will end without a known beginning. */
INLINE void drop_nested_states(struct processor *p)
{
	if (p->depth)
		p->settled = 0;
	p->depth = 0;
}

/* The thread that runs here is not the one that the clocks have: it came unseen, or is measured only now. */
GLOBAL int note_unseen_switch(u32 number, u64 now)
{
	struct processor *p = this_processor();
	struct task_struct *task = bpf_get_current_task_btf();
	u32 cpu = bpf_get_smp_processor_id(), process = process_of(task, number);
	struct run_clock *clock = run_clock_of(cpu);
	u64 queue = FIELD_EXISTS(task->se.cfs_rq) ? (u64)FOLLOW(task, se.cfs_rq) : 0;
	if (p && clock && (clock->process != process || p->task != (u64)task))
		switch_run_clock(cpu, stolen_from_any(queue), process, p->task == (u64)task ? now : arrival_time(p, task, now));
	return 0;
}

/* Returns the kernel state of the status check or neutral call that the thread is in; 0: it is in neither. */
INLINE u32 call_asked(struct thread_record *record)
{
	u32 check = record->current_check;
	if (!check)
		return 0;
	return KERNEL_CALL +
		(check >= NEUTRAL ? settings.neutrals[MASKED(check - NEUTRAL, N_NEUTRAL)].call
						  : settings.checks[MASKED(check - 1, N_CHECKS)].call);
}

/* Returns the state in which a thread left its processor, without what interrupted that. */
INLINE u32 state_left_in(const struct thread_record *record)
{
	return record->depth ? record->nested[0] : record->resume;
}

/* A thread is in this state now, by its registers, which do not show that a call polls. Returns the state with that. */
INLINE u32 state_with_polling(struct thread_record *record, u32 state)
{
	u32 left = state_left_in(record);
	return is_poll(left) && state == call_asked(record) ? left : state;
}

/*
 * A thread that was not seen meanwhile is in this state now, by its registers. The state in which it left its processor has
 * ended unseen, too, unless it goes on. Returns the state that it is in.
 */
GLOBAL u32 end_state_left_in(u32 number, u32 state)
{
	struct thread_record *record = thread_record_at(number);
	if (!record)
		return state;
	u32 left = state_left_in(record);
	state = state_with_polling(record, state);
	if (record->depth)
		count_interrupted(number, record->resume);
	if (left != state)
		count_interrupted(number, left);
	return state;
}

/*
 * Finds out which thread runs here, and returns its record's number; 0: none that is measured. Called when measuring
 * begins, after a thread was opened while it ran, at the first event after a switch to a thread that is not measured, and
 * when another thread runs than expected. No handler has run since the open span began, so the state cannot have changed
 * during that span.
 */
GLOBAL u32 identify_running_thread(u64 now, u32 state)
{
	struct processor *p = this_processor();
	struct task_struct *task = bpf_get_current_task_btf();
	if (!p)
		return 0;
	u32 number = task->pid ? thread_record_of(task) : 0;
	u32 cpu = bpf_get_smp_processor_id();
	if (settings.divide_ready)
		note_unseen_switch(number, now);
	if (OPTION(why))
		p->running = task->pid;
	p->task = (u64)task;
	forget_pending(p); /* it belongs to the thread that was here before */
	if (settings.some_cpus && !p->selected)
		number = 0;
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	if (!record) {
		u32 before = p->state, state_now = task->pid || settings.threads_only ? UNMEASURED : IDLE;
		if (before < N_STATES && before != state_now) {
			u64 at = arrival_time(p, task, now);
			cell_of(p, before)->time += at - p->since;
			if (OPTION(record))
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
	if (settings.threads_only)
		p->settled = 0; /* interrupts that began while no measured thread ran here were passed over */
	if (record->cpu != cpu + 1) {
		u64 from = arrival_time(p, task, now);
		if (record->since > from)
			from = record->since;
		if (from > now)
			from = now;
		bool known = record->state != UNKNOWN;
		save_if_due(record, number, now);
		end_unseen_wait(number, 0, from, ready_counted(task), queued_since(task));
		if (from == record->since) /* it was not ready for any time, so that is no occurrence */
			record->ready_cpu = 0;
		bool divided = settings.divide_ready && record->state == READY && end_ready(cpu, NULL, record, number, from);
		if (OPTION(why) && record->state == READY)
			charge_holders(number, divided ? record->ended_parts[READY_THROTTLED] : 0, from);
		if (from > record->since) {
			add_to_cell(record, record->state, from - record->since, 1);
			if (OPTION(stacks))
				charge_stack(record, record->state, from - record->since, 1);
			if (OPTION(record) && divided)
				record_ready(number, record->since, from, 1);
			else if (OPTION(record))
				record_return(number, record->state, record->since, from);
		}
		if (p->state < N_STATES && from > p->since) { /* the time before the thread came or was opened */
			u32 before = p->state == UNKNOWN && !control.snapshot ? UNMEASURED : p->state;
			if (before < N_STATES) {
				cell_of(p, before)->time += from - p->since;
				if (OPTION(record))
					record_any_span(0, p->since, from, from - p->since, before);
			}
		}
		record->since = p->since = from;
		p->longest = 0; /* the spans before are another thread's */
		record->cpu = cpu + 1;
		if (record->flags &
			THREAD_EXECUTES) { /* its registers may already be those of a program for another architecture */
			record->flags &= ~THREAD_EXECUTES;
			state = state ? state : call_state(CALL_EXECVE);
		}
		take_depth(p, record);
		p->state = is_undivided(p) ? undivided_state(record)
								   : state_as_recorded(state ? state : state_by_registers(task), record);
		if (known)
			p->state = end_state_left_in(number, p->state);
		drop_nested_states(p);
	}
	return number;
}

#endif
