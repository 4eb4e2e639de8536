/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counters by state: each event has a counter on every processor, which runs all the time; what it has grown by in a
 * stretch goes to the state that the stretch was spent in. Marked regions cannot be told apart by it: they begin and end
 * without the kernel.
 */
#ifndef HEADWAY_COUNTS_H
#define HEADWAY_COUNTS_H

#include "memory.h"

struct counting {
	u32 number, state, cpu;
};

static int count_event(u32 i, struct counting *x)
{
	u32 cpu = x->cpu, number = x->number;
	struct processor_counts *c = map_lookup(&processor_counts, &cpu);
	u64 state = x->state;
	struct event_value value = {};
	OPAQUE(state);
	if (!c || i >= N_COUNTED || state >= N_STATES)
		return 1;
	if (read_event(&events, cpu * N_COUNTED + i, &value, sizeof(value)))
		return 0;
	u64 grown = value.counter - c->last[i];
	bool first = !c->enabled[i];
	c->last[i] = value.counter;
	c->enabled[i] = value.enabled;
	c->running[i] = value.running;
	c->stretch[i] = 0;
	if (first)
		return 0;
	c->stretch[i] = grown;
	c->cells[state][i] += grown;
	struct slot *s = number ? map_lookup(&slots, &number) : NULL;
	struct thread_counts *t = s ? map_lookup(&slot_counts, &number) : NULL;
	if (t)
		t->cells[(s->index[state] - 1) & (N_CELLS - 1)][i] += grown;
	return 0;
}

/* A stretch was charged to a state: so is what was counted in it. */
u64 count_events(u32 number, u32 state)
{
	struct counting x = {.number = number, .state = state, .cpu = processor_id()};
	loop(settings.n_counted, count_event, &x, 0);
	return 0;
}

enum { COUNTS_STRETCH, COUNTS_PENDING_CALL, COUNTS_PENDING_USER };

struct count_move {
	u32 number, from, to, which;
};

static int move_count(u32 i, struct count_move *x)
{
	u32 cpu = processor_id(), number = x->number;
	u64 from = x->from, to = x->to;
	struct processor_counts *c = map_lookup(&processor_counts, &cpu);
	struct slot *s = map_lookup(&slots, &number);
	struct thread_counts *t = map_lookup(&slot_counts, &number);
	OPAQUE(from);
	OPAQUE(to);
	if (!c || !s || !t || i >= N_COUNTED || from >= N_STATES || to >= N_STATES)
		return 1;
	u64 much = x->which == COUNTS_STRETCH ? c->stretch[i] :
		   x->which == COUNTS_PENDING_CALL ? c->pending_call[i] : c->pending_user[i];
	c->cells[from][i] -= much;
	c->cells[to][i] += much;
	t->cells[(s->index[from] - 1) & (N_CELLS - 1)][i] -= much;
	t->cells[(s->index[to] - 1) & (N_CELLS - 1)][i] += much;
	return 0;
}

/* Goes with `move`, after it. */
u64 move_counts(u32 number, u32 from, u32 to, u32 which)
{
	struct count_move x = {.number = number, .from = from, .to = to, .which = which};
	if (settings.n_counted && from != to)
		loop(settings.n_counted, move_count, &x, 0);
	return 0;
}

/* What was counted in the last stretch is kept until it is known what that was. */
u64 keep_counts(u32 which)
{
	u32 cpu = processor_id();
	struct processor_counts *c = map_lookup(&processor_counts, &cpu);
	if (!settings.n_counted || !c)
		return 0;
	if (which == COUNTS_PENDING_CALL)
		__builtin_memcpy(c->pending_call, c->stretch, sizeof(c->stretch));
	else
		__builtin_memcpy(c->pending_user, c->stretch, sizeof(c->stretch));
	return 0;
}

static int forget_count(u32 i, u32 *number)
{
	struct thread_counts *t = map_lookup(&slot_counts, number);
	if (!t || i >= N_CELLS)
		return 1;
	__builtin_memset(t->cells[i], 0, sizeof(t->cells[i]));
	return 0;
}

/* The thread has ended: what was counted goes to the reader, ahead of its slot. */
u64 send_counts(u32 number)
{
	struct slot *s = map_lookup(&slots, &number);
	struct thread_counts *t = map_lookup(&slot_counts, &number);
	if (!s || !t)
		return 0;
	u32 used = s->used, size = __builtin_offsetof(struct thread_counts, cells) + (used & 255) * sizeof(t->cells[0]);
	if (size > sizeof(struct thread_counts))
		size = sizeof(struct thread_counts);
	t->birth = s->birth;
	t->tid = s->tid;
	t->used = used;
	ring_output(&exits, t, size, RING_NO_WAKEUP); /* if this is lost, so is the slot, which is counted */
	loop(used, forget_count, &number, 0);
	return 0;
}

#endif
