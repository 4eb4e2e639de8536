/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The level of detail. At the level `switches` no handler sees system calls, faults or interrupts: a thread that has a
 * processor is in the state RUNNING, which is not divided. The level changes at a snapshot, on each processor at its first
 * event after that moment. So every span belongs to one level.
 *
 * What a thread does in the kernel is then known by the registers with which it entered: when it leaves its processor,
 * and when a sample of it is taken.
 */
#ifndef HEADWAY_LEVELS_H
#define HEADWAY_LEVELS_H

#include "events/depth.h"

/* Whether a kernel stack pointer lies on another stack than the thread's own: that of the processor's interrupts. */
INLINE bool is_on_interrupt_stack(struct task_struct *task, u64 pointer)
{
	return pointer - (u64)task->stack >= settings.stack_size;
}

/*
 * Whether the handler that was called with these arguments runs in an interrupt. Then they lie on its stack, unless it
 * interrupted user code: x86 leaves such an interrupt on the thread's own stack, which was empty. A fault is not told from
 * that.
 */
INLINE bool is_in_interrupt(struct processor *p, u64 *arguments)
{
	struct task_struct *task = bpf_get_current_task_btf();
	p->stack_pointer = (u64)arguments;
	ORDER();
	return is_on_interrupt_stack(task, p->stack_pointer) || state_by_registers(task) == USER;
}

/* How many page faults the memory manager has done for a thread. It counts a fault when it is done with it. */
INLINE u64 faults_done(struct task_struct *task)
{
	return task->min_flt + task->maj_flt;
}

/*
 * What a thread was doing that leaves its processor to wait. Outside a system call only a fault makes it wait. In a system
 * call it waits for a fault if that has begun and is not done. A fault that failed is taken for one that goes on, until
 * the thread has another.
 */
INLINE u32 doing_by_registers(struct task_struct *task, struct thread_record *record)
{
	u32 state = state_by_registers(task);
	if (state == USER || record->kernel_fault == 1 + faults_done(task))
		return KERNEL_FAULT;
	return state;
}

/* A fault begins in a system call. */
INLINE void note_kernel_fault(struct processor *p)
{
	u32 number = p->thread_record;
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_record *record =
		number && number != THREAD_UNSEEN && p->task == (u64)task ? thread_record_at(number) : NULL;
	if (record)
		record->kernel_fault = 1 + faults_done(task);
}

/* The states that the running thread is in go on unseen, or have done so: what was seen of them is no occurrence. */
INLINE void forget_open_durations(struct processor *p)
{
	if (!OPTION(durations))
		return;
	forget_pieces(p->thread_record, p->state);
	if (p->depth)
		forget_pieces(p->thread_record, p->nested[0]);
}

/* The running thread's time is not divided from now on. What it was in goes on unseen. */
INLINE void begin_undivided(struct processor *p, struct thread_record *record)
{
	p->state = undivided_state(record);
	p->depth = 0;
	record->last_poll_state = 0;
	record->current_check = 0;
	record->polling = 0;
	record->kernel_fault = 0;
}

/* The running thread's time is divided from now on. `state`: what it was in until this event, 0: ask the registers. */
INLINE void begin_divided(struct processor *p, struct thread_record *record, struct task_struct *task, u32 state)
{
	p->state = state_as_recorded(state ? state : state_by_registers(task), record);
	p->depth = 0;
}

/* The thread comes onto this processor, in the state with which it left one, perhaps at another level. */
INLINE void resume_at_level(struct processor *p, struct thread_record *record, struct task_struct *task)
{
	take_depth(p, record);
	bool undivided = is_undivided(p), kernel = record->flags & THREAD_KERNEL;
	if (kernel ? !undivided || p->state == KERNEL_THREAD : undivided == (p->state == RUNNING))
		return;
	forget_open_durations(p);
	if (undivided)
		begin_undivided(p, record);
	else
		begin_divided(p, record, task, 0);
}

/* Whether the level has changed at a snapshot that this processor has crossed. */
INLINE bool has_new_level(struct processor *p)
{
	if (settings.undivided == CHOSEN_UNDIVIDED)
		return has_new_depth(p);
	if (settings.undivided != SOMETIMES_UNDIVIDED)
		return false;
	u64 level = control.level;
	bool since = (s32)(p->snapshot - (u32)(level >> 1)) >= 0;
	return p->undivided != ((level & 1) ^ !since);
}

/* Whether time is not divided here, or may not be from a snapshot on that this processor has not crossed. */
INLINE bool may_change_level(struct processor *p)
{
	return is_undivided(p) || (settings.undivided == SOMETIMES_UNDIVIDED && p->snapshot != control.snapshot);
}

/* The level has changed at the snapshot that was crossed. Time since that snapshot has not been charged yet. */
GLOBAL int change_level(u32 number, u32 state)
{
	struct processor *p = this_processor();
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	struct task_struct *task = bpf_get_current_task_btf();
	if (!p)
		return 0;
	if (record && p->task == (u64)task)
		forget_open_durations(p);
	p->undivided = !p->undivided;
	p->settled = 0; /* interrupts that are under way have not been seen to begin */
	p->deferred_depth = 0; /* nor will one that began before be seen to end */
	forget_pending(p);
	if (p->depth && !record)
		p->state = p->nested[0];
	p->depth = 0;
	if (record && p->task == (u64)task) {
		if (p->undivided)
			begin_undivided(p, record);
		else
			begin_divided(p, record, task, state);
	}
	return 0;
}

#endif
