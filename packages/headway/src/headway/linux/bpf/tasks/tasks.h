/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a thread works on: the time of a thread is charged to its tasks, too.
 *
 * A thread writes down in its own memory when it began to work on which task (headway.h). The log cannot change while the
 * thread does not run its own code, so a reading at the end of a span of user code tells the task until the next such span
 * ends. Whatever is added to a cell of the thread is added to the same cell of its task (add_to_cell), so the times of
 * tasks add up to no more than the thread's, state by state. The rest is time between tasks.
 *
 * Where the task changes within a span of user code, the span is divided at the moments that the thread wrote down. Marked
 * regions of that span have no moments, only lengths: these are divided among its tasks as the span is.
 *
 * The program can write anything into its log, so each part is limited to what is left of the span.
 *
 * A thread without a log may have a context of OpenTelemetry instead: contexts.h.
 */
#ifndef HEADWAY_TASKS_H
#define HEADWAY_TASKS_H

#include "regions/regions.h"

enum { TASK_NAME_NONE = 0, OTHER_TASK_NAME = N_TASK_NAMES }; /* no name; one of those for which there is no room */
enum { NAME_IN_RECORD = OTHER_TASKS }; /* no program's number reaches number_of_task_name as this */
enum { SHARED_NAMES = N_PROGRAM_NAMES }; /* in a key: above the numbers of the program, those for all programs */

INLINE void add_overhead_to_task(u32 task, u64 cost)
{
	struct task_record *record = task_record_at(task);
	if (record)
		record->overhead += cost;
}

/* Copies what a task has got until a snapshot. It gets nothing before this snapshot any more. */
GLOBAL u64 save_task(u32 task, u32 snapshot)
{
	struct task_record *record = task_record_at(task);
	struct task_record *copy = bpf_map_lookup_elem(&saved_task_records, &task);
	if (!record || !copy || record->snapshot == snapshot)
		return 0;
	copy->snapshot = 0;
	ORDER();
	bpf_probe_read_kernel(copy, sizeof(*copy), record);
	ORDER();
	copy->snapshot = record->snapshot = snapshot;
	return 0;
}

/* ---- records of tasks ---- */

/* Returns the number, for all programs, of a name of the thread's program; TASK_NAME_NONE: it cannot be read, or there is no
 * room. `own`: its number in the program; NAME_IN_RECORD: the name is in the thread record. */
GLOBAL u64 number_of_task_name(u32 number, u32 own)
{
	struct thread_record *record = thread_record_at(number);
	struct processor *p = this_processor();
	u32 fresh = 0;
	if (!p || !record)
		return TASK_NAME_NONE;
	struct task_name *name = &record->task_name;
	if (own != NAME_IN_RECORD) {
		__builtin_memset(name, 0, sizeof(*name));
		if (own >= N_PROGRAM_NAMES ||
			bpf_probe_read_user_str(
				name->name, TASK_NAME_LENGTH, (void *)(record->task_names + own * TASK_NAME_LENGTH)) <= 1) {
			count_loss(p, LOST_LOGS, 1);
			return TASK_NAME_NONE;
		}
	}
	u32 *known = bpf_map_lookup_elem(&task_name_numbers, name);
	if (known)
		return *known;
	struct task_name *room =
		bpf_map_pop_elem(&free_task_names, &fresh) ? NULL : bpf_map_lookup_elem(&task_names, &fresh);
	if (!room) {
		count_loss(p, LOST_TASKS, 1);
		return TASK_NAME_NONE;
	}
	__builtin_memcpy(room, name, sizeof(*name)); /* before anyone can find its number */
	if (bpf_map_update_elem(&task_name_numbers, name, &fresh, IF_NEW)) { /* another processor was faster */
		__builtin_memset(room, 0, sizeof(*room));
		bpf_map_push_elem(&free_task_names, &fresh, 0);
		known = bpf_map_lookup_elem(&task_name_numbers, name);
		return known ? *known : TASK_NAME_NONE;
	}
	return fresh;
}

/* Returns the number of the record of a thread's task; if there is no room, of its other tasks. `name`: in the program, or
 * from SHARED_NAMES on for all programs. */
GLOBAL u64 task_record_of(u32 number, u64 task, u32 name)
{
	struct thread_record *record = thread_record_at(number);
	struct processor *p = this_processor();
	u32 at = 0, shared = TASK_NAME_NONE;
	if (!p || !record)
		return 0;
	struct task_key *key = &record->task_key;
	key->birth = record->birth;
	key->task = name ? 0 : task;
	key->thread_record = number;
	key->name = name;
	u32 *known = bpf_map_lookup_elem(&task_numbers, key);
	if (known)
		return *known;
	if (name && name != OTHER_TASKS) {
		bool is_shared = name >= SHARED_NAMES && !record->task_log; /* a log has numbers of the program only */
		shared = is_shared ? name - SHARED_NAMES : number_of_task_name(number, name);
		if (shared == TASK_NAME_NONE)
			return record->other_tasks;
	}
	bool room = record->n_tasks < N_THREAD_TASKS && !bpf_map_pop_elem(&free_task_records, &at);
	struct task_record *fresh = room ? task_record_at(at) : NULL;
	if (!fresh) {
		count_loss(p, LOST_TASKS, 1);
		return record->other_tasks;
	}
	if (bpf_map_update_elem(&task_numbers, key, &at, 0)) {
		bpf_map_push_elem(&free_task_records, &at, 0);
		count_loss(p, LOST_TASKS, 1);
		return record->other_tasks;
	}
	fresh->kind = TASK_RECORD;
	__builtin_memcpy(&fresh->key, key, sizeof(*key));
	fresh->changes = 0;
	fresh->overhead = 0;
	fresh->undated = 0;
	fresh->span_id = fresh->trace_id[0] = fresh->trace_id[1] = 0;
	fresh->began = 0;
	fresh->pid = record->pid;
	fresh->name = shared;
	fresh->snapshot = p->snapshot;
	fresh->next = record->task_records;
	record->task_records = at;
	record->n_tasks++;
	ORDER();
	fresh->opened = bpf_ktime_get_ns();
	return at;
}

static const volatile u64 no_task_cells[2 * N_CELLS] SEC(".rodata.none");

/* Sends the first of a thread's records of tasks to the reader, and frees it. */
GLOBAL u64 close_task_record(u32 number)
{
	struct thread_record *thread = thread_record_at(number);
	struct processor *p = this_processor();
	u32 at = thread ? thread->task_records : 0;
	struct task_record *record = at ? task_record_at(at) : NULL;
	if (!p || !thread || !record)
		return 0;
	u32 size = __builtin_offsetof(struct task_record, cells) + (thread->used & 255) * sizeof(struct cell);
	if (size > sizeof(struct task_record))
		size = sizeof(struct task_record);
	__builtin_memcpy(&thread->task_key, &record->key, sizeof(record->key));
	record->used = thread->used;
	if (settings.intervals)
		save_task(at, p->snapshot);
	if (bpf_ringbuf_output(&exits, record, size, RING_NO_WAKEUP))
		count_loss(p, LOST_EXITS, 1);
	bpf_map_delete_elem(&task_numbers, &thread->task_key);
	thread->task_records = record->next;
	record->opened = 0;
	bpf_probe_read_kernel(record->cells, sizeof(record->cells), (const void *)no_task_cells);
	bpf_map_push_elem(&free_task_records, &at, 0);
	return 1;
}

/* Before a thread's totals are sent: the reader gets those of its tasks first. */
GLOBAL u64 close_task_records(u32 number)
{
	for (u32 i = 0; i <= N_THREAD_TASKS; i++)
		if (!close_task_record(number))
			break;
	return 0;
}

/* ---- the parts of a span ---- */

/* The thread works on no task from now on that its log or its context could tell of. */
INLINE void forget_tasks(struct thread_record *record)
{
	record->task_log = 0;
	record->task_names = 0;
	record->task_record = 0;
	record->context.known = 0;
	record->span_id = record->trace_id[0] = record->trace_id[1] = 0;
	record->attribute_size = record->names_known = 0;
}

/* Returns the part of a time that falls into a part of a span, in proportion. */
INLINE u64 proportion(u64 time, u64 part, u64 all)
{
	if (part >= all || !all)
		return time;
	return all >> 31 ? (time >> 10) * (part >> 10) / ((all >> 20) + 1) : time * part / all;
}

/* Adds to the cell of a state that the thread has been in, in the record of one of its tasks. */
GLOBAL u64 add_to_task_state(u32 number, u32 task, u32 state, u64 time)
{
	struct thread_record *record = thread_record_at(number);
	u32 cell = record && state < N_STATES ? *index_of(record, state) : 0;
	if (task && cell)
		add_to_task_cell(task, cell, time, 0);
	return 0;
}

/* Moves a task's part of the time in a region from the task with which the span began. */
GLOBAL u64 move_region_to_task(u32 number, u32 task, u32 tag, u64 part)
{
	struct thread_record *record = thread_record_at(number);
	struct marks *m = bpf_task_storage_get(&marks, bpf_get_current_task_btf(), NULL, 0);
	if (!record || !m)
		return 0;
	struct mark *mark = &m->tags[MASKED(tag, N_BLOCK_TAGS)];
	u64 time = mark->last;
	if (!time)
		return 0;
	time = proportion(time, part, record->task_span);
	add_to_task_state(number, record->task_first, mark->state, -time);
	add_to_task_state(number, task, mark->state, time);
	return 0;
}

/* The regions in a part of the span, which were charged to the task with which the span began, belong to the present one. */
INLINE void move_regions_to_task(struct thread_record *record, u32 number, u64 part)
{
	u32 task = record->task_record;
	if (record->region_time && task != record->task_first)
		for (u32 i = 0; i < N_BLOCK_TAGS; i++)
			move_region_to_task(number, task, i, part);
}

/* The task changes at a moment within the span: charges the part before it to the present task. */
INLINE void end_part(struct processor *p, struct thread_record *record, u32 number, u64 moment)
{
	u64 since = record->task_since, part = moment - since, left = record->task_left;
	u64 time = part < left ? part : left;
	if (record->region_time && !(record->task_span >> 31)) { /* a part has no more time than it is long */
		u64 after = record->task_time * (record->task_until - moment) / record->task_span;
		time = after < left ? left - after : 0;
	}
	add_to_task_state(number, record->task_record, p->state, time);
	move_regions_to_task(record, number, part);
	if (OPTION(record) && part)
		record_any_span(number, since, moment, time, p->state);
	record->task_since = moment;
	record->task_left -= time;
}

/* The thread works on the task of this record from now on; 0: on none. */
INLINE void go_on_with_task(struct processor *p, struct thread_record *record, u32 number, u32 at, u64 task)
{
	struct task_record *now = at ? task_record_at(at) : NULL;
	record->task_record = at;
	if (now) {
		if (settings.intervals)
			save_task(at, p->snapshot);
		now->changes++;
	}
	if (OPTION(record)) {
		bool other = at && at == record->other_tasks;
		record_task(number, record->task_since, other ? OTHER_TASK_NAME : now ? now->name : TASK_NAME_NONE, task);
	}
}

/* The thread works on a task from now on. */
INLINE void begin_task(struct processor *p, struct thread_record *record, u32 number, u64 task, u32 name)
{
	go_on_with_task(p, record, number, task || name ? task_record_of(number, task, name) : 0, task);
}

/* Begins to divide a span of user code, of which `time` is not in marked regions. */
INLINE void begin_division(struct processor *p, struct thread_record *record, u64 since, u64 until, u64 time)
{
	add_to_cell(record, p->state, 0, 0); /* the thread has a cell for the state from here on */
	struct marks *m = record->block ? bpf_task_storage_get(&marks, bpf_get_current_task_btf(), NULL, 0) : NULL;
	record->region_time = m && m->at == until ? m->span.time - m->span.left : 0;
	record->task_until = until;
	record->task_span = until - since;
	record->task_time = time;
	record->task_first = record->task_record;
}

/* What is left of the span belongs to the present task. */
INLINE void end_division(struct processor *p, struct thread_record *record, u32 number)
{
	add_to_task_state(number, record->task_record, p->state, record->task_left - record->task_time);
	move_regions_to_task(record, number, record->task_until - record->task_since);
	record->last_poll_state = 0; /* another task asks for other things: a row of status checks ends */
	record->polling = 0;
	forget_pending(p);
}

/* ---- logs ---- */

/* Begins to read a thread's log, with its last change: what came before is past. */
GLOBAL u64 register_task_log(u32 number, u64 address)
{
	struct {
		u64 magic;
		u32 tid, size;
		u64 names, since, n;
	} head = {};
	struct {
		s32 nr;
		u32 hole;
		u64 space;
	} innermost = {};
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	struct task_struct *task = bpf_get_current_task_btf();
	if (!p || !record)
		return 0;
	forget_tasks(record);
	struct pid *ids = task->thread_pid;
	if (ids)
		bpf_probe_read_kernel(&innermost, sizeof(innermost), (char *)&ids->numbers[0] + ids->level * sizeof(innermost));
	if (address >> 48 || address & 7 || bpf_probe_read_user(&head, sizeof(head), (void *)address) ||
		head.magic != TASK_LOG_MAGIC || head.size != N_CHANGES || head.tid != (u32)innermost.nr || !head.names ||
		head.names >> 48) {
		count_loss(p, LOST_LOGS, 1);
		return 0;
	}
	record->changes = head.n ? head.n - 1 : 0;
	record->task_names = head.names;
	record->task_log = address;
	return 1;
}

/* Takes the next change of the thread's log. Returns false if it is not written yet, or lies after `until`. */
GLOBAL u64 take_change(u32 number, u64 until, u64 now)
{
	struct thread_record *record = thread_record_at(number);
	struct processor *p = this_processor();
	if (!p || !record)
		return 0;
	u64 place = record->task_log + __builtin_offsetof(struct task_log, changes) +
		(record->changes & (N_CHANGES - 1)) * sizeof(struct task_change);
	struct task_change *change = &record->change;
	if (bpf_probe_read_user(change, sizeof(*change), (void *)place)) {
		count_loss(p, LOST_LOGS, 1);
		return 0;
	}
	u64 at = change->at;
	if (change->number != (u32)(record->changes + 1))
		return 0;
	if (at > now + CLOCK_SLACK) {
		count_loss(p, LOST_LOGS, 1);
		at = until;
	} else if (at > until && until != now) /* a snapshot lies in the span: this is after it */
		return 0;
	if (at > until)
		at = until;
	if (at < record->task_since) /* the thread was interrupted between reading the clock and writing this */
		at = record->task_since;
	end_part(p, record, number, at);
	record->changes++;
	begin_task(p, record, number, change->task, change->name);
	return 1;
}

/* Reads what is new in the thread's log, and divides the span by it. */
INLINE void read_changes(u32 number, u64 since, u64 until, u64 now, u64 time)
{
	struct thread_record *record = thread_record_at(number);
	struct processor *p = this_processor();
	u64 n = 0;
	if (!p || !record)
		return;
	record->task_since = since;
	record->task_left = time;
	if (!record->task_names && !register_task_log(number, record->task_log)) /* the reader has found the log */
		return;
	if (!record->other_tasks)
		record->other_tasks = task_record_of(number, 0, OTHER_TASKS);
	if (!record->other_tasks) { /* there is no room, which was counted */
		forget_tasks(record);
		return;
	}
	if (bpf_probe_read_user(&n, sizeof(n), (void *)(record->task_log + __builtin_offsetof(struct task_log, n)))) {
		count_loss(p, LOST_LOGS, 1);
		return;
	}
	u64 fresh = n - record->changes;
	if (!fresh)
		return;
	begin_division(p, record, since, until, time);
	if (fresh > N_CHANGES) {
		u64 lost = fresh - N_CHANGES, most = now - since;
		count_loss(p, LOST_CHANGES, lost < most ? lost : most); /* each takes a nanosecond at least */
		record->changes = n - N_CHANGES;
		record->task_record = record->other_tasks;
		if (OPTION(record))
			record_task(number, since, OTHER_TASK_NAME, 0);
		fresh = N_CHANGES;
	}
	for (u32 i = 0; i < N_CHANGES && i < fresh; i++)
		if (!take_change(number, until, now))
			break;
	end_division(p, record, number);
}

#endif
