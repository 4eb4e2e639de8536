/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The history of a processor: which thread or interrupt had it, or that it was idle. It is kept if causes are recorded.
 * The history has no holes: each holder has the processor from the moment at which the holder before left it. When a
 * thread gets the processor, the time that it was ready is divided among the holders of that time. (The holder of a lock
 * is another matter: it shows as the waker of a wait, see causes.h.)
 */
#ifndef HEADWAY_HOLDERS_H
#define HEADWAY_HOLDERS_H

#include "waits/causes.h"

/*
 * Returns a new entry of the history, for the holder from the end of the last entry until this moment. NULL: there is no
 * such time.
 */
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

/* Notes the running thread, or the idle task, as the holder. `left`: 1 if it leaves now, 0 if it was only interrupted. */
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

/* Notes the expected thread as the holder. It no longer runs, so its task_struct may be gone: read it with care. */
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

/* Notes the interrupted thread as the holder until `from`, then the interrupt. `ended`: how often the interrupt ended. */
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
 * The running thread B is not the expected one, so the switch to B was hidden. B came at this moment. Kernels that hide
 * a thread H show the switch *to* H, but not the switch *from* it, nor any other event of H. So if the expected thread has
 * shown no event since it came, it is H, and had the processor until now. If it has shown an event, it is not hidden.
 * Then an unknown hidden thread came after it.
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

/*
 * Charges a holder (`i` is 0 for the last one, 1 for the one before it) with its part of the time ready from `since` until
 * `until`. Returns when this holder came: the holder before it has the time until then. Returns 0 if no time is left to
 * divide.
 */
GLOBAL u64 charge_holder(u32 number, u64 since, u64 until, u32 i)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct thread_record *record = thread_record_at(number);
	struct history *h = bpf_map_lookup_elem(&histories, &cpu);
	if (!record || !h || until <= since)
		return 0;
	struct held *held = &h->held[MASKED(h->next - 1 - i, N_HELD)];
	u64 from = held->from > since ? held->from : since;
	if (i >= h->next || i >= N_HELD || held->until < until || from > until) {
		charge_cause(record, READY, HOLDER_THREAD, HELD_FORGOTTEN, until - since, 1, NULL);
		return 0;
	}
	charge_cause(record, READY, held->kind, held->holder, until - from, held->count, held->name);
	return from > since ? from : 0;
}

/*
 * The thread gets this processor. Divides the time that it was ready among the holders; their parts add up to all of it. Of
 * the time, `throttled` comes first: mostly a thread becomes ready because of it.
 */
NOINLINE int charge_holders(u32 number, u64 throttled, u64 now)
{
	struct thread_record *record = thread_record_at(number);
	if (!record)
		return 0;
	u64 since = record->since + throttled;
	if (throttled)
		charge_cause(record, READY, HOLDER_THREAD, HELD_THROTTLED, throttled, 1, NULL);
	for (u32 i = 0; now && i <= N_HELD; i++)
		now = charge_holder(number, since, now, i);
	return 0;
}

#endif
