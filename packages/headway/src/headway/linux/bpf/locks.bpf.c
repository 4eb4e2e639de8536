/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tells of each lock of a program how long it was held while others waited, and what its holder did meanwhile. It is loaded
 * only where that is asked for, beside progress.bpf.c (measured.h), which says who had the lock when a wait began.
 *
 * The holder's cells are copied when a wait begins, and what they have gained when it ends is what the holder did. That
 * holds if the holder had the lock all the time: if it is the holder that ends the wait. Otherwise the lock went on to
 * another thread, and the time of the wait is of no state.
 */
#include "tables/lock_layout.h"
#include "tables/measured.h"

const volatile struct settings settings SEC(".rodata.settings"); /* of them only `has_fetch` is set */

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct lock_wait);
} lock_waits SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, struct lock_key);
	TYPE(value, struct contention);
} contentions SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, struct doing_key);
	TYPE(value, u64);
} doings SEC(".maps");

/* The map of progress.bpf.c with the record that was found last for such an id: a guess, which is verified. */
u32 found_records[N_IDS] SEC(".bss.found_records");

volatile u64 without_place; /* times for which there was no room */

/* What a thread is in now, and since when. */
struct present {
	u64 since;
	u32 state;
};

INLINE struct present present_of(struct thread_record *record)
{
	struct present now = {.since = record->since, .state = record->state};
	u32 cpu = record->cpu;
	struct processor *p = cpu ? processor_at(cpu - 1) : NULL;
	if (p) {
		now.since = p->since;
		now.state = p->state;
	}
	return now;
}

INLINE void add_doing(struct doing_key *key, u32 state, u64 time)
{
	key->state = state;
	u64 *known = bpf_map_lookup_elem(&doings, key);
	if (known)
		add_shared(known, time);
	else if (bpf_map_update_elem(&doings, key, &time, ONLY_NEW)) {
		known = bpf_map_lookup_elem(&doings, key);
		if (known)
			add_shared(known, time);
		else
			add_shared((u64 *)&without_place, time);
	}
}

/* Keeps what the holder has done so far. `at`: now, by the clock readings of progress.bpf.c. */
GLOBAL int keep_holder(u32 number, u64 at)
{
	struct lock_wait *wait = bpf_map_lookup_elem(&lock_waits, &number);
	if (!wait)
		return 0;
	u32 holder = found_records[wait->holder & (N_IDS - 1)];
	struct thread_record *record = thread_record_at(holder);
	if (!record || !record->birth || record->tid != wait->holder || record->pid != wait->pid) {
		wait->record = 0;
		return 0;
	}
	wait->record = holder;
	wait->holder_birth = record->birth;
	struct present present = present_of(record);
	wait->open_state = present.state;
	wait->open_time = (s64)(at - present.since) > 0 ? at - present.since : 0;
	wait->used = record->used < N_HOLDER_CELLS ? record->used : N_HOLDER_CELLS;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < N_HOLDER_CELLS; i++) {
		if (i >= wait->used)
			break;
		wait->times[MASKED(i, 64) < N_HOLDER_CELLS ? MASKED(i, 64) : 0] = record->cells[MASKED(i, N_CELLS)].time;
	}
	return 0;
}

/* Charges what the holder has done since. */
GLOBAL int charge_holder(u32 number, u64 at)
{
	struct lock_wait *wait = bpf_map_lookup_elem(&lock_waits, &number);
	if (!wait)
		return 0;
	struct thread_record *record = thread_record_at(wait->record);
	struct doing_key key = {.address = wait->address, .pid = wait->pid, .holder = wait->holder};
	if (!record || record->birth != wait->holder_birth) {
		add_doing(&key, STATE_NONE, at - wait->since);
		return 0;
	}
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < N_HOLDER_CELLS; i++) {
		if (i >= record->used)
			break;
		struct cell *cell = &record->cells[MASKED(i, N_CELLS)];
		u64 before = i < wait->used ? wait->times[MASKED(i, 64) < N_HOLDER_CELLS ? MASKED(i, 64) : 0] : 0;
		if (cell->time != before)
			add_doing(&key, cell->count >> COUNT_BITS, cell->time - before);
	}
	/* What was under way then is in it from its beginning, and what is under way now is not in it yet. */
	if (wait->open_time)
		add_doing(&key, wait->open_state, -wait->open_time);
	struct present present = present_of(record);
	if ((s64)(at - present.since) > 0)
		add_doing(&key, present.state, at - present.since);
	return 0;
}

INLINE void begin_wait(u32 number, struct thread_record *record)
{
	struct lock_wait *wait = bpf_map_lookup_elem(&lock_waits, &number);
	struct lock_key key = {.address = record->object, .pid = record->pid};
	if (!wait)
		return;
	wait->birth = record->birth;
	wait->address = record->object;
	wait->pid = record->pid;
	wait->holder = record->lock_owner;
	wait->record = 0;
	struct contention *lock = bpf_map_lookup_elem(&contentions, &key);
	if (!lock) {
		struct contention fresh = {};
		bpf_map_update_elem(&contentions, &key, &fresh, ONLY_NEW);
		lock = bpf_map_lookup_elem(&contentions, &key);
	}
	wait->since = record->since;
	if (!lock)
		add_shared((u64 *)&without_place, 1);
	else if (settings.has_fetch && !__sync_fetch_and_add(&lock->waiters, 1))
		lock->since = wait->since;
	if (wait->holder)
		keep_holder(number, wait->since);
}

/* The wait is over. `waker`: the record of the thread that ended it; 0: none that is measured. */
INLINE void end_wait(u32 number, struct lock_wait *wait, u64 at, u32 waker)
{
	struct lock_key key = {.address = wait->address, .pid = wait->pid};
	struct contention *lock = bpf_map_lookup_elem(&contentions, &key);
	u64 since = lock ? lock->since : 0;
	if (settings.has_fetch && lock && __sync_fetch_and_sub(&lock->waiters, 1) == 1 && (s64)(at - since) > 0)
		add_shared(&lock->held, at - since);
	if (wait->holder && (s64)(at - wait->since) > 0) {
		if (wait->record && waker == wait->record)
			charge_holder(number, at);
		else {
			struct doing_key doing = {.address = wait->address, .pid = wait->pid, .holder = wait->holder};
			add_doing(&doing, STATE_NONE, at - wait->since);
		}
	}
	wait->since = 0;
}

SEC("tp_btf/sched_switch")
int handle_lock_switch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u64 since = bpf_ktime_get_ns();
	struct processor *p = this_processor();
	if (!p)
		return 0;
	u32 leaving = prev->pid ? thread_record_of(prev) : 0, coming = next->pid ? thread_record_of(next) : 0;
	struct thread_record *record = leaving ? thread_record_at(leaving) : NULL;
	if (record && record->birth && !record->cpu && record->state == WAIT_FUTEX && record->object_kind == OBJECT_ADDRESS)
		begin_wait(leaving, record);
	record = coming ? thread_record_at(coming) : NULL;
	if (record) {
		struct lock_wait *wait = bpf_map_lookup_elem(&lock_waits, &coming);
		if (wait && UNLIKELY(wait->since)) {
			if (wait->birth == record->birth)
				end_wait(coming, wait, p->since, 0); /* its end was not seen */
			wait->since = 0;
		}
	}
	if (leaving || coming)
		add_own_cost(p, since);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int handle_lock_wakeup(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 number = thread_record_of(task);
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	struct lock_wait *wait = record ? bpf_map_lookup_elem(&lock_waits, &number) : NULL;
	if (!wait || !wait->since || wait->birth != record->birth || record->cpu || record->state == WAIT_FUTEX)
		return 0;
	u64 since = bpf_ktime_get_ns();
	end_wait(number, wait, record->since, thread_record_of(bpf_get_current_task_btf()));
	struct processor *p = this_processor();
	if (p)
		add_own_cost(p, since);
	return 0;
}
