/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Depth on demand. The level is `switches`, and the time of some threads is divided all the same: those are deep. User
 * space writes who is deep into the thread records (`deep`), and first the number of the next snapshot into the level.
 * What it wrote holds for a thread when it comes onto a processor, and for a thread that runs from that snapshot on. So
 * every span is either divided or not, and a processor reads `deep` once for each time that a thread has it.
 *
 * The programs that see calls and faults are attached before a thread is deep, and detached when none is. As long as the
 * lowest bit of the level is 1, no thread is deep, whatever its record says.
 */
#ifndef HEADWAY_DEPTH_H
#define HEADWAY_DEPTH_H

#include "threads/threads.h"

INLINE bool is_deep(struct thread_record *record)
{
	return record->deep && !(control.level & 1);
}

/* The thread comes onto this processor. */
INLINE void take_depth(struct processor *p, struct thread_record *record)
{
	if (settings.undivided == CHOSEN_UNDIVIDED)
		p->undivided = !is_deep(record);
}

/* Whether the running thread is deep and was not, or the other way round, since a snapshot that was crossed. */
INLINE bool has_new_depth(struct processor *p)
{
	u32 number = p->thread_record;
	struct thread_record *record = number && number != THREAD_UNSEEN ? thread_record_at(number) : NULL;
	if (!record || p->task != (u64)bpf_get_current_task_btf() || (s32)(p->snapshot - (u32)(control.level >> 1)) < 0)
		return false;
	return p->undivided != !is_deep(record);
}

/* Whether calls and faults of the running thread are none of ours: it is known, not deep, and nothing is to be done. */
INLINE bool is_let_be(struct processor *p)
{
	return settings.undivided == CHOSEN_UNDIVIDED && p->state == RUNNING && p->snapshot == control.snapshot &&
		p->task == (u64)bpf_get_current_task_btf();
}

/* A thread creates another. */
INLINE void inherit_depth(struct task_struct *parent, struct task_struct *child, u32 number)
{
	if (settings.undivided != CHOSEN_UNDIVIDED || !number)
		return;
	u32 own = thread_record_of(parent);
	struct thread_record *from = own ? thread_record_at(own) : NULL, *record = thread_record_at(number);
	if (!from || !record)
		return;
	u32 deep = from->deep;
	if (deep == DEEP_CGROUP || (deep == DEEP_PROCESS && parent->tgid == child->tgid))
		record->deep = deep;
}

#endif
