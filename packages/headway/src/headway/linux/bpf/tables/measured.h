/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the programs beside those of progress.bpf.c do with the records that those write. Such programs are attached after
 * those of progress.bpf.c: at the same event they run later, so what they read is up to date.
 */
#ifndef HEADWAY_MEASURED_H
#define HEADWAY_MEASURED_H

#include "shared/records.h"

INLINE struct thread_record *thread_record_at(u32 number)
{
	return bpf_map_lookup_elem(&thread_records, &number);
}

/* Returns the number of a thread's record; 0: it is not measured. */
INLINE u32 thread_record_of(struct task_struct *task)
{
	u32 *number = bpf_task_storage_get(&tasks, task, NULL, 0);
	return number ? *number : 0;
}

/* Headway's own time since a moment, in the span that is under way: it is taken out of that. */
INLINE void add_own_cost(struct processor *p, u64 since)
{
	p->cost_pending += (bpf_ktime_get_ns() - since) << COST_BITS;
}

#endif
