/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The kernel's thread that looks for the submissions of an io_uring (IORING_SETUP_SQPOLL, io_sq_thread in io_uring/sqpoll.c).
 * It makes no calls. It looks again and again until none came for sq_thread_idle: that is polling in vain. A submission has a
 * tracepoint when the thread begins to do it, and another when it is done, or goes on without the thread. So polling
 * includes what taking a submission from the ring and telling its end take: it is at most that.
 */
#ifndef HEADWAY_SUBMISSIONS_H
#define HEADWAY_SUBMISSIONS_H

#include "events/handler.h"
#include "waits/kernel_locks.h"

/* The thread has got its name, which it does first. */
INLINE void note_submitter(struct task_struct *task, struct thread_record *record)
{
	if (!(task->flags & PF_WORKER) || !is_submitter_name(record->name))
		return;
	struct processor *p = this_processor();
	record->flags |= THREAD_SUBMITS;
	if (p && own_record() == record && p->state == KERNEL_THREAD)
		p->state = POLL_IO_URING;
}

/*
 * The thread begins or ends a submission. Where rare work has to be done first (handler.h), the next event does it: until
 * then the thread is in the state that it was in, if that is polling.
 */
INLINE int change_submitter(u32 from, u32 to)
{
	struct processor *p = this_processor();
	if (!p || p->state != from || p->busy)
		return 0;
	struct thread_record *record = own_record();
	if (!record || !(record->flags & THREAD_SUBMITS))
		return 0;
	enter(p);
	u64 now = bpf_ktime_get_ns();
	ORDER();
	bool prepared = is_prepared(p, record->number, now);
	if (prepared)
		charge_until_now(p, record, now, STATE_ENDS, to == POLL_IO_URING ? AT_FAULT_END : AT_FAULT);
	if (prepared || to == POLL_IO_URING)
		p->state = to;
	leave(p);
	return 0;
}

#endif
