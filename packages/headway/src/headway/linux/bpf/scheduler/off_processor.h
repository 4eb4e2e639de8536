/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Threads off the processor: why a thread is, and the time that it was. */
#ifndef HEADWAY_OFF_PROCESSOR_H
#define HEADWAY_OFF_PROCESSOR_H

#include "waits/files.h"
#include "scheduler/holders.h"
#include "waits/kernel_locks.h"
#include "events/way_back.h"

/* Whether the file system of a file is on a disk. Where it is not known to be, only the iowait mark tells of a disk. */
INLINE bool is_on_disk(struct file *file)
{
	struct inode *inode = FOLLOW(file, f_inode);
	struct super_block *of = FOLLOW(inode, i_sb);
	return FOLLOW(of, s_bdev) || (FOLLOW(inode, i_mode) & MODE_TYPE) == MODE_BLOCK;
}

/* Numbers of file systems: include/uapi/linux/magic.h, fs/fuse/inode.c. */
enum { MAGIC_NFS = 0x6969, MAGIC_PROC = 0x9fa0, MAGIC_FUSE = 0x65735546, MAGIC_OVERLAY = 0x794c7630 };

/* Returns the wait for a file that is on no disk, by its file system. */
INLINE u32 wait_by_file_system(struct file *file)
{
	struct inode *inode = FOLLOW(file, f_inode);
	struct super_block *of = FOLLOW(inode, i_sb);
	switch (FOLLOW(of, s_magic)) {
	case MAGIC_FUSE:
		return WAIT_FUSE;
	case MAGIC_NFS:
		return WAIT_NFS;
	case MAGIC_PROC:
		return WAIT_PROC;
	case MAGIC_OVERLAY:
		return WAIT_OVERLAY;
	}
	return WAIT_FILE;
}

/* Returns the wait by the kind of file that the system call is about. */
INLINE u32 wait_by_file(u64 file)
{
	switch (file_kind((struct file *)file)) {
	case FILE_PIPE:
		return WAIT_PIPE;
	case FILE_SOCKET:
		return WAIT_NET;
	case FILE_DISK:
		return is_on_disk((struct file *)file) ? WAIT_DISK : wait_by_file_system((struct file *)file);
	}
	return WAIT_FILE;
}

/* The same of the running thread. One end of a splice is a pipe; where the other is no pipe, the pipe is waited for. */
GLOBAL u32 own_wait_by_file(u32 call)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 wait = wait_by_file((u64)file_of(task, any_argument(1)));
	if (call == CALL_SPLICE && wait != WAIT_PIPE && wait != WAIT_NET)
		wait = wait_by_file((u64)file_of(task, any_argument(3)));
	return wait;
}

INLINE bool is_frozen(struct task_struct *task)
{
	if (task->__state & TASK_STATE_FROZEN)
		return true;
	return FIELD_EXISTS(task->frozen) && BITFIELD(task, frozen) && task->jobctl & JOBCTL_TRAP_FREEZE;
}

/* Returns the wait of a thread that was in the state `doing` on the processor. `runs`: it is the running one. */
INLINE u32 wait_state(struct task_struct *task, u32 doing, bool runs)
{
	bool disk = BITFIELD(task, in_iowait);
	if (is_fault(doing))
		return WAIT_FAULT;
	if (doing == KERNEL_RECLAIM)
		return WAIT_RECLAIM;
	if (is_frozen(task))
		return WAIT_FROZEN;
	/* In a check or a neutral call; or the kernel made it wait before a call began, or after that. Find out in which. */
	if (is_poll(doing) || ((is_user(doing) || is_way_back(doing)) && is_in_call(task)))
		doing = call_state(CALL_IN_PROGRESS(bpf_task_pt_regs(task)));
	if (doing >= KERNEL_CALL && doing < WAIT_CALL) {
		u32 call = doing - KERNEL_CALL, reason = settings.wait_of[MASKED(call, N_CALLS)];
		if (reason == WAIT_IO_URING)
			return reason;
		if (reason == WAIT_BY_FILE || reason == WAIT_SYNCED) {
			u32 by =
				runs ? own_wait_by_file(call) : wait_by_file((u64)file_of(task, argument(bpf_task_pt_regs(task), 1)));
			/* Whoever waits for a page does so with the iowait mark, also where no disk has it. */
			return (disk || reason == WAIT_SYNCED) && by != WAIT_FUSE && by != WAIT_NFS ? WAIT_DISK : by;
		}
		if (disk)
			return WAIT_DISK;
		return reason ? reason : WAIT_CALL + call;
	}
	if (disk)
		return WAIT_DISK;
	if (doing == KERNEL_COREDUMP)
		return WAIT_COREDUMP;
	return doing == KERNEL_THREAD || doing == POLL_IO_URING ? WAIT_KTHREAD : WAIT_OTHER;
}

/* The same of the running thread. */
GLOBAL u32 own_wait_state(u32 doing)
{
	u32 lock = wait_for_lock();
	return lock ? lock : wait_state(bpf_get_current_task_btf(), doing, true);
}

/* Returns the state of the running thread, which leaves its processor. `doing` was its state there, `why` is the kernel's prev_state. */
INLINE u32 state_off_processor(u32 doing, bool preempted, u32 why)
{
	if (preempted || !why)
		return READY;
	return why & (TASK_STATE_STOPPED | TASK_STATE_TRACED) ? STOPPED : own_wait_state(doing);
}

/* Charges the time off the processor until now to the thread's state there. The caller has interrupts off. `divided`: the
 * thread was ready, and end_ready has divided that time. */
INLINE void charge_absence(struct thread_record *record, u32 number, u64 now, bool divided)
{
	if (UNLIKELY((s64)(now - record->since) < 0)) { /* the record was opened after this handler had read its clock */
		if (record->birth == record->since)
			record->birth = now;
		record->since = now;
		return;
	}
	add_to_cell(record, record->state, now - record->since, 1);
	if (OPTION(stacks))
		charge_stack(record, record->state, now - record->since, 1);
	if (OPTION(record) && divided)
		record_ready(number, record->since, now, 0);
	else if (OPTION(record))
		record_absence(number, record->state, record->since, now);
	record->since = now;
}

/* A thread is woken, or comes to a processor that is not measured. */
INLINE void charge_off_processor(struct thread_record *record, u32 number, u64 now)
{
	charge_absence(record, number, now, false);
}

/* A thread gets this processor. `queue`: the run queue that it is in. */
INLINE void charge_until_dispatch(u32 cpu, struct cfs_rq *queue, struct thread_record *record, u32 number, u64 now)
{
	bool divided = settings.divide_ready && record->state == READY && end_ready(cpu, queue, record, number, now);
	if (OPTION(why) && record->state == READY)
		charge_holders(number, divided ? record->ended_parts[READY_THROTTLED] : 0, now);
	if (record->state == READY)
		leave_out_of_gap(record, record->resume, now - record->since);
	charge_absence(record, number, now, divided);
}

#endif
