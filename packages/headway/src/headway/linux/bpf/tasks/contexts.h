/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The thread context of OpenTelemetry: a thread's trace and span, which its program publishes for other processes to read.
 *
 * Source: OTEP 4947, "Thread Context: Sharing Thread-Level Information with External Readers" (commit 631bbb4b749f of
 * open-telemetry/opentelemetry-specification). Each thread has a pointer in its thread-local storage, `otel_thread_ctx_v1`,
 * to a record: trace id, span id, a byte that says whether the record is valid, attributes. User space finds where the
 * pointer is (linux/contexts), once for each process. The record may change only while the thread runs its own code, so a
 * reading at the end of a span of user code tells the context until the next such span ends, as that of a log does.
 *
 * Unlike a log, a context does not say when it changed. A span in which it changed is charged to the context at its end as
 * a whole, and its time is counted as `undated`: so much at most is in a wrong task. What began and ended within one span is
 * not seen.
 *
 * A task's id is its span's. An attribute that the program has chosen for it, such as the route of a request, is its name.
 */
#ifndef HEADWAY_CONTEXTS_H
#define HEADWAY_CONTEXTS_H

#include "tasks/tasks.h"

enum { CONTEXT_HEAD = 28, CONTEXT_VALID = 1 };
/* prctl(2)'s first argument when a program names a part of its memory: so it tells observers of its process context, which
 * says how to read those of its threads (OTEP 4719). */
enum { NAME_MEMORY_CALL = 0x53564d41 };

INLINE struct context_record *this_context(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	return bpf_map_lookup_elem(&thread_contexts, &cpu);
}

/* A thread gets what is known of its creator's process: it has the same program. */
INLINE void inherit_context(struct task_struct *parent, u32 number)
{
	u32 of_parent = thread_record_of(parent);
	struct thread_record *from = of_parent ? thread_record_at(of_parent) : NULL;
	struct thread_record *to = number ? thread_record_at(number) : NULL;
	if (from && to)
		__builtin_memcpy(&to->context, &from->context, sizeof(to->context));
}

/* Returns the address of the record of the running thread, as its pointer has it; 0: it has none. */
GLOBAL u64 context_address(u32 number)
{
	struct thread_record *record = thread_record_at(number);
	u64 at = THREAD_POINTER(bpf_get_current_task_btf()), vector = 0, n = 0, address = 0;
	if (!OPTION(tasks) || !record || !at)
		return 0;
	u32 module = record->context.module;
	if (module) {
		u32 entry = record->context.entry & 7;
		/* The C library gives a thread memory for a module when it first needs it. It says how many entries there are: musl
		 * in the first entry, glibc in the one before it. */
		if (bpf_probe_read_user(&vector, sizeof(vector), (void *)(at + record->context.vector - VECTOR_BASE)) ||
			!vector || vector >> 48)
			return 0;
		if (bpf_probe_read_user(&n, sizeof(n), (void *)(vector - (entry == 4 ? 16 : 0))) || module > n)
			return 0;
		if (bpf_probe_read_user(&at, sizeof(at), (void *)(vector + ((u64)module << entry))) || !at || at >> 48)
			return 0;
	}
	/* A page that has never been written is not there: the pointer on it is NULL. */
	if (bpf_probe_read_user(&address, sizeof(address), (void *)(at + record->context.offset)))
		return 0;
	return address;
}

/* Reads the running thread's context. Returns whether it is another one than that in which the thread worked before. What is
 * invalid is none. */
GLOBAL u64 fetch_context(u32 number)
{
	struct thread_record *record = thread_record_at(number);
	struct context_record *c = this_context();
	struct processor *p = this_processor();
	if (!OPTION(tasks) || !p || !record || !c)
		return 0;
	u64 address = context_address(number);
	bool there = address;
	if (there && (address & 1 || address >> 48 || bpf_probe_read_user(c, CONTEXT_HEAD, (void *)address))) {
		count_loss(p, LOST_CONTEXTS, 1);
		there = false;
	}
	if (there && c->valid != CONTEXT_VALID) {
		if (c->valid)
			count_loss(p, LOST_CONTEXTS, 1);
		there = false;
	}
	bool in_trace = c->trace_id[0] | c->trace_id[1], in_span = c->span_id;
	if (there && in_trace != in_span) {
		count_loss(p, LOST_CONTEXTS, 1);
		there = false;
	}
	if (!there) {
		c->span_id = c->trace_id[0] = c->trace_id[1] = 0;
		c->size = 0;
	}
	c->attributes_at = address + CONTEXT_HEAD;
	return c->span_id != record->span_id || c->trace_id[0] != record->trace_id[0] ||
		c->trace_id[1] != record->trace_id[1] || c->size != record->attribute_size ||
		(c->size && record->names_known != record->context.n_names);
}

/* Looks at the next attribute of the context that was read. Returns whether there may be more. */
GLOBAL u64 look_at_attribute(u32 number)
{
	struct thread_record *record = thread_record_at(number);
	struct context_record *c = this_context();
	if (!OPTION(tasks) || !record || !c)
		return 0;
	u32 at = c->at, key = c->attributes[MASKED(at, ATTRIBUTE_BYTES)];
	u32 length = c->attributes[MASKED(at + 1, ATTRIBUTE_BYTES)], end = at + 2 + length;
	if (end > c->size || end > ATTRIBUTE_BYTES)
		return 0;
	for (u32 i = 0; i < N_CONTEXT_NAMES; i++)
		if (i < record->context.n_names && record->context.names[i] == key && i <= c->rank) {
			c->rank = i; /* of the same key, the last one counts */
			c->name_at = at + 2;
			c->name_length = length;
		}
	c->at = end;
	return end + 2 <= c->size;
}

/* Returns the name of the context that was read, as task_record_of takes it; 0: it has none. */
GLOBAL u64 name_of_context(u32 number)
{
	struct thread_record *record = thread_record_at(number);
	struct context_record *c = this_context();
	struct processor *p = this_processor();
	if (!OPTION(tasks) || !p || !record || !c || !c->size || !record->context.n_names)
		return 0;
	u64 size = c->size;
	OPAQUE(size);
	if (size >= ATTRIBUTE_BYTES)
		size = ATTRIBUTE_BYTES - 1;
	if (bpf_probe_read_user(c->attributes, MASKED(size, ATTRIBUTE_BYTES), (void *)c->attributes_at)) {
		count_loss(p, LOST_CONTEXTS, 1);
		return 0;
	}
	if (c->size > size)
		c->size = size; /* until the next reading: what was read */
	c->at = 0;
	c->rank = N_CONTEXT_NAMES;
	c->name_length = 0;
	for (u32 i = 0; i < N_ATTRIBUTES; i++)
		if (!look_at_attribute(number))
			break;
	u64 length = c->name_length;
	if (!length)
		return 0;
	if (length >= TASK_NAME_LENGTH)
		length = TASK_NAME_LENGTH - 1;
	struct task_name *name = &record->task_name;
	__builtin_memset(name, 0, sizeof(*name));
	if (bpf_probe_read_kernel(
			name->name, MASKED(length, TASK_NAME_LENGTH), &c->attributes[MASKED(c->name_at, ATTRIBUTE_BYTES)]) ||
		!name->name[0])
		return 0;
	u64 shared = number_of_task_name(number, NAME_IN_RECORD);
	return shared == TASK_NAME_NONE ? OTHER_TASKS : SHARED_NAMES + shared;
}

/* The thread works in the context that was read, from the beginning of the span on. Returns whether that is another task. */
GLOBAL u64 adopt_context(u32 number)
{
	struct thread_record *record = thread_record_at(number);
	struct context_record *c = this_context();
	struct processor *p = this_processor();
	if (!OPTION(tasks) || !p || !record || !c)
		return 0;
	bool same =
		c->span_id == record->span_id && c->trace_id[0] == record->trace_id[0] && c->trace_id[1] == record->trace_id[1];
	record->span_id = c->span_id;
	record->trace_id[0] = c->trace_id[0];
	record->trace_id[1] = c->trace_id[1];
	record->attribute_size = c->size;
	record->names_known = record->context.n_names;
	if (!record->other_tasks)
		record->other_tasks = task_record_of(number, 0, OTHER_TASKS);
	if (!record->other_tasks) /* there is no room, which was counted */
		return 0;
	u64 task = __builtin_bswap64(record->span_id), name = name_of_context(number);
	if (same && record->task_record && task_record_of(number, task, name) == record->task_record)
		return 0; /* an attribute was added, or is known now, that is not its name */
	begin_task(p, record, number, task, name);
	return 1;
}

/* Notes in the thread's task in which context it works on it, and that `time` of the span may be another task's. */
INLINE void note_context(struct thread_record *record, u64 time)
{
	struct task_record *now = record->task_record ? task_record_at(record->task_record) : NULL;
	if (!now)
		return;
	now->undated += time;
	if (!record->span_id)
		return;
	now->span_id = record->span_id;
	now->trace_id[0] = record->trace_id[0];
	now->trace_id[1] = record->trace_id[1];
	now->began = record->task_since;
}

/* A span of user code ends: it belongs to the context that the thread has now. */
INLINE void read_context(u32 number, u64 since, u64 until, u64 time)
{
	struct thread_record *record = thread_record_at(number);
	struct processor *p = this_processor();
	if (!p || !record)
		return;
	record->task_since = since;
	record->task_left = time;
	if (!fetch_context(number))
		return;
	begin_division(p, record, since, until, time);
	if (!adopt_context(number))
		return;
	p->undated += time;
	note_context(record, time);
	end_division(p, record, number);
}

/*
 * A span of user code from `since` to `until` ends now; `time` of it is not in marked regions. Divides it among the tasks
 * that the thread worked on, and writes the parts to the ring of transitions. The caller charges all of `time` to the task
 * that the thread works on now; what others had of it is taken from that task here.
 */
GLOBAL u64 divide_among_tasks(u32 number, u64 since, u64 until, u64 now, u64 time)
{
	struct thread_record *record = thread_record_at(number);
	if (record && record->task_log)
		read_changes(number, since, until, now, time);
	else
		read_context(number, since, until, time);
	struct processor *p = this_processor();
	if (OPTION(record) && p && record)
		record_any_span(number, record->task_since, until, record->task_left, p->state | (u64)record->task_ended << 16);
	return 0;
}

#endif
