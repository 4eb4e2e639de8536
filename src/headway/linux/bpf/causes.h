/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Causes: what is behind the time in a state. They are recorded on request: the object that a thread waits for, the waker
 * that ends the wait, the device that interrupts the thread, and the state from which time is stolen. The holders of the
 * processor while a thread is ready are in holders.h. A thread that held a lock is the waker of a wait, not a holder.
 */
#ifndef HEADWAY_CAUSES_H
#define HEADWAY_CAUSES_H

#include "files.h"
#include "levels.h"

/*
 * Charges time of a thread in a state to a cause. `name` is read when the cause is first seen; it may be NULL. Only one
 * handler at a time changes a thread's record, so key and cause are put together there.
 */
INLINE void charge_cause(
	struct thread_record *record, u32 state, u32 kind, u64 object, u64 time, u64 count, const void *name)
{
	struct cause_key *key = &record->cause_key;
	key->birth = record->birth;
	key->object = object;
	key->tid = record->tid;
	key->pid = record->pid;
	key->state = state;
	key->kind = kind;
	struct cause *known = bpf_map_lookup_elem(&causes, key);
	if (known) {
		add_shared(&known->time, time);
		add_shared(&known->count, count);
		return;
	}
	struct cause *fresh = &record->cause;
	fresh->time = time;
	fresh->count = count;
	__builtin_memset(fresh->name, 0, sizeof(fresh->name));
	if (name)
		bpf_probe_read_kernel_str(fresh->name, sizeof(fresh->name), name);
	struct processor *p = this_processor();
	if (bpf_map_update_elem(&causes, key, fresh, 0) && p)
		count_loss(p, LOST_CAUSES, 1);
}

/* A thread begins to wait: notes the futex at which it waits, if it waits at one. */
INLINE void note_futex(struct task_struct *task, struct thread_record *record)
{
	record->object_kind = OBJECT_NONE;
	if (record->state == WAIT_FUTEX) {
		record->object_kind = OBJECT_ADDRESS;
		record->object = argument(bpf_task_pt_regs(task), 1);
	}
}

/* A thread begins to wait: notes the object that it waits for. A file's name is read now, while the file is there. */
NOINLINE int note_wait_object(struct task_struct *task, struct thread_record *record)
{
	u32 state = record->state, doing = record->resume == RUNNING ? state_by_registers(task) : record->resume;
	struct pt_regs *regs = bpf_task_pt_regs(task);
	note_futex(task, record);
	if (state == WAIT_PIPE || state == WAIT_NET || state == WAIT_FILE || state == WAIT_EPOLL ||
		(state == WAIT_DISK && doing >= KERNEL_CALL && doing < WAIT_CALL)) {
		struct file *file = file_of(task, argument(regs, 1));
		struct inode *inode = FOLLOW(file, f_inode);
		if (!inode)
			return 0;
		record->object_kind = OBJECT_FILE + file_kind(file);
		record->object = FOLLOW(inode, i_ino);
		charge_cause(record, state, record->object_kind, record->object, 0, 0, file_name(file));
	}
	return 0;
}

/*
 * Notes what wakes the thread, until the wake-up is complete. The kernel may complete it on the processor that the thread
 * will run on, in an interrupt or the idle task (ttwu_queue_wakelist): these are not the waker.
 */
/* `arguments`: with which the handler was called. */
NOINLINE int note_waker(struct processor *p, struct thread_record *record, u64 *arguments)
{
	u32 doing = p->deferred_depth ? p->deferred_state : p->state, tid = 0, pid = 0;
	struct task_struct *waker = bpf_get_current_task_btf();
	if ((is_undivided(p) || settings.undivided == CHOSEN_UNDIVIDED) && is_in_interrupt(p, arguments))
		doing = IRQ_ANY;
	if (doing >= IRQ_DEVICE && doing < IRQ_DEVICE + N_INTERRUPTS) {
		record->waker = doing;
		record->waker_kind = WAKER_STATE;
		return 0;
	}
	record->waker_record = 0;
	if (OPTION(record))
		record->waker_record = p->thread_record && p->thread_record != THREAD_UNSEEN && p->task == (u64)waker
			? p->thread_record
			: thread_record_of(waker);
	if (OPTION(why) || !record->waker_record)
		record->waker = in_namespace(waker, &tid, &pid) ? tid : 0;
	if (OPTION(why))
		bpf_probe_read_kernel(record->waker_name, sizeof(record->waker_name), &waker->comm);
	record->waker_kind = WAKER_THREAD;
	return 0;
}

/* The wait is over: charges its time to the object waited for, and to the waker. */
NOINLINE int charge_wait_causes(struct thread_record *record, u64 now)
{
	u64 time = now - record->since;
	u32 state = record->state, waker = record->waker_kind;
	if ((s64)time < 0)
		return 0;
	u64 lock =
		record->object_kind == OBJECT_ADDRESS ? record->object << 32 : 0; /* shows which lock the waker released */
	if (record->object_kind)
		charge_cause(record, state, record->object_kind, record->object, time, 1, NULL);
	if (waker)
		charge_cause(
			record, state, waker, record->waker | lock, time, 1, waker == WAKER_THREAD ? record->waker_name : NULL);
	return 0;
}

NOINLINE int charge_interrupt_line(struct processor *p, struct thread_record *record, u64 line)
{
	charge_cause(record, IRQ_DEVICE, OBJECT_LINE, line, p->span, 1, NULL);
	return 0;
}

#endif
