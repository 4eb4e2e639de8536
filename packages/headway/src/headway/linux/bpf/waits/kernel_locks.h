/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Locks of the kernel for which a thread sleeps: mutexes, semaphores, and the locks of address spaces (mmap_lock), of files
 * and directories (i_rwsem), and of the position in a file (f_pos_lock). The tracepoints contention_begin and
 * contention_end say which one (commit 16edd9b511a1, "locking: Add lock contention tracepoints", 5.19). They occur only
 * where a lock is not free, so nothing is paid elsewhere.
 *
 * A lock in an address space or an inode is recognised by its surroundings: what lies around it there leads back to it. The
 * inode's own pages have a pointer to the inode, and the thread that owns an address space has one to that.
 */
#ifndef HEADWAY_KERNEL_LOCKS_H
#define HEADWAY_KERNEL_LOCKS_H

#include "waits/files.h"
#include "threads/threads.h"

enum { LOCK_IS_SPUN_FOR = 1 }; /* LCB_F_SPIN, include/trace/events/lock.h: the thread keeps its processor */

/* Returns the running thread's record, where its thread is the one that is expected to run; NULL: it is not measured. */
INLINE struct thread_record *own_record(void)
{
	struct processor *p = this_processor();
	if (!p || !p->thread_record || p->thread_record == THREAD_UNSEEN || p->task != (u64)bpf_get_current_task_btf())
		return NULL;
	return thread_record_at(p->thread_record);
}

/* Returns the address space whose lock this is; 0: it is none's. */
GLOBAL u64 memory_of_lock(u64 lock)
{
	struct mm_struct *of = (void *)(lock - OFFSET_OF(struct mm_struct, mmap_lock));
	if (of == bpf_get_current_task_btf()->mm)
		return (u64)of;
	struct mm_struct___owned *owned = (void *)of;
	if (!FIELD_EXISTS(owned->owner))
		return 0;
	struct task_struct *owner = FOLLOW(owned, owner);
	return owner && FOLLOW(owner, mm) == of ? (u64)of : 0;
}

/* Returns the inode whose lock this is; 0: it is none's. */
GLOBAL u64 inode_of_lock(u64 lock)
{
	struct inode *of = (void *)(lock - OFFSET_OF(struct inode, i_rwsem));
	return FOLLOW(of, i_data.host) == of ? (u64)of : 0;
}

/* Returns the file that the running thread's call is about, if this is the lock of the position in it. */
GLOBAL u64 file_of_lock(u64 lock)
{
	struct file *file = (void *)own_file(any_argument(1));
	return file && lock - (u64)file == OFFSET_OF(struct file, f_pos_lock) ? (u64)file : 0;
}

/* Returns the wait of the running thread, which leaves its processor, if it is for a lock of the kernel; 0: it is not. */
GLOBAL u32 wait_for_lock(void)
{
	struct thread_record *record = own_record();
	u64 lock = record ? record->lock : 0;
	if (!lock)
		return 0;
	if (memory_of_lock(lock))
		return WAIT_MMAP_LOCK;
	return inode_of_lock(lock) || file_of_lock(lock) ? WAIT_FILE_LOCK : WAIT_KERNEL_LOCK;
}

/* The name of a directory or file of this inode; it may have several. NULL: it has none. */
INLINE const unsigned char *name_of_inode(struct inode *inode)
{
	char *alias = FOLLOW(inode, i_dentry.first);
	struct dentry *entry = (void *)(alias - OFFSET_OF(struct dentry, d_u.d_alias));
	return alias ? FOLLOW(entry, d_name.name) : NULL;
}

#endif
