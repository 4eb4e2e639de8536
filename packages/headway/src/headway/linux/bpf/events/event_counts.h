/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Hardware counts by state. Each event has a counter on every processor, which runs all the time. Its increase during a
 * span goes to the state of the span. While time is not divided, cycles in user mode and in kernel mode are counted so:
 * they tell user code from the kernel, and a reader divides the time by them. Marked regions begin and end without the kernel, so they have no counts of their
 * own.
 */
#ifndef HEADWAY_EVENT_COUNTS_H
#define HEADWAY_EVENT_COUNTS_H

#include "shared/maps.h"

/* Returns a processor's count of an event in a state. */
INLINE u64 *counter_of_state(struct processor_counts *c, u64 state, u64 event)
{
	OPAQUE(state);
	if (state >= N_STATES)
		state = STATE_NONE;
	u64 *count = &c->cells[state][MASKED(event, N_COUNTED)];
	KEEP(count);
	return count;
}

GLOBAL u64 charge_event(u32 number, u32 state, u32 event)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct processor_counts *c = bpf_map_lookup_elem(&processor_counts, &cpu);
	struct event_value value = {};
	u64 i = MASKED(event, N_COUNTED);
	if (!c)
		return 0;
	if (bpf_perf_event_read_value(&events, cpu * N_COUNTED + i, &value, sizeof(value)))
		return 0;
	i = MASKED(event, N_COUNTED);
	u64 grown = value.counter - c->last[i];
	bool first = !c->enabled[i] || (s64)grown < 0; /* a counter that runs backwards was started anew */
	c->last[i] = value.counter;
	c->enabled[i] = value.enabled;
	c->running[i] = value.running;
	u64 *span = &c->span[MASKED(event, N_COUNTED)];
	*span = first ? 0 : grown;
	if (first)
		return 0;
	*counter_of_state(c, state, event) += grown;
	struct thread_record *record = number ? bpf_map_lookup_elem(&thread_records, &number) : NULL;
	struct thread_counts *t = record ? bpf_map_lookup_elem(&thread_counts, &number) : NULL;
	if (t)
		t->cells[MASKED(*index_of(record, state) - 1, N_CELLS)][MASKED(event, N_COUNTED)] += grown;
	return 0;
}

/* Charges the counts of a span to the state that the span was charged to. */
u64 charge_events(u32 number, u32 state)
{
	for (u32 i = 0; i < N_COUNTED && i < OPTION(n_counted); i++)
		charge_event(number, state, i);
	return 0;
}

enum { COUNTS_SPAN, COUNTS_PENDING_USER, COUNTS_PENDING /* + which */ };

GLOBAL u64 move_counted_event(u32 number, u32 from, u32 to, u32 which, u32 event)
{
	u32 cpu = bpf_get_smp_processor_id();
	u64 i = MASKED(event, N_COUNTED);
	struct processor_counts *c = bpf_map_lookup_elem(&processor_counts, &cpu);
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	struct thread_counts *t = bpf_map_lookup_elem(&thread_counts, &number);
	if (!c || !record || !t)
		return 0;
	u64 much = which == COUNTS_SPAN    ? c->span[i]
		: which == COUNTS_PENDING_USER ? c->pending_user[i]
									   : c->pending[MASKED(which - COUNTS_PENDING, N_PENDING)][i];
	*counter_of_state(c, from, event) -= much;
	*counter_of_state(c, to, event) += much;
	t->cells[MASKED(*index_of(record, from) - 1, N_CELLS)][MASKED(event, N_COUNTED)] -= much;
	t->cells[MASKED(*index_of(record, to) - 1, N_CELLS)][MASKED(event, N_COUNTED)] += much;
	return 0;
}

/* Moves counts to another state. Call it after `move_time`, which moves the time. */
u64 move_counted(u32 number, u32 from, u32 to, u32 which)
{
	if (from == to)
		return 0;
	for (u32 i = 0; i < N_COUNTED && i < OPTION(n_counted); i++)
		move_counted_event(number, from, to, which, i);
	return 0;
}

/* Remembers the counts of the last span, of user code, which may turn out to be polling. */
u64 keep_counts_of_user_span(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct processor_counts *c = bpf_map_lookup_elem(&processor_counts, &cpu);
	if (OPTION(n_counted) && c)
		__builtin_memcpy(c->pending_user, c->span, sizeof(c->span));
	return 0;
}

/* Remembers the counts of the last span; if `more`, adds them to those that are pending. */
u64 keep_counts_pending(u32 which, u32 more)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct processor_counts *c = bpf_map_lookup_elem(&processor_counts, &cpu);
	if (!c)
		return 0;
	u64 *kept = c->pending[MASKED(which, N_PENDING)];
	for (u32 i = 0; i < N_COUNTED; i++)
		kept[i] = (more ? kept[i] : 0) + c->span[i];
	return 0;
}

GLOBAL u64 clear_counts(u32 number, u32 cell)
{
	struct thread_counts *t = bpf_map_lookup_elem(&thread_counts, &number);
	if (t)
		__builtin_memset(t->cells[MASKED(cell, N_CELLS)], 0, sizeof(t->cells[0]));
	return 0;
}

/* The thread has ended: sends its counts to the reader, ahead of its thread record. */
u64 submit_counts(u32 number)
{
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	struct thread_counts *t = bpf_map_lookup_elem(&thread_counts, &number);
	if (!record || !t)
		return 0;
	u32 used = record->used,
		size = __builtin_offsetof(struct thread_counts, cells) + (used & 255) * sizeof(t->cells[0]);
	if (size > sizeof(struct thread_counts))
		size = sizeof(struct thread_counts);
	t->birth = record->birth;
	t->tid = record->tid;
	t->used = used;
	/* If there is no room for the counts, there is none for the thread record either, and that loss is counted. */
	bpf_ringbuf_output(&exits, t, size, RING_NO_WAKEUP);
	for (u32 i = 0; i < N_CELLS && i < used; i++)
		clear_counts(number, i);
	return 0;
}

#endif
