/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Charge the span that ends: to its state, to marked regions, and headway's cost to OVERHEAD. */
#ifndef HEADWAY_SPANS_H
#define HEADWAY_SPANS_H

#include "tasks/contexts.h"
#include "events/event_counts.h"
#include "scheduler/holders.h"
#include "regions/regions.h"

/* Charges a span until `until` to the current state: `time`, less the part that marked regions get. `ended` is as below. */
INLINE void charge_span(struct processor *p, struct thread_record *record, u64 until, u64 now, u64 time, u64 ended)
{
	u32 state = p->state;
	u64 since = p->since;
	if (state >= N_STATES)
		return;
	p->since = until;
	if (OPTION(why) && state - IRQ_DEVICE < N_INTERRUPTS)
		keep_interrupt(since, until, state, ended);
	if (record && UNLIKELY(record->block) && (is_user(state) || (settings.undivided && state == RUNNING)))
		time -= charge_regions(p->thread_record, since, until, now, time);
	if (OPTION(tasks) && record && UNLIKELY(record->task_log || record->context.known) && is_user(state)) {
		record->task_ended = ended;
		divide_among_tasks(p->thread_record, since, until, now, time);
	} else
		record_span(p, record ? p->thread_record : 0, since, until, time, state, ended);
	p->span = time;
	struct cell *cell = cell_of(p, state);
	cell->time += time;
	cell->count += ended;
	if (settings.has_steal && time > p->longest) {
		u64 from = since > p->floor ? since : p->floor;
		u64 longest = until - from < time ? until - from : time;
		if (longest > p->longest) {
			p->longest = longest;
			p->longest_state = state;
		}
	}
	if (record)
		add_span_to_cell(record, state, time, ended);
	if (OPTION(n_counted) && until == now)
		charge_events(record ? p->thread_record : 0, state);
}

/* Counts an event, and by its kind where the cost of each level must be known. */
INLINE void count_event(struct processor *p, u32 kind)
{
	p->events++;
	if (settings.undivided == SOMETIMES_UNDIVIDED)
		p->occurred[kind]++;
}

enum { STATE_GOES_ON, STATE_ENDS }; /* whether an occurrence of the state ends with the span */

/*
 * Charges the span that ends now. `ended` is 1 if its state is over, 0 if the state is only interrupted. The part of the
 * span that headway's handlers took, their calibrated cost, goes to OVERHEAD.
 */
INLINE void charge_until_now(struct processor *p, struct thread_record *record, u64 now, u64 ended, u32 at)
{
	u64 time = now - p->since, pending = p->cost_pending + control.before[at], cost = pending >> COST_BITS;
	p->cost_pending = control.after[at] + (pending & ((1 << COST_BITS) - 1));
	if (cost > time)
		cost = time;
	p->cells[OVERHEAD].time += cost;
	if (record) {
		record->overhead += cost;
		if (OPTION(tasks) && UNLIKELY(record->task_record))
			add_overhead_to_task(record->task_record, cost);
	}
	if (settings.undivided && OPTION(n_counted) && p->state == RUNNING) {
		p->undivided_overhead += cost;
		if (record)
			record->undivided_overhead += cost;
	}
	/* A marked function goes on after calls and faults, until it returns. */
	if (OPTION(functions) && at < AT_FUNCTION_END && p->state >= TAG)
		ended = 0;
	charge_span(p, record, now, now, time - cost, ended);
	count_event(p, at);
}

#endif
