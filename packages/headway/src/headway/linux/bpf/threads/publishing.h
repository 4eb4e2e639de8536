/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a thread reads of itself while it is measured: the time of each kind so far, without a system call.
 *
 * Whatever is added to a cell of a thread is added to one of the thread's times in `published_threads`, too. At the end of
 * each handler the thread that has the processor gets the moment until which its times are, and the kind of what goes on.
 * The thread maps these, and adds the time that has passed since. It never reads while a handler writes: only the processor
 * that runs the thread writes, in handlers that interrupt it. So `sequence` only has to differ after each of them.
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

/* Returns what a thread reads of itself, by the number of its record; NULL: there is nothing. */
INLINE struct published_thread *published_thread_at(u32 number)
{
	return number ? bpf_map_lookup_elem(&published_threads, &number) : NULL;
}

/* Time is added to a state of a thread. */
INLINE void publish_time(u32 number, u64 state, u64 time)
{
	struct published_thread *to = published_thread_at(number);
	if (to)
		to->times[MASKED(published_kind(state), N_PUBLISHED)] += time;
}

/* An interrupt met a handler, and has ended: the next handler charges it. */
INLINE void publish_deferred(struct processor *p)
{
	struct published_thread *to = published_thread_at(p->thread_record);
	if (to)
		to->deferred = p->deferred_total - p->absorbed_total;
}

/* A handler is done on this processor, and the thread that has it will go on. */
GLOBAL int publish(void)
{
	struct processor *p = this_processor();
	u32 number = p ? p->thread_record : 0;
	struct published_thread *to = published_thread_at(number);
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	if (!p || !to || !record)
		return 0;
	u64 since = p->since, open = to->open_region;
	if (open)
		to->regions[MASKED(open - 1, 2)] += since - to->since;
	to->since = since;
	to->kind = published_kind(p->state);
	to->birth = record->birth;
	to->deferred = p->deferred_total - p->absorbed_total;
	if (!record->block) /* publish_regions says when there is one */
		to->marked = 0;
	to->sequence++;
	return 0;
}

/* A thread leaves its processor. Nothing is told of it until a handler has seen that it is back. */
INLINE void publish_absence(u32 number)
{
	struct published_thread *to = published_thread_at(number);
	if (!to)
		return;
	to->kind = N_PUBLISHED; /* none that there is */
	to->sequence++;
}

/* The thread has the id by which it knows itself. */
NOINLINE int identify_published_thread(struct task_struct *task, u32 number)
{
	struct {
		s32 nr;
		u32 hole;
		struct pid_namespace *ns;
	} innermost = {};
	struct published_thread *to = published_thread_at(number);
	struct pid *ids = task->thread_pid;
	if (!to || !ids)
		return 0;
	bpf_probe_read_kernel(&innermost, sizeof(innermost), (char *)&ids->numbers[0] + ids->level * sizeof(innermost));
	struct pid_namespace *space = innermost.ns;
	to->pid_namespace = FOLLOW(space, ns.inum);
	to->tid = innermost.nr;
	return 0;
}

/* Its record is open. It reads nothing before its first event. */
INLINE void open_published_thread(struct task_struct *task, u32 number)
{
	struct published_thread *to = published_thread_at(number);
	if (!to)
		return;
	__builtin_memset(to, 0, sizeof(*to));
	identify_published_thread(task, number);
}

/* It has ended. */
INLINE void close_published_thread(u32 number)
{
	struct published_thread *to = published_thread_at(number);
	if (!to)
		return;
	to->tid = 0;
	to->birth = 0;
	to->sequence++;
}

/* Nothing is measured from this moment on. The first one that is said stays. */
INLINE void publish_end(u64 until)
{
	u32 first = 0;
	struct publication *head = bpf_map_lookup_elem(&published_threads, &first);
	if (head && until < head->until)
		head->until = until;
}

#endif
