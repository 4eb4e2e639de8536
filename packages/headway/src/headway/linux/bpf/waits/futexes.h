/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Futexes that a thread waits for, where its call's first argument does not tell: a list of them (futex_waitv), and
 * another one, to which a thread was moved while it waited (FUTEX_REQUEUE, FUTEX_CMP_REQUEUE). They are recorded with causes.
 *
 * The kernel does not tell which threads it moves, only how many (futex_requeue in kernel/futex/requeue.c). But whoever wakes
 * a thread says at which futex it does: if that is where threads were moved to, and that has happened only once since the
 * wait began, then the thread waited there from that moment on. In all other cases both futexes are named.
 */
#ifndef HEADWAY_FUTEXES_H
#define HEADWAY_FUTEXES_H

#include "threads/threads.h"

enum { /* include/uapi/linux/futex.h */
	FUTEX_OPERATION = 127,
	FUTEX_WAKE = 1,
	FUTEX_REQUEUE = 3,
	FUTEX_CMP_REQUEUE = 4,
	FUTEX_WAKE_BITSET = 10,
};

struct futex_waitv { /* as the program has it */
	u64 value, address;
	u32 flags, reserved;
};

enum { /* include/uapi/linux/futex.h */
	WORD_TID = 0x3fffffff,
	WORD_WAITERS = 1u << 31,
	/* pthread_mutex_t of the GNU C library (sysdeps/nptl/bits/struct_mutex.h): 1 or 2 is a lock that somebody has. */
	GLIBC_LOCKED = 1,
	GLIBC_WAITERS = 2,
	GLIBC_OWNER = 8, /* bytes from the futex to the id of the thread that has it */
};

/*
 * Returns the id of the thread that has the lock at which the running thread begins to wait; 0: not known, or it is no lock. A
 * lock with priority inheritance or robustness and those of musl have it in the futex itself, the GNU C library's beside it.
 * A futex that is no lock may have any value: the reader takes it only if it is the id of a thread of the process.
 */
INLINE u32 owner_of_lock(u64 address)
{
	u32 word = 0, owner = 0;
	if (bpf_probe_read_user(&word, sizeof(word), (void *)address))
		return 0;
	if (word & WORD_WAITERS)
		return word & WORD_TID;
	if (word != GLIBC_LOCKED && word != GLIBC_WAITERS)
		return 0;
	return bpf_probe_read_user(&owner, sizeof(owner), (void *)(address + GLIBC_OWNER)) ? 0 : owner;
}

/* The running thread wakes `task`. Returns the futex at which it does; 0: not known, or at one of another address space. */
INLINE u64 futex_of_waker(struct task_struct *task)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct pt_regs *regs = bpf_task_pt_regs(waker);
	u32 call = CALL_IN_PROGRESS(regs), operation = argument(regs, 2) & FUTEX_OPERATION;
	if (waker->mm != task->mm || COMPAT_CALL(regs))
		return 0;
	if (call == CALL_FUTEX_WAKE)
		return argument(regs, 1);
	if (call != CALL_FUTEX)
		return 0;
	/* FUTEX_REQUEUE wakes some at its first futex, and moves others. FUTEX_WAKE_OP may wake at either of two. */
	bool known = operation == FUTEX_WAKE || operation == FUTEX_WAKE_BITSET || operation == FUTEX_REQUEUE ||
		operation == FUTEX_CMP_REQUEUE;
	return known ? argument(regs, 1) : 0;
}

/*
 * The running thread's call has moved threads from one futex to another, or woken some. `done`: how many. Those to be woken
 * come first.
 */
GLOBAL int note_requeue(u32 number, u64 now, u64 done)
{
	struct thread_record *record = thread_record_at(number);
	struct pt_regs *regs = bpf_task_pt_regs(bpf_get_current_task_btf());
	u32 operation = argument(regs, 2) & FUTEX_OPERATION;
	if (!record || (operation != FUTEX_REQUEUE && operation != FUTEX_CMP_REQUEUE) || done <= (u32)argument(regs, 3))
		return 0;
	struct futex_key key = {.address = argument(regs, 1), .pid = record->pid};
	struct futex_move move = {.at = now, .to = argument(regs, 5)};
	struct futex_move *last = bpf_map_lookup_elem(&futex_moves, &key);
	if (last)
		move.before = last->at;
	bpf_map_update_elem(&futex_moves, &key, &move, 0);
	return 0;
}

/* Where a thread waits that began to wait at its object. */
struct futex_place {
	u64 moved_at; /* it was moved then; 0: it was not, or that is not known */
	u64 to; /* there, or it may be; 0: it was not moved */
};

/* The thread's wait at a futex ends. */
INLINE struct futex_place futex_place_of(struct thread_record *record)
{
	struct futex_key key = {.address = record->object, .pid = record->pid};
	struct futex_place place = {};
	struct futex_move *move = bpf_map_lookup_elem(&futex_moves, &key);
	u64 woken_at = record->woken_at;
	if (woken_at == record->object)
		return place;
	if (move && move->at > record->since) {
		place.to = move->to;
		if (woken_at == move->to && move->before <= record->since)
			place.moved_at = move->at;
	} else
		place.to = woken_at;
	return place;
}

#endif
