/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Who had a processor, recorded if causes are: a thread, an interrupt, or nobody. The history of a processor is without
 * holes: each holder has it from the moment at which the one before left it. A thread that gets the processor is charged
 * with those who had it while the thread was ready.
 */
#ifndef HEADWAY_HOLDERS_H
#define HEADWAY_HOLDERS_H

#include "causes.h"

/* The place in the history for who had the processor until this moment, since the last one. NULL: nobody had it. */
INLINE struct held *next_holder(struct processor *p, u64 until)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct history *h = bpf_map_lookup_elem(&histories, &cpu);
	if (!h || until <= p->held)
		return NULL;
	struct held *held = &h->held[MASKED(h->next, N_HELD)];
	h->next++;
	held->from = p->held;
	held->until = until;
	p->held = until;
	return held;
}

/* The running thread, or the idle task, had the processor. `left`: 1 if it leaves now, 0 if it was only interrupted. */
u64 keep_thread(u64 until, u32 left)
{
	struct processor *p = this_processor();
	struct task_struct *task = bpf_get_current_task_btf();
	u32 tid = 0, pid = 0;
	struct held *held = p ? next_holder(p, until) : NULL;
	if (!held)
		return 0;
	held->kind = HOLDER_THREAD;
	held->count = left;
	if (!task->pid)
		tid = HELD_IDLE;
	else if (!in_namespace(task, &tid, &pid))
		tid = 0;
	held->holder = tid;
	bpf_probe_read_kernel(held->name, sizeof(held->name), &task->comm);
	return 0;
}

/* The thread that we take for running had the processor, and does no more: what is left of it may be read. */
INLINE void keep_gone_thread(struct processor *p, u64 until, u32 kind, u32 left)
{
	struct held *held = next_holder(p, until);
	if (!held)
		return;
	struct task_struct *task = (void *)p->task;
	u32 tid = p->running;
	held->kind = kind;
	held->count = left;
	held->holder = !tid ? HELD_IDLE : settings.namespace_inum ? 0 : tid;
	held->name[0] = 0;
	if ((u32)FOLLOW(task, pid) == tid)
		bpf_probe_read_kernel(held->name, sizeof(held->name), __builtin_preserve_access_index(&task->comm));
}

/* An interrupt had the processor, and before it the thread that it interrupted. `ended`: how often it ended then. */
u64 keep_interrupt(u64 from, u64 until, u32 state, u64 ended)
{
	struct processor *p = this_processor();
	if (!p || !p->held)
		return 0;
	if (p->task == (u64)bpf_get_current_task_btf())
		keep_thread(from, 0);
	else
		keep_gone_thread(p, from, HOLDER_THREAD, 0);
	struct held *held = next_holder(p, until);
	if (!held)
		return 0;
	held->kind = HOLDER_STATE;
	held->holder = state;
	held->count = ended;
	held->name[0] = 0;
	return 0;
}

/*
 * Another thread runs here than we thought, which came at this moment: the switch to it did not show. A kernel may hide
 * a thread's events, the switch from it among them; the switch to it shows. So the thread that came last and has shown
 * nothing since is the hidden one, and had the processor until now. If it has shown something, one came after it of
 * which nothing is known.
 */
NOINLINE int keep_hidden_holder(struct processor *p, u64 at)
{
	if (!p->held)
		p->held = p->since;
	else if (p->task == (u64)bpf_get_current_task_btf())
		return 0;
	else if (p->running && p->held <= p->switched && (!p->thread_record || p->since <= p->switched))
		keep_gone_thread(p, at, HOLDER_HIDDEN, 1);
	else {
		keep_gone_thread(p, p->since, HOLDER_THREAD, 1);
		struct held *held = next_holder(p, at);
		if (held) {
			held->kind = HOLDER_HIDDEN;
			held->holder = 0;
			held->count = 1;
			held->name[0] = 0;
		}
	}
	return 0;
}

/* Charges the last holder but `i` with its part of the time until `until`. Returns when it came; 0: that is all. */
GLOBAL u64 charge_holder(u32 number, u64 until, u32 i)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct thread_record *record = thread_record_at(number);
	struct history *h = bpf_map_lookup_elem(&histories, &cpu);
	if (!record || !h || until <= record->since)
		return 0;
	struct held *held = &h->held[MASKED(h->next - 1 - i, N_HELD)];
	u64 since = record->since, from = held->from > since ? held->from : since;
	if (i >= h->next || i >= N_HELD || held->until < until || from > until) {
		charge_cause(record, READY, HOLDER_THREAD, HELD_FORGOTTEN, until - since, 1, NULL);
		return 0;
	}
	charge_cause(record, READY, held->kind, held->holder, until - from, held->count, held->name);
	return from > since ? from : 0;
}

/* The thread gets this processor: who had it while the thread was ready? What they are charged with is all of that time. */
NOINLINE int charge_holders(u32 number, u64 now)
{
	for (u32 i = 0; now && i <= N_HELD; i++)
		now = charge_holder(number, now, i);
	return 0;
}

#endif
