/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a thread to its run queue, and to that of the processor. */
#ifndef HEADWAY_RUN_QUEUES_H
#define HEADWAY_RUN_QUEUES_H

#include "shared/kernel.h"

/*
 * Returns the run queue that a thread is in; NULL: the kernel does not tell. The verifier of kernels since 6.3 looks a
 * pointer that is read out of a task_struct up in all types of the kernel, which takes a millisecond. So a handler reads it
 * once.
 */
INLINE struct cfs_rq *queue_of(struct task_struct *task)
{
	if (!FIELD_EXISTS(task->se.cfs_rq))
		return NULL;
	struct cfs_rq *queue = task->se.cfs_rq;
	KEEP(queue);
	return queue;
}

/* Returns the processor's queue that a run queue belongs to; NULL: the kernel does not tell. Read it once, too. */
INLINE struct rq *processor_queue_of(struct cfs_rq *queue)
{
	if (!queue || !FIELD_EXISTS(queue->rq))
		return NULL;
	struct rq *rq = queue->rq;
	KEEP(rq);
	return rq;
}

#endif
