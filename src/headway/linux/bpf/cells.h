/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Cells: charging the span that ends, and what interrupts leave behind that meet a handler at work. */
#ifndef HEADWAY_CELLS_H
#define HEADWAY_CELLS_H

#include "counts.h"
#include "stacks.h"
#include "transitions.h"

/* ---- cells ---- */

INLINE struct thread_record *thread_record_at(u32 number)
{
	return bpf_map_lookup_elem(&thread_records, &number);
}

INLINE void lose(struct processor *p, u32 what, u64 much)
{
	p->losses[MASKED(what, N_LOSSES)] += much;
}

/* The cell for a state that the thread is in for the first time: 1 + its number. */
NOINLINE u32 new_cell(struct thread_record *s, u32 state)
{
	u32 used = s->used;
	if (used >= N_CELLS - 1) {
		struct processor *p = here();
		if (p)
			lose(p, LOST_STATES, 1);
		if (used == N_CELLS - 1) {
			s->cells[N_CELLS - 1].count = (u64)UNKNOWN << COUNT_BITS;
			s->used = N_CELLS;
		}
		*index_of(s, state) = N_CELLS;
		return N_CELLS;
	}
	struct cell *cell = &s->cells[MASKED(used, N_CELLS)];
	cell->time = 0;
	cell->count = (u64)state << COUNT_BITS;
	s->used = used + 1;
	*index_of(s, state) = used + 1;
	return used + 1;
}

INLINE void add(struct thread_record *s, u32 state, u64 time, u64 count)
{
	if (state >= N_STATES)
		return;
	u32 cell = *index_of(s, state);
	if (UNLIKELY(!cell))
		cell = new_cell(s, state);
	struct cell *c = &s->cells[MASKED(cell - 1, N_CELLS)];
	c->time += time;
	c->count += count;
}

/* On the processor and outside the kernel. */
INLINE bool is_user(u32 state)
{
	return state == USER || state >= TAG;
}

u64 regions(u32 number, u64 since, u64 until, u64 now, u64 time);

/* A span to the state it was spent in, less what marked regions had of it. */
INLINE void charge_span(struct processor *p, struct thread_record *s, u64 until, u64 now, u64 time, u64 left)
{
	u32 state = p->state;
	u64 since = p->since;
	if (state >= N_STATES)
		return;
	p->since = until;
	if (s && UNLIKELY(s->block) && is_user(state))
		time -= regions(p->thread_record, since, until, now, time);
	record_span(p, s ? p->thread_record : 0, since, until, time, state, left);
	p->span = time;
	struct cell *cell = cell_of(p, state);
	cell->time += time;
	cell->count += left;
	if (settings.has_steal && time > p->longest) {
		u64 from = since > p->floor ? since : p->floor;
		u64 longest = until - from < time ? until - from : time;
		if (longest > p->longest) {
			p->longest = longest;
			p->longest_state = state;
		}
	}
	if (s)
		add(s, state, time, left);
	if (settings.n_counted && until == now)
		count_events(s ? p->thread_record : 0, state);
}

/* The span that ends now; `left`: 1 if its state is over, 0 if only interrupted. The observer's part is its own. */
INLINE void charge(struct processor *p, struct thread_record *s, u64 now, u64 left, u32 at)
{
	u64 time = now - p->since, owed = p->tax + control.before[at], tax = owed >> COST_BITS;
	p->tax = control.after[at] + (owed & ((1 << COST_BITS) - 1));
	if (tax > time)
		tax = time;
	p->cells[OVERHEAD].time += tax;
	if (s)
		s->overhead += tax;
	charge_span(p, s, now, now, time - tax, left);
	p->events++;
}

/* What was charged to one state belongs to another. Within what this processor charged since the last snapshot and switch. */
u64 move(u32 number, u32 from, u32 to, u64 time, u64 count)
{
	struct processor *p = here();
	struct thread_record *s = thread_record_at(number);
	if (!p || !s || from >= N_STATES || to >= N_STATES || from == to)
		return 0;
	struct cell *cell = cell_of(p, from);
	cell->time -= time;
	cell->count -= count;
	cell = cell_of(p, to);
	cell->time += time;
	cell->count += count;
	add(s, from, -time, -count);
	add(s, to, time, count);
	if (settings.record)
		record_move(number, from, to, time, count);
	if (p->longest_state == from && p->longest <= time)
		p->longest_state = to;
	return 0;
}

/* A state that ends while another one interrupts it, or with its thread, was entered too. */
INLINE void count_last(struct processor *p, struct thread_record *s, u32 state)
{
	if (state < N_STATES)
		cell_of(p, state)->count++;
	add(s, state, 0, 1);
	if (settings.record)
		record_amount(p->thread_record, state, 0, 1, p->since);
}

/* Off the processor. With interrupts off. */
INLINE void charge_away(struct thread_record *s, u32 number, u64 now)
{
	if (UNLIKELY((s64)(now - s->since) < 0)) { /* opened after this handler had read its clock */
		if (s->birth == s->since)
			s->birth = now;
		s->since = now;
		return;
	}
	add(s, s->state, now - s->since, 1);
	if (settings.stacks)
		charge_stack(s, s->state, now - s->since, 1);
	if (settings.record)
		record_absence(number, s->state, s->since, now);
	s->since = now;
}

/* ---- interrupts that meet a handler at work ---- */

/*
 * A handler marks its processor busy from before it reads the clock until it is done. An interrupt that comes in between
 * begins and ends before the handler goes on; its time is gathered apart, and the next handler takes it over: it lies
 * after the handler's moment (or within the span that it has not charged yet), so it is in the span that is open
 * then. Each counter has one writer: `deferred` the interrupts', `absorbed` the handlers'.
 */
INLINE void defer(struct processor *p, u64 now, u64 left)
{
	u32 i = p->deferred_state - IRQ_DEVICE;
	u64 time = now - p->deferred_since;
	p->deferred_since = now;
	if (i >= N_INTERRUPTS)
		return;
	struct cell *cell = &p->deferred[MASKED(i, N_INTERRUPTS)];
	cell->time += time;
	cell->count += left;
	p->deferred_total += time;
}

NOINLINE int deferred_begin(struct processor *p, u32 state)
{
	if (p->busy > 1) {
		lose(p, LOST_SKIPPED, 1);
		return 0;
	}
	p->busy = 2;
	ORDER();
	u64 now = bpf_ktime_get_ns();
	if (p->deferred_depth) {
		defer(p, now, 0);
		p->deferred_nested[MASKED(p->deferred_depth, N_NESTED)] = p->deferred_state;
	}
	p->deferred_depth++;
	p->deferred_state = state;
	p->deferred_since = now;
	ORDER();
	p->busy = 1;
	return 0;
}

NOINLINE int deferred_end(struct processor *p, u32 state)
{
	if (p->busy > 1)
		return 0;
	if (!p->deferred_depth || p->deferred_state != state) {
		lose(p, LOST_UNMATCHED, 1);
		return 0;
	}
	p->busy = 2;
	ORDER();
	defer(p, bpf_ktime_get_ns(), 1);
	p->deferred_depth--;
	p->deferred_state = p->deferred_nested[MASKED(p->deferred_depth, N_NESTED)];
	ORDER();
	p->busy = 1;
	return 0;
}

/* A thread record looked up where it is used: the verifier follows no pointer that may be null through a loop. */
NOINLINE int add_to(u32 number, u32 state, u64 time, u64 count)
{
	struct thread_record *s = thread_record_at(number);
	if (s)
		add(s, state, time, count);
	return 0;
}

struct absorption {
	u32 number;
	u64 room; /* from what has been charged to the end of the last of them */
	u64 all, total;
};

u64 absorb_one(struct absorption *a, u32 number_of_interrupt)
{
	struct processor *p = here();
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
	if (time > a->room - a->total) /* a snapshot lies in it: what was before has been read as the state's that was interrupted */
		time = a->room - a->total;
	struct cell *cell = &p->cells[IRQ_DEVICE + MASKED(i, N_INTERRUPTS)];
	cell->time += time;
	cell->count += count;
	if (a->number)
		add_to(a->number, IRQ_DEVICE + i, time, count);
	if (settings.record)
		record_any_span(a->number, p->since + a->total, p->since + a->total + time, time, IRQ_DEVICE + i | count << 16);
	a->total += time;
	return 0;
}

/* Takes over what interrupts left behind; none of it is charged later than `until`. */
NOINLINE int absorb(struct processor *p, u32 number, u64 until)
{
	struct absorption a = {.number = number};
	if (p->deferred_total == p->absorbed_total)
		return 0;
	u64 end = p->deferred_since;
	if (end > until)
		end = until;
	if (end > p->since)
		a.room = end - p->since;
	for (u32 i = 0; i < N_INTERRUPTS; i++)
		absorb_one(&a, i);
	p->absorbed_total += a.all;
	p->since += a.total;
	return 0;
}

#endif
