/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Select the threads to measure, and open their records. */
#ifndef HEADWAY_THREADS_H
#define HEADWAY_THREADS_H

#include "scheduler/ready.h"
#include "threads/selection.h"

/* Returns whether a thread is to be measured: while programs are measured one after the other, those of the one only. */
INLINE bool is_to_be_measured(struct task_struct *task, u32 tid, u32 pid)
{
	return control.only ? pid == control.only : is_selected(task, tid, pid);
}

/* Whether time on this processor is not divided (levels.h). */
INLINE bool is_undivided(struct processor *p)
{
	return settings.undivided == ALWAYS_UNDIVIDED || (settings.undivided && p->undivided);
}

/*
 * Whether a thread may be measured. A look into one word tells of nearly every other thread that it is not, where the storage of
 * the task would take ten times as long. The thread that executes a program takes the id of its process, so both count.
 */
INLINE bool may_be_measured(struct task_struct *task)
{
	return settings.everything || measured_ids[task->pid & (N_IDS - 1)];
}

/*
 * Whether the running thread is not measured. A kernel may hide the switch to it (unseen.h): then it is another than the
 * last switch said, and the handler has to find out who it is.
 */
INLINE bool runs_no_measured_thread(struct processor *p)
{
	return !p->thread_record && p->task == (u64)bpf_get_current_task_btf();
}

INLINE void count_ids(struct thread_record *record, u32 much)
{
	for (u32 i = 0; i < 2; i++)
		__atomic_fetch_add(&measured_ids[record->counted_ids[i] & (N_IDS - 1)], much, __ATOMIC_RELAXED);
}

/*
 * Returns the number of a thread's record; 0: it is not measured. The record that was found last for such an id is tried
 * first, because the storage of the task takes longer. The kernel may use a task_struct again for another thread, but no
 * two threads at the same address began at the same time.
 */
INLINE u32 thread_record_of(struct task_struct *task)
{
	if (!may_be_measured(task))
		return 0;
	u32 *found = &found_records[task->pid & (N_IDS - 1)];
	u32 guess = *found;
	struct thread_record *record = thread_record_at(guess);
	if (LIKELY(record && record->birth && record->task == (u64)task && record->started == task->start_time))
		return guess;
	u32 *number = bpf_task_storage_get(&tasks, task, NULL, 0);
	if (!number || !*number)
		return 0;
	*found = *number;
	return *number;
}

/* Returns the number of a thread's process; NO_PROCESS: it has none. `number`: of the thread's record; 0: it has none. */
INLINE u32 process_of(struct task_struct *task, u32 number)
{
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	return record ? record->process : process_of_unmeasured(task);
}

/* Returns the state of a thread that is in this system call. */
INLINE u32 call_state(long call)
{
	return (u64)call < N_CALLS ? KERNEL_CALL + (u32)call : KERNEL_OTHER;
}

/* Whether a thread's last way into the kernel was a system call. Interrupts put their complemented vector there. */
INLINE bool is_in_call(struct task_struct *task)
{
	long call = CALL_IN_PROGRESS(bpf_task_pt_regs(task));
	return call >= 0 && call <= 0xffff;
}

/* Returns the state of a thread on the processor, by the registers with which it entered the kernel. */
INLINE u32 state_by_registers(struct task_struct *task)
{
	if (task->flags & (PF_KTHREAD | PF_WORKER))
		return KERNEL_THREAD;
	struct pt_regs *regs = bpf_task_pt_regs(task);
	long call = CALL_IN_PROGRESS(regs);
	if (UNLIKELY(task->flags & (PF_EXITING | PF_DUMPCORE)) && call != CALL_EXIT && call != CALL_EXIT_GROUP)
		return task->flags & PF_EXITING ? KERNEL_CALL + CALL_EXIT : KERNEL_COREDUMP;
	if (!is_in_call(task))
		return USER;
	if (COMPAT_CALL(regs))
		call = (u64)call < N_CALLS ? settings.compat_call[call] : N_CALLS;
	return call_state(call);
}

/* Returns that state as the thread's record has it: it may be in a marked function, or go on with an interrupted call. */
INLINE u32 state_as_recorded(u32 state, struct thread_record *record)
{
	if (state == USER)
		return record->user;
	if (state == KERNEL_THREAD && record->flags & THREAD_SUBMITS)
		return POLL_IO_URING;
	return state == KERNEL_CALL + CALL_RESTART_SYSCALL && record->interrupted_call ? record->interrupted_call : state;
}

/* Returns the state of a thread on the processor while its time is not divided: a thread of the kernel has no user code. */
INLINE u32 undivided_state(const struct thread_record *record)
{
	return record->flags & THREAD_KERNEL ? KERNEL_THREAD : RUNNING;
}

/* Whether the kernel's thread that looks for an io_uring's submissions has this name. Only such a thread is asked. */
INLINE bool is_submitter_name(const char *name)
{
	static const char SUBMITTER[] = "iou-sqp-";
	for (u32 i = 0; i < sizeof(SUBMITTER) - 1; i++) /* memcmp would be a call of a kernel function */
		if (name[i] != SUBMITTER[i])
			return false;
	return true;
}

/*
 * Begins measuring a thread. Returns its thread record's number; 0: there is no room, or the thread is not visible in the
 * reader's pid namespace.
 */
NOINLINE u32 open_thread_record(struct task_struct *task, u32 state, u32 resume, u32 flags)
{
	u32 number = 0, tid = 0, pid = 0;
	struct processor *p = this_processor();
	if (!p || !in_namespace(task, &tid, &pid))
		return 0;
	u32 *stored = bpf_task_storage_get(&tasks, task, NULL, STORAGE_CREATE);
	if (!stored) {
		count_loss(p, LOST_STORAGE, 1);
		return 0;
	}
	if (*stored)
		return *stored;
	if (bpf_map_pop_elem(&free_thread_records, &number)) {
		number = 0;
		if (settings.has_fetch && control.thread_records < settings.max_thread_records - 1)
			number = __sync_fetch_and_add(&control.thread_records, 1) + 1;
		if (!number || number >= settings.max_thread_records) {
			count_loss(p, LOST_THREADS, 1);
			return 0;
		}
	}
	struct thread_record *record = thread_record_at(number);
	if (!record)
		return 0;
	record->end = 0;
	record->number = number;
	record->tid = tid;
	record->pid = pid;
	record->cpu = 0;
	record->state = state;
	record->depth = 0;
	record->flags = flags | (task->flags & (PF_KTHREAD | PF_WORKER) ? THREAD_KERNEL : 0);
	record->resume = is_undivided(p) ? undivided_state(record) : resume;
	record->user = USER;
	record->current_check = 0;
	record->last_poll_state = 0;
	record->long_gap = 0;
	record->interrupted_call = 0;
	record->sampled = 0;
	record->user_stack = 0;
	record->kernel_stack = 0;
	record->waker_user_stack = 0;
	record->waker_kernel_stack = 0;
	record->block = 0;
	if (settings.undivided) {
		record->kernel_fault = 0;
		record->deep = 0;
		__builtin_memset(record->samples, 0, sizeof(record->samples));
	}
	if (OPTION(tasks)) {
		record->task_record = 0;
		record->other_tasks = 0;
		record->task_log = 0;
		record->task_names = 0;
		record->task_records = 0;
		record->n_tasks = 0;
		__builtin_memset(&record->context, 0, sizeof(record->context));
		record->context.announced = flags & THREAD_EXECUTES;
		record->span_id = record->trace_id[0] = record->trace_id[1] = 0;
		record->attribute_size = record->names_known = 0;
	}
	record->lock = 0;
	if (OPTION(why))
		record->polled_time = record->polled = 0;
	record->object_kind = OBJECT_NONE;
	record->waker_kind = OBJECT_NONE;
	record->overhead = 0;
	record->undivided_overhead = 0;
	record->runtime = 0;
	record->runtime_before = task->se.sum_exec_runtime;
	if (FIELD_EXISTS(task->sched_info.run_delay))
		record->run_delay = task->sched_info.run_delay;
	bpf_probe_read_kernel(record->name, sizeof(record->name), &task->comm);
	if (task->flags & PF_WORKER && is_submitter_name(record->name)) {
		record->flags |= THREAD_SUBMITS;
		if (record->resume == KERNEL_THREAD)
			record->resume = POLL_IO_URING;
	}
	if (settings.divide_ready) {
		record->process = enter_process(p, task->tgid);
		record->ready_cpu = 0;
		record->open_until = 0;
		__builtin_memset(record->ready_parts, 0, sizeof(record->ready_parts));
	}
	u64 now = bpf_ktime_get_ns(); /* read the clock late: finding room may have taken a while */
	record->snapshot = control.snapshot - (now < control.snapshot_at); /* born after the snapshot: not part of it */
	record->since = now;
	if (task->on_cpu)
		record->flags |= THREAD_RAN;
	record->counted_ids[0] = task->pid;
	record->counted_ids[1] = task->tgid;
	count_ids(record, 1);
	record->task = (u64)task;
	record->started = task->start_time;
	if (OPTION(publish)) {
		record->publication = 0;
		record->publications = control.publications - 1;
	}
	ORDER();
	record->birth = now;
	*stored = number;
	return number;
}

#endif
