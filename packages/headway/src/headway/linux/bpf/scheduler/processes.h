/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The numbers of processes: a process has one while threads of it are measured. Its clocks are found by it (ready.h). */
#ifndef HEADWAY_PROCESSES_H
#define HEADWAY_PROCESSES_H

#include "threads/cells.h"

/* Returns a number that is free; NO_PROCESS: there is none. */
INLINE u32 free_process_number(void)
{
	u32 number = 0;
	if (!bpf_map_pop_elem(&free_processes, &number))
		return number;
	if (control.processes < settings.n_processes - 1)
		number = __sync_fetch_and_add(&control.processes, 1) + 1;
	else
		number = NO_PROCESS;
	return number < settings.n_processes ? number : NO_PROCESS;
}

/* A thread is measured from now on. Returns the number of its process; NO_PROCESS: it has none. */
NOINLINE u32 enter_process(struct processor *p, u32 tgid)
{
	struct process *known = bpf_map_lookup_elem(&processes, &tgid);
	u32 number = known ? NO_PROCESS : free_process_number();
	if (number) {
		struct process fresh = {.number = number, .threads = 1};
		if (!bpf_map_update_elem(&processes, &tgid, &fresh, ONLY_NEW))
			return number;
		bpf_map_push_elem(&free_processes, &number, 0); /* another processor was faster, or the map is full */
		known = bpf_map_lookup_elem(&processes, &tgid);
	}
	if (known && __sync_fetch_and_add(&known->threads, 1))
		return known->number;
	if (known) /* the last thread that was measured ends just now, and takes the number with it */
		__sync_fetch_and_add(&known->threads, -1);
	count_loss(p, LOST_PROCESSES, 1);
	return NO_PROCESS;
}

/* A thread is not measured any more. */
NOINLINE int leave_process(u32 number, u32 tgid)
{
	struct process *known = bpf_map_lookup_elem(&processes, &tgid);
	if (!known || known->number != number || __sync_fetch_and_add(&known->threads, -1) != 1)
		return 0;
	bpf_map_delete_elem(&processes, &tgid);
	bpf_map_push_elem(&free_processes, &number, 0);
	return 0;
}

/* Returns the number of the process of a thread that is not measured. */
INLINE u32 process_of_unmeasured(struct task_struct *task)
{
	u32 tgid = task->tgid;
	if (!task->pid)
		return IDLE_PROCESS;
	if (LIKELY(!measured_ids[tgid & (N_IDS - 1)]))
		return NO_PROCESS;
	struct process *known = bpf_map_lookup_elem(&processes, &tgid);
	return known ? known->number : NO_PROCESS;
}

#endif
