/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Cells: add time to them, and move time between them. */
#ifndef HEADWAY_CELLS_H
#define HEADWAY_CELLS_H

#include "histograms/durations.h"
#include "threads/publishing.h"
#include "samples/stacks.h"
#include "rings/transition_rings.h"

INLINE struct thread_record *thread_record_at(u32 number)
{
	return bpf_map_lookup_elem(&thread_records, &number);
}

INLINE void count_loss(struct processor *p, u32 what, u64 much)
{
	p->losses[MASKED(what, N_LOSSES)] += much;
}

/* Takes a cell for a state that the thread enters for the first time. Returns 1 + the cell's number; 0: there is none. */
GLOBAL u32 new_cell(u32 number, u32 state)
{
	struct thread_record *record = thread_record_at(number);
	if (!record || state >= N_STATES)
		return 0;
	u32 used = record->used;
	if (used >= N_CELLS - 1) {
		struct processor *p = this_processor();
		if (p)
			count_loss(p, LOST_STATES, 1);
		if (used == N_CELLS - 1) {
			record->cells[N_CELLS - 1].count = (u64)UNKNOWN << COUNT_BITS;
			record->used = N_CELLS;
		}
		*index_of(record, state) = N_CELLS;
		if (OPTION(durations) && used == N_CELLS - 1)
			take_histogram(number, N_CELLS - 1);
		return N_CELLS;
	}
	struct cell *cell = &record->cells[MASKED(used, N_CELLS)];
	cell->time = 0;
	cell->count = (u64)state << COUNT_BITS;
	record->used = used + 1;
	*index_of(record, state) = used + 1;
	if (OPTION(durations))
		take_histogram(number, used);
	return used + 1;
}

INLINE struct task_record *task_record_at(u32 number)
{
	return bpf_map_lookup_elem(&task_records, &number);
}

/* Adds to a task's cell of this number, which is 1 + the place. */
INLINE void add_to_task_cell(u32 task, u32 cell, u64 time, u64 count)
{
	struct task_record *record = task_record_at(task);
	if (!record)
		return;
	struct cell *c = &record->cells[MASKED(cell - 1, N_CELLS)];
	c->time += time;
	c->count += count;
}

/*
 * Adds to a thread's cell of a state, and to that of the task that it works on, without a look at single occurrences.
 * Returns 1 + the cell's number; 0: there is no such state.
 */
INLINE u32 add_sum_to_cell(struct thread_record *record, u32 state, u64 time, u64 count)
{
	if (state >= N_STATES)
		return 0;
	u32 cell = *index_of(record, state);
	if (UNLIKELY(!cell))
		cell = new_cell(record->number, state);
	if (UNLIKELY(!cell))
		return 0;
	struct cell *c = &record->cells[MASKED(cell - 1, N_CELLS)];
	c->time += time;
	c->count += count;
	if (OPTION(other_accounts)) {
		if (OPTION(tasks) && UNLIKELY(record->task_record))
			add_to_task_cell(record->task_record, cell, time, count);
		if (OPTION(publish) && record->publication)
			publish_time(record->number, cell, state, time, count);
	}
	return cell;
}

/* Adds time to a cell, and an occurrence if it ends with that time. Negative amounts take back what was added. */
INLINE void add_to_cell(struct thread_record *record, u32 state, u64 time, u64 count)
{
	u32 cell = add_sum_to_cell(record, state, time, count);
	if (OPTION(durations) && cell)
		keep_any_duration(record->number, cell - 1, time, count, record->snapshot);
}

/* The same, faster, for a span: nothing is taken back. */
INLINE void add_span_to_cell(struct thread_record *record, u32 state, u64 time, u64 ended)
{
	u32 cell = add_sum_to_cell(record, state, time, ended);
	if (OPTION(durations) && cell)
		keep_duration(record->number, cell - 1, time, ended, record->snapshot);
}

/* Adds what an event costs that is part of another event's handler. */
INLINE void add_cost(struct processor *p, u32 kind)
{
	p->cost_pending += control.after[kind];
	if (settings.undivided == SOMETIMES_UNDIVIDED)
		p->occurred[kind]++;
}

/* Returns whether this is a state of a status check (poll.<call>.<kind of file>). */
INLINE bool is_poll(u32 state)
{
	return state >= POLL && state < TAG;
}

/* Returns whether this is a page fault. */
INLINE bool is_fault(u32 state)
{
	return state - KERNEL_FAULT <= KERNEL_FAULT_MAJOR - KERNEL_FAULT;
}

/* Returns whether the thread runs its own code: unmarked, in a marked region, or in a marked function. */
INLINE bool is_user(u32 state)
{
	return state == USER || state >= TAG;
}

/* Something else than the thread's own code ran between two status checks, if the state that goes on now is its code. */
INLINE void leave_out_of_gap(struct thread_record *record, u32 state, u64 time)
{
	if (record && UNLIKELY(record->last_poll_state) && is_user(state))
		record->outside_gap += time;
}

/* Moves time and occurrences to another state. This processor must have charged them since the last snapshot and switch. */
u64 move_time(u32 number, u32 from, u32 to, u64 time, u64 count)
{
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	if (!p || !record || from >= N_STATES || to >= N_STATES || from == to)
		return 0;
	struct cell *cell = cell_of(p, from);
	cell->time -= time;
	cell->count -= count;
	cell = cell_of(p, to);
	cell->time += time;
	cell->count += count;
	add_to_cell(record, from, -time, -count);
	add_to_cell(record, to, time, count);
	if (OPTION(record))
		record_move(number, from, to, time, count);
	if (p->longest_state == from && p->longest <= time)
		p->longest_state = to;
	return 0;
}

/* Gives up the pending time: it stays what it was charged as. */
INLINE void forget_pending(struct processor *p)
{
	p->pending_user = 0;
	p->n_pending = 0;
}

/* Takes back occurrences of a state that turned out to be none. */
INLINE void drop_occurrences(struct processor *p, struct thread_record *record, u32 number, u32 state, u64 count)
{
	if (state >= N_STATES)
		return;
	cell_of(p, state)->count -= count;
	add_to_cell(record, state, 0, -count);
	if (OPTION(record))
		record_amount(number, state, 0, -count, p->since);
}

/* These look up the thread record themselves, because the verifier loses track of such a pointer in a caller's loop. */
GLOBAL int add_to_cell_of(u32 number, u32 state, u64 time, u64 count)
{
	struct thread_record *record = thread_record_at(number);
	if (record)
		add_to_cell(record, state, time, count);
	return 0;
}

/* Counts a state that ends while another state interrupts it, or that ends with its thread: no span ended with it. */
GLOBAL int count_interrupted(u32 number, u32 state)
{
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	if (!p || !record || state >= N_STATES)
		return 0;
	cell_of(p, state)->count++;
	add_to_cell(record, state, 0, 1);
	if (OPTION(record))
		record_amount(number, state, 0, 1, p->since);
	return 0;
}

GLOBAL int add_sum_to_cell_of(u32 number, u32 state, u64 time, u64 count)
{
	struct thread_record *record = thread_record_at(number);
	if (record)
		add_sum_to_cell(record, state, time, count);
	return 0;
}

#endif
