/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Causes: what is behind the time in a state. They are recorded on request: the object that a thread waits for, the waker
 * that ends the wait, who had the lock when it began, the device that interrupts the thread, and the state from which time is
 * stolen. The holders of the processor while a thread is ready are in holders.h.
 */
#ifndef HEADWAY_CAUSES_H
#define HEADWAY_CAUSES_H

#include "waits/files.h"
#include "waits/futexes.h"
#include "waits/kernel_locks.h"
#include "events/levels.h"
#include "waits/polled_files.h"
#include "waits/waited_files.h"

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
	if (name && (kind == OBJECT_FUTEXES || kind == OBJECT_MOVED || kind == OBJECT_FILE + FILE_SOCKET))
		bpf_probe_read_kernel(fresh->name, sizeof(fresh->name), name);
	else if (name)
		bpf_probe_read_kernel_str(fresh->name, sizeof(fresh->name), name);
	struct processor *p = this_processor();
	if (bpf_map_update_elem(&causes, key, fresh, 0) && p)
		count_loss(p, LOST_CAUSES, 1);
}

/* The running thread begins to wait for any of a list of futexes. A wait that goes on has its name, too, so that is kept now. */
GLOBAL int note_futex_list(u32 number)
{
	struct thread_record *record = thread_record_at(number);
	struct pt_regs *regs = bpf_task_pt_regs(bpf_get_current_task_btf());
	u64 list = argument(regs, 1), listed = argument(regs, 2), hash = listed;
	if (!record)
		return 0;
	for (u32 i = 0; i < N_LISTED; i++) {
		struct futex_waitv one = {};
		if (i < listed && bpf_probe_read_user(&one, sizeof(one), (void *)(list + i * sizeof(one))))
			return 0;
		record->futexes[i] = one.address & LISTED_ADDRESS;
		hash = (hash ^ one.address) * 0x9e3779b97f4a7c15ull;
	}
	record->futexes[LISTED_NUMBER] |= listed << LISTED_BITS;
	record->object = hash & ~(u64)0xff; /* room for which of them ended the wait */
	record->object_kind = OBJECT_FUTEXES;
	charge_cause(record, WAIT_FUTEX, OBJECT_FUTEXES, record->object, 0, 0, record->futexes);
	return 0;
}

/* A thread begins to wait: notes the futex at which it waits, if it waits at one. */
INLINE void note_futex(struct task_struct *task, struct thread_record *record)
{
	record->object_kind = OBJECT_NONE;
	if (record->state == WAIT_FUTEX) {
		struct pt_regs *regs = bpf_task_pt_regs(task);
		/* The argument of futex_waitv is the address of a list (note_futex_list). */
		record->object_kind = CALL_IN_PROGRESS(regs) == CALL_FUTEX_WAITV ? OBJECT_NONE : OBJECT_ADDRESS;
		record->object = argument(regs, 1);
	}
}

/* The running thread begins to wait for a lock of the kernel: notes which. */
GLOBAL int note_lock(u32 number)
{
	struct thread_record *record = thread_record_at(number);
	if (!record || !record->lock)
		return 0;
	const void *name = NULL;
	record->object_kind = OBJECT_LOCK;
	record->object = record->lock;
	if (record->state == WAIT_MMAP_LOCK) {
		struct mm_struct___owned *memory = (void *)memory_of_lock(record->lock);
		struct task_struct *owner = FIELD_EXISTS(memory->owner) ? FOLLOW(memory, owner) : NULL;
		record->object_kind = OBJECT_MEMORY;
		record->object = settings.namespace_inum ? 0 : (u32)FOLLOW(owner, tgid);
		name = __builtin_preserve_access_index(&owner->comm);
	} else if (record->state == WAIT_FILE_LOCK) {
		struct file *file = (void *)file_of_lock(record->lock);
		struct inode *inode = file ? FOLLOW(file, f_inode) : (void *)inode_of_lock(record->lock);
		record->object_kind = file ? OBJECT_POSITION : OBJECT_FILE + FILE_OTHER;
		record->object = FOLLOW(inode, i_ino);
		name = file ? file_name(file) : name_of_inode(inode);
	}
	charge_cause(record, record->state, record->object_kind, record->object, 0, 0, name);
	return 0;
}

/* Charges time of a wait to a file, which becomes the object. Its name is read now, while it is there. */
GLOBAL int charge_file(u32 number, u64 address, u32 state, u64 time, u64 count)
{
	struct thread_record *record = thread_record_at(number);
	struct file *file = (void *)address;
	struct inode *inode = FOLLOW(file, f_inode);
	if (!record || !inode)
		return 0;
	u32 kind = OBJECT_FILE + file_kind(file);
	const void *name = file_name(file);
	record->object_kind = kind;
	record->object = FOLLOW(inode, i_ino);
	if (kind == OBJECT_FILE + FILE_SOCKET) {
		note_peer(&record->peer, file);
		name = &record->peer;
	}
	charge_cause(record, state, kind, record->object, time, count, name);
	return 0;
}

/* A thread waits for a file: notes it as the object. */
INLINE void note_file(struct thread_record *record, u64 address)
{
	charge_file(record->number, address, record->state, 0, 0);
}

/* The waits in a poll(2) or select(2) that returns are over: charges them to the file that ended them. */
GLOBAL int charge_polled(u32 number, u64 result)
{
	struct thread_record *record = thread_record_at(number);
	if (!record)
		return 0;
	u64 file = (s64)result > 0 ? ready_polled_file() : 0;
	if (file)
		charge_file(number, file, WAIT_POLL, record->polled_time, record->polled);
	record->polled_time = record->polled = 0;
	return 0;
}

/* A thread begins to wait: notes the object that it waits for. A file's name is read now, while the file is there. */
NOINLINE int note_wait_object(struct task_struct *task, struct thread_record *record)
{
	u32 state = record->state, doing = record->resume == RUNNING ? state_by_registers(task) : record->resume;
	struct pt_regs *regs = bpf_task_pt_regs(task);
	note_futex(task, record);
	record->lock_owner = 0;
	if (state == WAIT_FUTEX) {
		if (task == bpf_get_current_task_btf()) {
			if (record->object_kind == OBJECT_NONE)
				note_futex_list(record->number);
			else
				record->lock_owner = owner_of_lock(record->object);
		}
		return 0;
	}
	if (state >= WAIT_MMAP_LOCK && state <= WAIT_KERNEL_LOCK)
		return note_lock(record->number);
	if (state == WAIT_PIPE || state == WAIT_NET || state == WAIT_FILE || state == WAIT_EPOLL ||
		(state >= WAIT_FUSE && state <= WAIT_OVERLAY) ||
		(state == WAIT_DISK && doing >= KERNEL_CALL && doing < WAIT_CALL))
		note_file(record, (u64)file_of(task, argument(regs, 1)));
	else if (state == WAIT_POLL && task == bpf_get_current_task_btf())
		note_file(record, only_polled_file());
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
	record->woken_at = 0;
	if (OPTION(why) && record->state == WAIT_EPOLL && record->object_kind == OBJECT_FILE + FILE_EPOLL) {
		struct task_struct *task = (void *)arguments[0];
		note_file(record, (u64)ready_file_of(file_of(task, argument(bpf_task_pt_regs(task), 1))));
	}
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
	if (OPTION(why) && record->state == WAIT_FUTEX)
		record->woken_at = futex_of_waker((void *)arguments[0]);
	return 0;
}

/* The wait for any of a list of futexes is over: charges it by the one that ended it. */
INLINE void charge_futex_list(struct thread_record *record, u64 time)
{
	for (u64 i = 0; i < N_LISTED; i++)
		if (record->woken_at && record->woken_at == (record->futexes[i] & LISTED_ADDRESS)) {
			record->futexes[LISTED_ENDED] |= (i + 1) << LISTED_BITS;
			record->object += i + 1;
			break;
		}
	charge_cause(record, WAIT_FUTEX, OBJECT_FUTEXES, record->object, time, 1, record->futexes);
}

/* The wait at a futex is over: charges it to that futex, and to another to which the thread was moved. */
GLOBAL int charge_futex(u32 number, u64 now)
{
	struct thread_record *record = thread_record_at(number);
	if (!record)
		return 0;
	u64 time = now - record->since, first = record->object;
	struct futex_place place = futex_place_of(record);
	if (record->object_kind == OBJECT_FUTEXES)
		charge_futex_list(record, time);
	else if (!place.to)
		charge_cause(record, WAIT_FUTEX, OBJECT_ADDRESS, first, time, 1, NULL);
	else if (place.moved_at && place.moved_at <= now) {
		charge_cause(record, WAIT_FUTEX, OBJECT_ADDRESS, first, place.moved_at - record->since, 1, NULL);
		charge_cause(record, WAIT_FUTEX, OBJECT_ADDRESS, place.to, now - place.moved_at, 1, NULL);
	} else {
		record->futexes[0] = first & LISTED_ADDRESS;
		record->futexes[1] = place.to & LISTED_ADDRESS;
		record->futexes[2] = record->futexes[3] = 0;
		charge_cause(record, WAIT_FUTEX, OBJECT_MOVED, first * 31 + place.to, time, 1, record->futexes);
	}
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
	if (record->object_kind && state == WAIT_FUTEX)
		charge_futex(record->number, now);
	else if (record->object_kind)
		charge_cause(record, state, record->object_kind, record->object, time, 1, NULL);
	else if (state == WAIT_POLL && record->resume != RUNNING) { /* the call's end will tell (charge_polled) */
		record->polled_time += time;
		record->polled++;
	}
	if (record->lock_owner)
		charge_cause(record, state, HOLDER_LOCK, record->lock_owner | lock, time, 1, NULL);
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
