/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Interrupts that arrive while a handler is at work: their time is kept apart and charged later. */
#ifndef HEADWAY_DEFERRED_INTERRUPTS_H
#define HEADWAY_DEFERRED_INTERRUPTS_H

#include "scheduler/holders.h"
#include "scheduler/ready.h"

/*
 * A handler marks its processor busy before it reads the clock, and until it is done. An interrupt that arrives meanwhile
 * begins and ends before the handler goes on. Its time is added up in `deferred`, and the next handler charges it. The
 * interrupt lies after the moment at which the handler read the clock, or in the span that the handler has not charged
 * yet. So it lies in the span that is open when the next handler runs. Each counter has one writer: the handlers of
 * interrupts write `deferred`, all others `absorbed`.
 */
INLINE void charge_deferred(struct processor *p, u64 now, u64 ended)
{
	u32 i = p->deferred_state - IRQ_DEVICE;
	u64 time = now - p->deferred_since;
	p->deferred_since = now;
	if (i >= N_INTERRUPTS)
		return;
	struct cell *cell = &p->deferred[MASKED(i, N_INTERRUPTS)];
	cell->time += time;
	cell->count += ended;
	p->deferred_total += time;
}

NOINLINE int begin_deferred_interrupt(struct processor *p, u32 state)
{
	if (p->busy > 1) {
		count_loss(p, LOST_SKIPPED, 1);
		return 0;
	}
	p->busy = 2;
	ORDER();
	u64 now = bpf_ktime_get_ns();
	if (p->deferred_depth) {
		charge_deferred(p, now, 0);
		p->deferred_nested[MASKED(p->deferred_depth, N_NESTED)] = p->deferred_state;
	}
	p->deferred_depth++;
	p->deferred_state = state;
	p->deferred_since = now;
	ORDER();
	p->busy = 1;
	return 0;
}

NOINLINE int end_deferred_interrupt(struct processor *p, u32 state)
{
	if (p->busy > 1)
		return 0;
	if (!p->deferred_depth || p->deferred_state != state) {
		if (!settings.undivided || !p->undivided) /* the programs may have been attached while it was under way */
			count_loss(p, LOST_UNMATCHED, 1);
		return 0;
	}
	p->busy = 2;
	ORDER();
	charge_deferred(p, bpf_ktime_get_ns(), 1);
	p->deferred_depth--;
	p->deferred_state = p->deferred_nested[MASKED(p->deferred_depth, N_NESTED)];
	if (OPTION(publish))
		publish_deferred(p, state);
	ORDER();
	p->busy = 1;
	return 0;
}

struct absorption {
	u32 number;
	u64 room; /* time from the last charged moment to the end of the last deferred interrupt, before any was charged */
	u64 all, total;
};

GLOBAL u64 absorb_deferred_interrupt(struct absorption *a, u32 number_of_interrupt)
{
	struct processor *p = this_processor();
	u64 i = MASKED(number_of_interrupt, N_INTERRUPTS);
	if (!p || !a)
		return 0;
	struct cell *deferred = &p->deferred[i], *absorbed = &p->absorbed[MASKED(i, N_INTERRUPTS)];
	u64 time = deferred->time - absorbed->time, count = deferred->count - absorbed->count;
	if (!time && !count)
		return 0;
	absorbed->time += time;
	absorbed->count += count;
	a->all += time;
	/* A snapshot may lie in an interrupt. The reader has taken the part before it for the interrupted state. */
	if (time > a->room - a->total)
		time = a->room - a->total;
	struct cell *cell = &p->cells[IRQ_DEVICE + MASKED(i, N_INTERRUPTS)];
	u64 since = p->since;
	cell->time += time;
	cell->count += count;
	p->since += time;
	if (a->number)
		add_to_cell_of(a->number, IRQ_DEVICE + i, time, count);
	if (OPTION(why))
		keep_interrupt(since, since + time, IRQ_DEVICE + i, count);
	if (OPTION(record))
		record_any_span(a->number, since, since + time, time, IRQ_DEVICE + i | count << 16);
	a->total += time;
	return 0;
}

/* Charges the time of deferred interrupts. None of it is charged beyond `until`. */
GLOBAL int absorb_deferred(u32 number, u64 until)
{
	struct processor *p = this_processor();
	struct absorption a = {.number = number};
	if (!p || p->deferred_total == p->absorbed_total)
		return 0;
	u64 end = p->deferred_since;
	if (end > until)
		end = until;
	if (end > p->since)
		a.room = end - p->since;
	for (u32 i = 0; i < N_INTERRUPTS; i++)
		absorb_deferred_interrupt(&a, i);
	p->absorbed_total += a.all;
	note_absorbed_interrupts(a.total);
	return 0;
}

#endif
