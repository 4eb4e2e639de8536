/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What threads read of themselves and of each other while they are measured: the time of each kind and state so far, without
 * a system call.
 *
 * Each user whose processes ask has a map of its own (layout.h has its entries), and each thread is in the map of its user
 * or in none. Whatever is added to a cell of a thread is added there, too. At the end of each handler the thread that has
 * the processor gets the moment until which its times are, and the state that goes on. Whoever reads adds the time that has
 * passed since. A thread never reads itself while a handler writes: only the processor that runs it writes, in handlers that
 * interrupt it, or whoever wakes it. Others may, so `sequence` is odd from the first change to the last one.
 *
 * Stolen time is found later, and then leaves the state from which it was taken. So a thread may have read more processor
 * time than it turns out to have had. `told` is the most that it can have read: no reader says less.
 */
#ifndef HEADWAY_PUBLISHING_H
#define HEADWAY_PUBLISHING_H

#include "shared/maps.h"

/* The kind of each state. Those of tags are written when a tag gets its name. */
/* clang-format off */
u8 published_kinds[N_STATES] SEC(".data.published_kinds") = {
	[USER] = PUBLISHED_EFFECTIVE,
	[READY] = PUBLISHED_READY,
	[IDLE] = PUBLISHED_WAIT,
	[STOPPED] = PUBLISHED_WAIT,
	[KERNEL_FAULT ... KERNEL_OTHER] = PUBLISHED_KERNEL,
	[RUNNING] = PUBLISHED_UNDIVIDED,
	[WAIT_FUTEX ... WAIT_OTHER] = PUBLISHED_WAIT,
	[READY_PART ... READY_PART + N_READY_PARTS - 1] = PUBLISHED_READY,
	[IRQ_DEVICE ... IRQ_ANY] = PUBLISHED_KERNEL,
	[SOFTIRQ ... SOFTIRQ + N_SOFTIRQS - 1] = PUBLISHED_KERNEL,
	[KERNEL_COREDUMP ... KERNEL_SIGNAL] = PUBLISHED_KERNEL,
	[WAIT_COREDUMP ... WAIT_OVERLAY] = PUBLISHED_WAIT,
	[POLL_IO_URING] = PUBLISHED_POLL,
	[KERNEL_CALL ... WAIT_CALL - 1] = PUBLISHED_KERNEL,
	[WAIT_CALL ... POLL - 1] = PUBLISHED_WAIT,
	[POLL ... TAG - 1] = PUBLISHED_POLL,
	[TAG ... N_STATES - 1] = PUBLISHED_KERNEL,
};
/* clang-format on */

/* The kinds in which a thread has a processor, a bit each. */
enum {
	KINDS_ON = 1 << PUBLISHED_EFFECTIVE | 1 << PUBLISHED_KERNEL | 1 << PUBLISHED_POLL | 1 << PUBLISHED_UNDIVIDED,
};

INLINE u32 published_kind(u64 state)
{
	OPAQUE(state);
	if (state >= N_STATES)
		state = STATE_NONE;
	return published_kinds[state];
}

/* The name of a tag of marked regions is known. Its first word says what it is (tag_state in _mapped.pyx). */
INLINE void publish_kind_of_tag(u64 tag, const char *name)
{
	bool poll =
		name[0] == 'p' && name[1] == 'o' && name[2] == 'l' && name[3] == 'l' && (name[4] == '.' || name[4] == 0);
	bool progress = name[0] == 'u' && name[1] == 's' && name[2] == 'e' && name[3] == 'r' && name[4] == '.';
	published_kinds[TAG + MASKED(tag, N_TAGS)] = poll ? PUBLISHED_POLL
		: progress                                    ? PUBLISHED_EFFECTIVE
													  : PUBLISHED_KERNEL;
}

/* ---- the entries of a publication: 1 + its place among them; 0: there is none, and no entry ---- */

INLINE void *publication_at(u32 publication)
{
	u32 place = publication - 1;
	return bpf_map_lookup_elem(&publications, &place);
}

INLINE void *published_unit(u32 publication, u32 unit)
{
	void *map = publication_at(publication);
	return map ? bpf_map_lookup_elem(map, &unit) : NULL;
}

/* Returns the entry of a thread, by the number of its record. */
INLINE struct published_thread *published_thread_of(u32 publication, u32 number)
{
	return published_unit(publication, number);
}

INLINE u32 state_unit(u32 number)
{
	return settings.published + number * STATE_UNITS;
}

INLINE struct published_states *published_states_of(u32 publication, u32 number)
{
	return published_unit(publication, state_unit(number));
}

/* From here on the entry of a thread may not fit together, until publish_thread. */
INLINE void begin_publishing(struct published_thread *to)
{
	if (!(to->sequence & 1))
		to->sequence++;
	ORDER();
}

/* ---- times ---- */

/* Time is added to a cell of a thread. `cell`: 1 + its number. */
INLINE int publish_time_in(u32 publication, u32 number, u32 cell, u32 state, u64 time, u64 count)
{
	u32 i = cell - 1;
	void *map = publication_at(publication);
	if (!map || (!time && !count))
		return 0;
	if (i >= N_PUBLISHED_STATES) {
		i = N_PUBLISHED_STATES - 1;
		state = UNKNOWN;
	}
	u32 unit = state_unit(number) + 1 + i / UNIT_CELLS;
	struct published_thread *to = bpf_map_lookup_elem(map, &number);
	struct published_cells *cells = bpf_map_lookup_elem(map, &unit);
	if (!to || !cells)
		return 0;
	begin_publishing(to);
	to->times[MASKED(published_kind(state), N_PUBLISHED)] += time;
	struct cell *c = &cells->cells[MASKED(i, UNIT_CELLS)];
	if (UNLIKELY(!c->count))
		c->count = (u64)state << COUNT_BITS;
	c->time += time;
	c->count += count;
	return 0;
}

GLOBAL int publish_time(u32 number, u32 cell, u32 state, u64 time, u64 count)
{
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	return record ? publish_time_in(record->publication, number, cell, state, time, count) : 0;
}

/* An interrupt met a handler, and has ended: the next handler charges it. */
INLINE void publish_deferred(struct processor *p, u32 state)
{
	u32 number = p->thread_record;
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	u32 publication = record ? record->publication : 0;
	struct published_thread *to = published_thread_of(publication, number);
	struct published_states *states = published_states_of(publication, number);
	if (!to || !states)
		return;
	to->deferred = p->deferred_total - p->absorbed_total;
	states->deferred_state = state;
}

/* A thread has a tag whose state this is: its user may learn the name. */
INLINE void publish_name_of_state(u32 publication, u32 state)
{
	u32 tag = state - TAG;
	struct tag_name *from = tag < N_TAGS ? bpf_map_lookup_elem(&tag_names, &tag) : NULL;
	struct published_names *to =
		published_unit(publication, settings.published * (1 + STATE_UNITS) + state / UNIT_NAMES);
	if (from && to && from->name[0])
		bpf_probe_read_kernel(to->names[MASKED(state, UNIT_NAMES)].name, sizeof(from->name), from->name);
}

/* A tag of the running thread's block, as it is now. */
GLOBAL int publish_tag(u32 number, u32 tag, u32 state, u64 value, u32 on)
{
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	u32 publication = record ? record->publication : 0;
	struct published_states *states = published_states_of(publication, number);
	u32 unit = state_unit(number) + 1 + N_PUBLISHED_STATES / UNIT_CELLS + tag / UNIT_TAGS;
	struct published_tags *tags = published_unit(publication, unit);
	if (!states || !tags)
		return 0;
	struct published_tag *to = &tags->tags[MASKED(tag, UNIT_TAGS)];
	if (to->state != state) {
		to->state = state;
		publish_name_of_state(publication, state);
	}
	to->value = value;
	if (on)
		states->open_tag = 1 + tag;
	return 0;
}

/* The region of a tag that goes on has grown, while the thread was in no user code. */
GLOBAL int publish_growth(u32 number, u32 publication, u32 tag, u64 growth)
{
	u32 unit = state_unit(number) + 1 + N_PUBLISHED_STATES / UNIT_CELLS + MASKED(tag, N_BLOCK_TAGS) / UNIT_TAGS;
	struct published_tags *tags = published_unit(publication, unit);
	if (tags)
		tags->tags[MASKED(tag, UNIT_TAGS)].value += growth;
	return 0;
}

/* ---- threads ---- */

/* A thread is in this state since that moment. `where`: the number of its record, above it its publication. `absent`: 0, or PUBLISHED_ABSENT if it has no processor. */
GLOBAL int publish_state(u64 where, u32 state, u64 since, u32 absent)
{
	u32 number = where, publication = where >> 32, unit = state_unit(number);
	struct processor *p = this_processor();
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	void *map = publication_at(publication);
	if (!p || !record || !map)
		return 0;
	struct published_thread *to = bpf_map_lookup_elem(map, &number);
	struct published_states *states = bpf_map_lookup_elem(map, &unit);
	if (!to || !states)
		return 0;
	begin_publishing(to);
	u64 rpi = states->rpi, open = to->open_region;
	if (KINDS_ON >> (to->kind & 31) & 1)
		rpi += since - states->since;
	if (rpi > states->told)
		states->told = rpi;
	states->rpi = to->times[PUBLISHED_EFFECTIVE] + to->times[PUBLISHED_KERNEL] + to->times[PUBLISHED_POLL] +
		to->times[PUBLISHED_UNDIVIDED];
	if (open)
		to->regions[MASKED(open - 1, 2)] += since - to->since;
	if (states->open_tag)
		publish_growth(number, publication, states->open_tag - 1, since - to->since);
	states->since = to->since = since;
	states->state = state;
	to->kind = published_kind(state) | absent;
	to->deferred = absent ? 0 : p->deferred_total - p->absorbed_total;
	if (!record->block) { /* publish_regions says when there is one */
		to->marked = 0;
		to->open_region = 0;
		states->open_tag = 0;
	}
	to->birth = record->block && !to->marked ? 0 : record->birth; /* its block will be read at the end of a span */
	u32 used = record->used;
	states->cells_used = used < N_PUBLISHED_STATES ? used : N_PUBLISHED_STATES;
	ORDER();
	to->sequence = (to->sequence | 1) + 1;
	return 0;
}

GLOBAL int publish_thread(u32 number, u32 state, u64 since, u32 absent)
{
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	if (record && record->publication)
		publish_state(number | (u64)record->publication << 32, state, since, absent);
	return 0;
}

/* The number of an id in one of its pid namespaces, and which that is. */
struct innermost_id {
	s32 nr;
	u32 hole;
	struct pid_namespace *ns;
};

INLINE struct innermost_id innermost_id(struct task_struct *task)
{
	struct innermost_id id = {};
	struct pid *ids = task->thread_pid;
	if (ids)
		bpf_probe_read_kernel(&id, sizeof(id), (char *)&ids->numbers[0] + ids->level * sizeof(id));
	return id;
}

/* The thread has the ids by which it knows itself. */
NOINLINE int identify_published_thread(struct task_struct *task, u32 number, u32 publication)
{
	struct published_thread *to = published_thread_of(publication, number);
	struct published_states *states = published_states_of(publication, number);
	if (!to || !states)
		return 0;
	struct innermost_id id = innermost_id(task);
	struct pid_namespace *space = id.ns;
	to->pid_namespace = FOLLOW(space, ns.inum);
	to->tid = id.nr;
	id = innermost_id(task->group_leader);
	states->pid = id.nr;
	return 0;
}

/* It has another name. */
GLOBAL int publish_name(u32 number, u32 publication)
{
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	struct published_states *states = published_states_of(publication, number);
	if (states && record)
		bpf_probe_read_kernel(states->name, sizeof(states->name), record->name);
	return 0;
}

/* It has ended, or is told elsewhere. */
GLOBAL int close_published_thread(u32 number)
{
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	struct published_thread *to = record ? published_thread_of(record->publication, number) : NULL;
	if (!to)
		return 0;
	begin_publishing(to);
	to->tid = 0;
	to->birth = 0;
	ORDER();
	to->sequence = (to->sequence | 1) + 1;
	return 0;
}

/* ---- in which map a thread is ---- */

GLOBAL int clear_published_unit(u32 publication, u32 unit)
{
	struct published_unit *to = published_unit(publication, unit);
	if (to)
		__builtin_memset(to, 0, sizeof(*to));
	return 0;
}

/* What a cell has so far is added to what is published. */
GLOBAL int publish_cell(u32 number, u32 publication, u32 cell)
{
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	if (!record)
		return 0;
	struct cell *c = &record->cells[MASKED(cell, N_CELLS)];
	u64 count = c->count;
	publish_time_in(publication, number, cell + 1, count >> COUNT_BITS, c->time, count & ((1ull << COUNT_BITS) - 1));
	return 0;
}

/* Returns 1 + the place of a user's map; 0: there is none. */
GLOBAL u32 publication_of(u32 user)
{
	u32 n = control.publications;
	for (u32 i = 0; i < N_PUBLICATIONS && i < n; i++)
		if (control.publication_users[i] == user)
			return i + 1;
	return 0;
}

INLINE u32 publication_of_task(struct task_struct *task, u32 number)
{
	struct cred *cred = task->cred;
	if (number >= settings.published)
		return 0;
	return publication_of(settings.publish == PUBLISH_TO_USER ? FOLLOW(cred, euid.val) : EVERYBODY);
}

/* A thread is told in this map from now on: writes what it has done so far. */
GLOBAL int begin_publication(u32 number, u32 publication)
{
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	struct publication *head = published_unit(publication, 0);
	if (!record || !head)
		return 0;
	clear_published_unit(publication, number);
	for (u32 i = 0; i < STATE_UNITS; i++)
		clear_published_unit(publication, state_unit(number) + i);
	u32 used = record->used;
	for (u32 i = 0; i < N_CELLS && i < used; i++)
		publish_cell(number, publication, i);
	publish_name(number, publication);
	if (head->threads_used <= control.thread_records)
		head->threads_used = control.thread_records + 1;
	return 0;
}

/* There is a map for one user more, or the running thread's user may have changed: finds the map in which it is told. */
GLOBAL int choose_publication(u32 number)
{
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	struct task_struct *task = bpf_get_current_task_btf();
	if (!record)
		return 0;
	record->publications = control.publications;
	u32 publication = publication_of_task(task, number);
	if (publication == record->publication)
		return 0;
	close_published_thread(number);
	record->publication = publication;
	if (!publication)
		return 0;
	begin_publication(number, publication);
	identify_published_thread(task, number, publication);
	return 0;
}

/*
 * A thread that has no processor is told, too, and not only from its next event on. It may have one before this is done: its
 * handlers write nothing until they find the map, and whatever has changed by then is left to the next event.
 */
INLINE void publish_absent_thread(struct task_struct *task, struct thread_record *record, u32 number)
{
	u32 state = record->state, publication;
	u64 since = record->since;
	if (record->cpu || record->publications == control.publications || record->publication)
		return;
	publication = publication_of_task(task, number);
	if (!publication)
		return;
	begin_publication(number, publication);
	identify_published_thread(task, number, publication);
	publish_state(number | (u64)publication << 32, state, since, PUBLISHED_ABSENT);
	ORDER();
	record->publication = publication;
	ORDER();
	if (record->cpu || record->since != since || record->state != state) {
		close_published_thread(number);
		record->publication = 0;
		record->publications = control.publications - 1; /* it may have found the map meanwhile: it does so again */
	} else
		record->publications = control.publications;
}

/* The running thread leaves its processor, in this state. */
GLOBAL int publish_departure(u32 number, u32 state, u64 since)
{
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	if (record && record->publications != control.publications)
		choose_publication(number);
	publish_thread(number, state, since, PUBLISHED_ABSENT);
	return 0;
}

/* A handler is done on this processor, and the thread that has it will go on. */
GLOBAL int publish(void)
{
	struct processor *p = this_processor();
	u32 number = p ? p->thread_record : 0;
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	if (!p || !number || !record)
		return 0;
	if (UNLIKELY(record->publications != control.publications) && p->task == (u64)bpf_get_current_task_btf())
		choose_publication(number);
	if (record->publication)
		publish_state(number | (u64)record->publication << 32, p->state, p->since, 0);
	return 0;
}

/* ---- the end ---- */

GLOBAL int publish_end_in(u32 publication, u64 until)
{
	u32 first = 0;
	struct publication *head = published_unit(publication, first);
	if (head && until < head->until)
		head->until = until;
	return 0;
}

/* Nothing is measured from this moment on. The first one that is said stays. */
INLINE void publish_end(u64 until)
{
	for (u32 i = 1; i <= N_PUBLICATIONS; i++)
		publish_end_in(i, until);
}

#endif
