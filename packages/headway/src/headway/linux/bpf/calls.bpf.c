/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Counts system calls by process, call and file: how many, errors, bytes, and the time in them, on a processor and off it.
 * It is loaded only where that is asked for, beside progress.bpf.c, whose records of threads it reads (measured.h).
 *
 * The time of a call is from one event of the thread to another, by the clock readings of progress.bpf.c. So the waits of
 * all calls add up to those of the thread's states.
 */
#include "tables/measured.h"
#include "tables/call_files.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* What calls do, by number. */
const volatile struct {
	u8 first[N_CALLS], second[N_CALLS]; /* where their files are (enum file_argument) */
	u8 result[N_CALLS]; /* of enum call_result */
} about SEC(".rodata.about");

volatile struct call_account account;

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct open_call);
} open_calls SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, struct call_key);
	TYPE(value, struct call_use);
} call_uses SEC(".maps");

/* Calls for which call_uses has no room, by number. */
struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, N_CALLS);
	TYPE(key, u32);
	TYPE(value, struct call_use);
} other_uses SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, struct error_key);
	TYPE(value, u64);
} call_errors SEC(".maps");

/* ---- one call ---- */

/* The running thread, with what its handlers need. */
struct caller {
	struct processor *p;
	struct thread_record *record;
	struct open_call *open;
};

INLINE bool find(struct task_struct *task, struct caller *caller)
{
	u32 number = thread_record_of(task);
	if (!number)
		return false;
	caller->record = thread_record_at(number);
	caller->open = bpf_map_lookup_elem(&open_calls, &number);
	caller->p = this_processor();
	return caller->record && caller->open && caller->p && caller->record->birth;
}

/* Headway's own time since a moment: it is taken out of the span that is under way. */
INLINE void charge_own_cost(struct processor *p, u64 since)
{
	u64 took = bpf_ktime_get_ns() - since;
	p->cost_pending += (took << COST_BITS) + account.tax;
	if (UNLIKELY(account.timing)) {
		add_shared((u64 *)&account.own_time, took);
		add_shared((u64 *)&account.own_runs, 1);
	}
}

/* The time that a thread was ready so far. */
INLINE u64 ready_so_far(struct thread_record *record)
{
	u64 place = record->index[READY];
	if (!place)
		return 0;
	return record->cells[MASKED(place - 1, N_CELLS)].time;
}

/* The thread was not seen before. It may be in a call, which began before it was measured. */
INLINE void begin_thread(struct thread_record *record, struct open_call *open, u64 began)
{
	__builtin_memset(open, 0, sizeof(*open));
	open->birth = record->birth;
	open->began = began;
	open->call = N_CALLS;
	open->pid = record->pid;
}

INLINE u32 number_of(struct processor *p, struct pt_regs *regs, u64 call)
{
	if (UNLIKELY(COMPAT_CALL(regs))) /* the state has the number that it has as a native call */
		call = p->state >= KERNEL_CALL && p->state < WAIT_CALL ? p->state - KERNEL_CALL : OTHER_CALLS;
	return call < OTHER_CALLS ? call : OTHER_CALLS;
}

SEC("tp_btf/sys_enter")
int handle_call_entry(u64 *ctx)
{
	u64 since = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct caller caller;
	if (!find(task, &caller))
		return 0;
	struct open_call *open = caller.open;
	struct pt_regs *regs = (void *)ctx[0];
	u32 call = number_of(caller.p, regs, ctx[1]);
	open->birth = caller.record->birth;
	open->began = caller.p->since;
	open->left = open->off = 0;
	open->ready = ready_so_far(caller.record);
	open->overhead = caller.record->overhead;
	open->call = call;
	open->pid = caller.record->pid;
	__builtin_memset(&open->second, 0, sizeof(open->second));
	u32 first = about.first[MASKED(call, N_CALLS)], second = about.second[MASKED(call, N_CALLS)];
	if (first && first != RETURNED_FILE)
		identify_file(&open->file, file_of(task, argument(regs, first)));
	else
		__builtin_memset(&open->file, 0, sizeof(open->file));
	if (UNLIKELY(second))
		identify_file(&open->second, file_of(task, argument(regs, second)));
	charge_own_cost(caller.p, since);
	return 0;
}

struct message { /* struct mmsghdr: as the program has it */
	u8 header[56];
	u32 length, spare;
};

/* Returns the bytes of messages that the running thread has sent or received. */
INLINE u64 bytes_of_messages(struct pt_regs *regs, u64 count)
{
	u64 bytes = 0, list = argument(regs, 2);
	for (u32 i = 0; i < N_MESSAGES; i++) {
		u32 length = 0;
		if (i >= count)
			break;
		bpf_probe_read_user(&length, sizeof(length),
			(void *)(list + i * sizeof(struct message) + __builtin_offsetof(struct message, length)));
		bytes += length;
	}
	return bytes;
}

/* Adds what a call was to the counts of its kind. `more` is not changed. */
INLINE void add_use(struct call_key *key, const struct call_use *more)
{
	struct call_use *use = bpf_map_lookup_elem(&call_uses, key);
	if (!use) {
		if (!bpf_map_update_elem(&call_uses, key, more, ONLY_NEW))
			return;
		use = bpf_map_lookup_elem(&call_uses, key); /* another processor was faster */
	}
	if (!use) {
		u32 call = key->call;
		if (key->second)
			return;
		use = bpf_map_lookup_elem(&other_uses, &call);
		add_shared((u64 *)&account.without_place, 1);
	}
	if (!use)
		return;
	add_shared(&use->count, more->count);
	add_shared(&use->errors, more->errors);
	add_shared(&use->on, more->on);
	add_shared(&use->waited, more->waited);
	add_shared(&use->ready, more->ready);
	add_shared(&use->bytes, more->bytes);
}

INLINE void count_error(u32 pid, u32 call, u32 error)
{
	struct error_key key = {.pid = pid, .call = call, .error = error};
	u64 one = 1, *count = bpf_map_lookup_elem(&call_errors, &key);
	if (count)
		add_shared(count, 1);
	else
		bpf_map_update_elem(&call_errors, &key, &one, 0);
}

enum { LARGEST_ERROR = 4095 }; /* MAX_ERRNO in include/linux/err.h */

/* The running thread's call ends: charges it. `at`: by the clock readings of progress.bpf.c. */
INLINE void charge_call(struct caller *caller, struct task_struct *task, struct pt_regs *regs, s64 result, u64 at)
{
	struct open_call *open = caller->open;
	struct call_key key = {.file = open->file, .pid = open->pid, .call = open->call};
	u32 does = about.result[MASKED(open->call, N_CALLS)];
	u64 ready = ready_so_far(caller->record) - open->ready, off = open->off, all = at - open->began,
		own = caller->record->overhead - open->overhead;
	struct call_use use = {.count = 1};
	if ((s64)all < 0)
		all = 0;
	use.ready = ready < off ? ready : off;
	use.waited = off - use.ready;
	use.on = all > off + own ? all - off - own : 0;
	if (result < 0 && result >= -LARGEST_ERROR) {
		use.errors = 1;
		count_error(open->pid, open->call, -result);
	} else if (does & RETURNS_BYTES)
		use.bytes = result;
	else if (does & RETURNS_MESSAGES)
		use.bytes = bytes_of_messages(regs, result);
	if (about.first[MASKED(open->call, N_CALLS)] == RETURNED_FILE && result >= 0)
		identify_file(&key.file, file_of(task, result));
	add_use(&key, &use);
	if (UNLIKELY(open->second.inode) && use.bytes) {
		struct call_use second = {.count = 1, .bytes = use.bytes};
		key.file = open->second;
		key.second = 1;
		add_use(&key, &second);
	}
}

SEC("tp_btf/sys_exit")
int handle_call_exit(u64 *ctx)
{
	u64 since = bpf_ktime_get_ns();
	struct task_struct *task = bpf_get_current_task_btf();
	struct caller caller;
	if (!find(task, &caller))
		return 0;
	struct open_call *open = caller.open;
	struct pt_regs *regs = (void *)ctx[0];
	if (open->birth != caller.record->birth)
		begin_thread(caller.record, open, caller.record->birth);
	if (open->began && open->call == N_CALLS) { /* it began before the thread was measured */
		long call = CALL_IN_PROGRESS(regs);
		open->call = number_of(caller.p, regs, call);
		if (call < 0 || (about.result[MASKED(open->call, N_CALLS)] & RETURNS_TWICE && !ctx[1]))
			open->began = 0; /* the parent's call, which returns in the new thread, too */
	}
	if (open->began)
		charge_call(&caller, task, regs, ctx[1], caller.p->since);
	open->began = 0;
	charge_own_cost(caller.p, since);
	return 0;
}

/* A measured thread leaves its processor in a call, or comes back in one. */
SEC("tp_btf/sched_switch")
int handle_call_switch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u64 since = bpf_ktime_get_ns();
	struct caller caller;
	struct processor *p = this_processor();
	bool any = false;
	if (!p)
		return 0;
	if (prev->pid && find(prev, &caller) && !caller.record->cpu && caller.open->began &&
		caller.open->birth == caller.record->birth) {
		caller.open->left = caller.record->since;
		any = true;
	}
	if (next->pid && find(next, &caller)) {
		struct open_call *open = caller.open;
		any = true;
		if (open->birth != caller.record->birth) {
			begin_thread(caller.record, open, caller.record->birth);
			open->left = caller.record->birth;
		}
		if (open->began && open->left) {
			open->off += p->since - open->left;
			open->left = 0;
		}
	}
	if (any)
		charge_own_cost(p, since);
	return 0;
}
