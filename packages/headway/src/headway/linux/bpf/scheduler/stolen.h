/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stolen time: the hypervisor ran something else.
 *
 * At each tick and each switch the kernel learns from the hypervisor how long the processor was away. That time lies in
 * one of the spans since the last look, and made that span longer. So it is taken out of the longest span. The run queue
 * is reached through that of the running thread (`rq`), because not every kernel lists its per-processor symbols.
 */
#ifndef HEADWAY_STOLEN_H
#define HEADWAY_STOLEN_H

#include "samples/stacks.h"
#include "scheduler/ready.h"
#include "waits/causes.h"

/* Takes the time that the hypervisor has had since the last look. `last`: the thread leaves the processor. */
GLOBAL u64 take_stolen(u32 number, u64 steal, u32 last)
{
	struct processor *p = this_processor();
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	if (!p)
		return 0;
	u32 state = p->longest_state;
	u64 time = steal - p->steal;
	p->steal = steal;
	if (!p->steal_known)
		p->steal_known = 1; /* the first reading counts from boot: it says nothing about our spans */
	else
		p->debt += time;
	time = p->debt < p->longest ? p->debt : p->longest;
	if (time && state < N_STATES) {
		p->debt -= time;
		cell_of(p, state)->time -= time;
		note_stolen_in(state, time);
		p->cells[STOLEN].time += time;
		p->cells[STOLEN].count++;
		if (OPTION(record)) {
			record_amount(number, state, -time, 0, p->since);
			record_amount(number, STOLEN, time, 1, p->since);
		}
		if (record) {
			add_to_cell(record, state, -time, 0);
			add_to_cell(record, STOLEN, time, 1);
			if (OPTION(why))
				charge_cause(record, STOLEN, OBJECT_STATE, state, time, 1, NULL);
			/* Between two status checks. If it is more than all time since the last one, it was before that. */
			if (state == record->user && time <= p->since - record->asked_at)
				record->outside_gap += time;
		}
	}
	if (last && p->debt) { /* the thread leaves the processor: none of its spans remain to take time out of */
		count_loss(p, LOST_STEAL, p->debt);
		p->debt = 0;
	}
	return 0;
}

INLINE void charge_stolen(struct processor *p, struct thread_record *record, struct rq *rq, bool last)
{
	if (!settings.has_steal || !rq || !FIELD_EXISTS(rq->prev_steal_time_rq))
		return;
	u64 steal = stolen_from(rq);
	if (UNLIKELY((steal - p->steal) | p->debt))
		take_stolen(record ? record->number : 0, steal, last);
	p->longest = 0;
}

/* The kernel may have looked at its count: take what is new out of the states, and out of the stacks. `last`: see take_stolen. */
INLINE void update_stolen(void *ctx, struct processor *p, struct thread_record *record, struct rq *rq, bool last)
{
	u64 before = p->cells[STOLEN].time;
	charge_stolen(p, record, rq, last);
	if (OPTION(stacks) && record && UNLIKELY(p->cells[STOLEN].time != before))
		charge_stolen_to_stack(ctx, record, p->cells[STOLEN].time - before);
}

#endif
