/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Stacks of threads that leave the processor, and states of threads of which a sample is taken.
 *
 * Time off the processor is added up by (thread, state, stack) wherever it is charged to the thread's cell. So the times of
 * a state's stacks add up to the state's cell, apart from losses, which are counted. A hash of the return addresses
 * identifies a stack, so a stack that is known already costs one look-up. Where transitions are recorded nothing is added
 * up: each wait is a row of its own, which has the hashes of its stacks and of its waker's.
 *
 * The kernel takes the samples, with their stacks (perf_event_open(2)). A program attached to the same event reports the
 * state that the thread was in, through one ring for all processors.
 */
#ifndef HEADWAY_STACKS_H
#define HEADWAY_STACKS_H

#include "unwinding/unwinding.h"

/* ns of an interrupt that lie outside its tracepoints: 8 to 13 us in a virtual machine. */
enum { UNSEEN = 12000 };

enum { USER_FRAMES = 1 << 8, NO_FLAGS = 0, IF_NEW = 1 }; /* BPF_F_USER_STACK; BPF_NOEXIST */

static long (*const get_stack)(void *ctx, void *to, u32 size, u64 flags) = (void *)67;
static long (*const get_task_stack)(struct task_struct *task, void *to, u32 size, u64 flags) = (void *)141;

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, u64); /* its hash */
	TYPE(value, struct stack);
} stacks SEC(".maps");

struct {
	UINT(type, MAP_ARRAY); /* one per processor: no handler that takes a stack interrupts another one */
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct stack);
} fresh_stacks SEC(".maps");

struct {
	UINT(type, MAP_ARRAY); /* for the iterator, which a handler may interrupt */
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct stack);
} found_stack SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, struct stack_key);
	TYPE(value, struct cell);
} stack_times SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 4096);
} sample_events SEC(".maps");

/* Keeps a stack of `depth` words. Returns its hash; 0: there is no stack; STACK_LOST: no room for it. */
NOINLINE u64 store_words(struct stack *stack, u32 depth)
{
	if (!depth)
		return 0;
	u64 hash = depth;
	for (u32 i = 0; i < N_STACK; i++) {
		if (i >= depth)
			break;
		hash = (hash ^ stack->frames[i]) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 29;
	}
	hash |= STACK_LOST + 1; /* neither 0 nor STACK_LOST */
	stack->depth = depth;
	if (!bpf_map_lookup_elem(&stacks, &hash) && bpf_map_update_elem(&stacks, &hash, stack, IF_NEW) == -NO_ROOM) {
		count_stack_loss(LOST_STACKS);
		return STACK_LOST;
	}
	return hash;
}

/* Keeps a stack of `size` bytes. */
INLINE u64 store_stack(struct stack *stack, long size)
{
	return size < 8 ? 0 : store_words(stack, (u64)size / 8);
}

/* Returns the frames of Python that belong to the stack that was walked last in this slot; NULL: there are none. */
INLINE struct stack *python_stack_of(u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct python_walk *p = bpf_map_lookup_elem(&python_walks, &slot);
	return w && p && w->python && p->stack.depth ? &p->stack : NULL;
}

/* Keeps them, and adds their hash to the stack, behind why that ends. */
INLINE void store_python_stack(struct stack *stack, u32 slot)
{
	struct stack *frames = python_stack_of(slot);
	if (frames)
		add_word(stack, store_words(frames, frames->depth));
}

/* Keeps the present user stack of the running thread, walked by its rules. Returns as store_words does. */
NOINLINE u64 store_walked_stack(u32 pid)
{
	struct stack *stack = walk_user_stack(walk_slot(0), pid);
	if (!stack)
		return 0;
	store_python_stack(stack, walk_slot(0));
	return store_words(stack, stack->depth);
}

/* Keeps the present stack of the running thread. Returns as store_words does. */
NOINLINE u64 store_running_stack(void *ctx, u64 flags)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct stack *stack = bpf_map_lookup_elem(&fresh_stacks, &cpu);
	return stack ? store_stack(stack, get_stack(ctx, stack->frames, sizeof(stack->frames), flags)) : 0;
}

/*
 * Keeps the kernel stack of a thread that was off its processor when measuring began. The user stack of another thread
 * cannot be read.
 */
NOINLINE u64 store_waiting_stack(struct task_struct *task)
{
	u32 first = 0;
	struct stack *stack = bpf_map_lookup_elem(&found_stack, &first);
	return stack ? store_stack(stack, get_task_stack(task, stack->frames, sizeof(stack->frames), NO_FLAGS)) : 0;
}

/* Keeps the user stack of the running thread. */
INLINE u64 store_user_stack(void *ctx, struct thread_record *record)
{
	if (record->flags & THREAD_KERNEL)
		return 0;
	return OPTION(unwind) ? store_walked_stack(record->pid) : store_running_stack(ctx, USER_FRAMES);
}

/* Charges time in a state to the stacks that the thread had when it left its processor. */
NOINLINE int charge_stack(struct thread_record *record, u32 state, u64 time, u64 count)
{
	if (OPTION(record))
		return 0;
	struct stack_key key = {.birth = record->birth,
		.user = record->user_stack,
		.kernel = record->kernel_stack,
		.tid = record->tid,
		.pid = record->pid,
		.state = state};
	struct cell *known = bpf_map_lookup_elem(&stack_times, &key);
	if (known) {
		add_shared(&known->time, time);
		add_shared(&known->count, count);
		return 0;
	}
	struct cell fresh = {.time = time, .count = count};
	if (bpf_map_update_elem(&stack_times, &key, &fresh, 0))
		count_stack_loss(LOST_STACK_TIMES);
	return 0;
}

/*
 * The running thread leaves its processor: keeps its stacks, if somebody will want to know them.
 *
 * What stacks cost depends on how deep they are. Where transitions are recorded it is read off the clock each time, and is
 * not among what calibration finds an event to cost: that process has no stacks.
 */
INLINE void store_switch_stacks(void *ctx, struct processor *p, struct thread_record *record)
{
	if (OPTION(record) && (record->state == READY || control.only))
		return;
	if (OPTION(record))
		p->stacks_took = bpf_ktime_get_ns();
	record->kernel_stack = store_running_stack(ctx, NO_FLAGS);
	record->user_stack = store_user_stack(ctx, record);
	if (OPTION(record)) {
		p->stacks_took = bpf_ktime_get_ns() - p->stacks_took;
		p->cost_pending += p->stacks_took << COST_BITS;
	}
}

/*
 * The running thread wakes the one of a record: keeps its stacks there. The caller has interrupts off. `itself`: it does so
 * in its own time, and not an interrupt that it does not know of.
 */
INLINE void store_waker_stacks(void *ctx, struct processor *p, struct thread_record *record, bool itself)
{
	record->waker_user_stack = 0;
	record->waker_kernel_stack = 0;
	if (record->waker_kind != WAKER_THREAD || control.only)
		return;
	u64 began = bpf_ktime_get_ns();
	record->waker_kernel_stack = store_running_stack(ctx, NO_FLAGS);
	u32 number = record->waker_record;
	struct thread_record *waker = bpf_map_lookup_elem(&thread_records, &number);
	if (number && waker && itself)
		record->waker_user_stack = store_user_stack(ctx, waker);
	p->cost_pending += (bpf_ktime_get_ns() - began) << COST_BITS;
}

/* Time was stolen from the running thread, whose user stack is still there. */
INLINE void charge_stolen_to_stack(void *ctx, struct thread_record *record, u64 time)
{
	if (OPTION(record))
		return;
	record->kernel_stack = 0; /* the kernel stack is that of the interrupt that reports the theft */
	record->user_stack = store_user_stack(ctx, record);
	charge_stack(record, STOLEN, time, 1);
}

/* Reports that the time since the last check, taken for user code, turned out to be polling. */
INLINE void submit_polling(struct thread_record *record, u64 now)
{
	struct sample_event event = {.time = now,
		.since = record->asked_at,
		.tid = record->tid,
		.pid = record->pid,
		.kind = SAMPLE_POLLING,
		.state = record->last_poll_state};
	record->sampled = 0;
	if (bpf_ringbuf_output(&sample_events, &event, sizeof(event), RING_NO_WAKEUP))
		count_stack_loss(LOST_SAMPLE_EVENTS);
}

#endif
