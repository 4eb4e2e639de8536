/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every change of state of every measured thread, counted in the kernel.
 *
 * A processor has one current state and the moment since when it is in it. Each hook charges the stretch that ends to
 * that state, in the processor's cells and in those of the thread it runs, and sets the next state. States nest (a fault
 * in a system call, a soft interrupt in it, an interrupt in that): what is interrupted is kept on a small stack, which
 * goes with the thread when it leaves the processor. A thread off the processor has its state and moment in its slot.
 * So every nanosecond of a processor, and every nanosecond of a thread, is in exactly one cell, and a context switch
 * moves no counters: it changes which slot is charged.
 *
 * Who writes what: a processor's memory only that processor; a thread's slot the processor that it runs on, otherwise
 * whoever wakes or dispatches it, which the kernel's scheduler orders (on_cpu, run queue locks). The one thing that can
 * come in between is an interrupt on the same processor while a handler is at work: see `busy`.
 *
 * Readers in user space name a moment in the future, the cut. The first handler to come after it on a processor, or to
 * touch a thread, first copies what is there; so a reader gets everything as of one instant while it all goes on.
 */
#include "kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* ---- settings ---- */

const volatile struct settings settings SEC(".rodata.settings");
volatile struct control control;

/* ---- memory ---- */

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct processor);
} processors SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct processor);
} saved_processors SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct slot);
} slots SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct record);
} saved_slots SEC(".maps");

struct {
	UINT(type, MAP_STACK);
	UINT(max_entries, 1);
	TYPE(value, u32);
} free_slots SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 4096);
} exits SEC(".maps");

struct {
	UINT(type, MAP_TASK_STORAGE);
	UINT(map_flags, F_NO_PREALLOC);
	TYPE(key, int);
	TYPE(value, u32); /* slot */
} tasks SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u32);
} selected_pids SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u32);
} selected_tids SEC(".maps");

/* ---- cells ---- */

INLINE struct processor *here(void)
{
	u32 cpu = processor_id();
	return map_lookup(&processors, &cpu);
}

INLINE struct slot *slot_at(u32 number)
{
	return map_lookup(&slots, &number);
}

INLINE void lose(struct processor *p, u32 what, u64 much)
{
	p->losses[what & (N_LOSSES - 1)] += much;
}

/* The cell for a state that the thread is in for the first time: 1 + its number. */
NOINLINE u32 new_cell(struct slot *s, u32 state)
{
	u32 used = s->used;
	if (state >= N_STATES)
		return N_CELLS;
	if (used >= N_CELLS - 1) {
		struct processor *p = here();
		if (p)
			lose(p, LOST_STATES, 1);
		if (used == N_CELLS - 1) {
			s->cells[N_CELLS - 1].count = (u64)UNKNOWN << COUNT_BITS;
			s->used = N_CELLS;
		}
		s->index[state] = N_CELLS;
		return N_CELLS;
	}
	s->cells[used & (N_CELLS - 1)].time = 0;
	s->cells[used & (N_CELLS - 1)].count = (u64)state << COUNT_BITS;
	s->used = used + 1;
	s->index[state] = used + 1;
	return used + 1;
}

INLINE void add(struct slot *s, u32 state, u64 time, u64 count)
{
	if (state >= N_STATES)
		return;
	u32 cell = s->index[state];
	if (UNLIKELY(!cell))
		cell = new_cell(s, state);
	struct cell *c = &s->cells[(cell - 1) & (N_CELLS - 1)];
	c->time += time;
	c->count += count;
}

/* The stretch that ends now goes to the state it was spent in; `left`: 1 if that is over, 0 if only interrupted. */
INLINE void charge(struct processor *p, struct slot *s, u64 now, u64 left)
{
	u32 state = p->state;
	u64 since = p->since, time = now - since;
	if (state >= N_STATES)
		return;
	p->since = now;
	p->cells[state].time += time;
	p->cells[state].count += left;
	if (settings.has_steal && time > p->longest) {
		u64 from = since > p->floor ? since : p->floor;
		if (now - from > p->longest) {
			p->longest = now - from;
			p->longest_state = state;
		}
	}
	if (s)
		add(s, state, time, left);
	p->events++;
}

/* Off the processor. */
INLINE void charge_away(struct slot *s, u64 now)
{
	if (UNLIKELY((s64)(now - s->since) < 0)) { /* opened after this handler had read its clock */
		if (s->birth == s->since)
			s->birth = now;
		s->since = now;
		return;
	}
	add(s, s->state, now - s->since, 1);
	s->since = now;
}

/* ---- interrupts that meet a handler at work ---- */

/*
 * A handler marks its processor busy from before it reads the clock until it is done. An interrupt that comes in between
 * begins and ends before the handler goes on; its time is gathered apart, and the next handler takes it over: it lies
 * after the handler's moment (or within the stretch that it has not charged yet), so it is in the stretch that is open
 * then. Each counter has one writer: `deferred` the interrupts', `absorbed` the handlers'.
 */
INLINE void defer(struct processor *p, u64 now, u64 left)
{
	u32 i = p->deferred_state - IRQ_DEVICE;
	u64 time = now - p->deferred_since;
	p->deferred_since = now;
	if (i >= N_INTERRUPTS)
		return;
	p->deferred[i].time += time;
	p->deferred[i].count += left;
	p->deferred_total += time;
}

NOINLINE int deferred_begin(struct processor *p, u32 state)
{
	if (p->busy > 1) {
		lose(p, LOST_SKIPPED, 1);
		return 0;
	}
	p->busy = 2;
	ORDER();
	u64 now = clock_ns();
	if (p->deferred_depth) {
		defer(p, now, 0);
		p->deferred_nested[p->deferred_depth & (N_NESTED - 1)] = p->deferred_state;
	}
	p->deferred_depth++;
	p->deferred_state = state;
	p->deferred_since = now;
	ORDER();
	p->busy = 1;
	return 0;
}

NOINLINE int deferred_end(struct processor *p, u32 state)
{
	if (p->busy > 1)
		return 0;
	if (!p->deferred_depth || p->deferred_state != state) {
		lose(p, LOST_UNMATCHED, 1);
		return 0;
	}
	p->busy = 2;
	ORDER();
	defer(p, clock_ns(), 1);
	p->deferred_depth--;
	p->deferred_state = p->deferred_nested[p->deferred_depth & (N_NESTED - 1)];
	ORDER();
	p->busy = 1;
	return 0;
}

/* A slot looked up where it is used: the verifier follows no pointer that may be null through a loop. */
NOINLINE int add_to(u32 number, u32 state, u64 time, u64 count)
{
	struct slot *s = slot_at(number);
	if (s)
		add(s, state, time, count);
	return 0;
}

struct absorption {
	u32 number;
	u64 total;
};

static int absorb_one(u32 i, struct absorption *a)
{
	struct processor *p = here();
	if (!p || i >= N_INTERRUPTS)
		return 1;
	u64 time = p->deferred[i].time - p->absorbed[i].time;
	u64 count = p->deferred[i].count - p->absorbed[i].count;
	if (!time && !count)
		return 0;
	p->absorbed[i].time += time;
	p->absorbed[i].count += count;
	p->cells[IRQ_DEVICE + i].time += time;
	p->cells[IRQ_DEVICE + i].count += count;
	if (a->number)
		add_to(a->number, IRQ_DEVICE + i, time, count);
	a->total += time;
	return 0;
}

NOINLINE int absorb(struct processor *p, u32 number)
{
	struct absorption a = {.number = number};
	if (p->deferred_total == p->absorbed_total)
		return 0;
	loop(N_INTERRUPTS, absorb_one, &a, 0);
	p->absorbed_total += a.total;
	p->since += a.total;
	return 0;
}

/* ---- cuts ---- */

NOINLINE int save_slot(struct slot *s, u32 number, u32 cut)
{
	u32 size = __builtin_offsetof(struct record, cells) + (s->used & 255) * sizeof(struct cell);
	struct record *copy = map_lookup(&saved_slots, &number);
	if (!copy)
		return 0;
	if (size > sizeof(struct record))
		size = sizeof(struct record);
	copy->cut = 0;
	ORDER();
	if (s->cpu) { /* running: its state and moment are the processor's */
		u32 cpu = s->cpu - 1;
		struct processor *p = map_lookup(&processors, &cpu);
		if (p) {
			s->since = p->since;
			s->state = p->state;
			s->depth = p->depth;
			__builtin_memcpy(s->nested, p->nested, sizeof(s->nested));
		}
	}
	read_kernel(copy, size, s);
	ORDER();
	copy->cut = s->cut = cut;
	return 0;
}

/* The first handler since a cut was announced: false if the time for measuring is over. */
NOINLINE int cross(struct processor *p, u32 number, u64 now)
{
	u32 cut = control.cut; /* before its moment, which is announced first: the next one may be announced meanwhile */
	ORDER();
	if (now < control.cut_at)
		return true;
	if (control.last)
		return false;
	if (!settings.intervals) {
		p->cut = cut;
		return true;
	}
	/* Interrupts that came while the last handler was at work, before the cut, belong before it. */
	if (p->deferred_since < control.cut_at)
		absorb(p, number);
	struct slot *s = number ? slot_at(number) : NULL;
	if (s && s->cut != cut)
		save_slot(s, number, cut);
	u32 cpu = processor_id();
	struct processor *copy = map_lookup(&saved_processors, &cpu);
	if (copy) {
		copy->cut = 0;
		ORDER();
		read_kernel(copy, sizeof(*copy), p);
		ORDER();
		copy->cut = cut;
	}
	p->cut = cut;
	p->floor = control.cut_at;
	p->longest = 0;
	return true;
}

INLINE bool over(u64 now)
{
	return control.last && now >= control.cut_at;
}

INLINE void save_if_due(struct slot *s, u32 number, u64 now)
{
	if (!settings.intervals)
		return;
	u32 cut = control.cut;
	ORDER();
	if (UNLIKELY(s->cut != cut) && now >= control.cut_at)
		save_slot(s, number, cut);
}

/* ---- which thread ---- */

INLINE bool in_namespace(struct task_struct *task, u32 *tid, u32 *pid)
{
	struct {
		s32 nr;
		u32 hole;
		struct pid_namespace *ns;
	} number = {};
	if (!settings.namespace_inum) { /* the initial one */
		*tid = task->pid;
		*pid = task->tgid;
		return true;
	}
	struct pid *ids = task->thread_pid;
	u32 level = control.namespace_level;
	if (!ids || !level || ids->level < level)
		return false;
	read_kernel(&number, sizeof(number), (char *)&ids->numbers[0] + level * sizeof(number));
	struct pid_namespace *space = number.ns;
	if (FOLLOW(space, ns.inum) != settings.namespace_inum)
		return false;
	*tid = number.nr;
	struct task_struct *leader = task->group_leader;
	ids = leader->thread_pid;
	if (!ids)
		return false;
	read_kernel(&number, sizeof(number), (char *)&ids->numbers[0] + level * sizeof(number));
	*pid = number.nr;
	return true;
}

INLINE bool name_matches(const char *comm)
{
	for (u32 i = 0; i < 16; i++) {
		if (i >= settings.name_length)
			return settings.name_prefix || comm[i] == 0;
		if (comm[i] != settings.name[i])
			return false;
	}
	return true;
}

/* In a cgroup namespace, whose root is some levels down, the reader sees fewer levels than there are. */
INLINE bool in_cgroup(struct task_struct *task)
{
	struct css_set *set = task->cgroups;
	struct cgroup *group = set->dfl_cgrp, *ancestor = NULL;
	u32 level = settings.cgroup_level & 0xff;
	if (!group)
		return false;
	if (FIELD_EXISTS(group->ancestors)) {
		for (u32 i = 0; i < 16 && (u32)group->level >= level + i; i++) {
			read_kernel(&ancestor, sizeof(ancestor), (char *)&group->ancestors[0] + (level + i) * sizeof(ancestor));
			struct kernfs_node *node = FOLLOW(ancestor, kn);
			if (FOLLOW(node, id) == settings.cgroup)
				return true;
		}
		return false;
	}
	struct cgroup___ids *old = (void *)group;
	for (u32 i = 0; i < 16 && (u32)group->level >= level + i; i++) {
		u64 id = 0;
		read_kernel(&id, sizeof(id), (char *)&old->ancestor_ids[0] + (level + i) * sizeof(id));
		if (id == settings.cgroup)
			return true;
	}
	return false;
}

INLINE bool selected(struct task_struct *task, u32 tid, u32 pid)
{
	if (control.only)
		return tid == control.only;
	if (settings.everything)
		return true;
	if (settings.cgroup && in_cgroup(task))
		return true;
	if (settings.name_length) {
		char comm[16];
		read_kernel(comm, sizeof(comm), &task->comm);
		if (name_matches(comm))
			return true;
	}
	return map_lookup(&selected_pids, &pid) || map_lookup(&selected_tids, &tid);
}

INLINE u32 slot_of(struct task_struct *task)
{
	u32 *number = task_storage(&tasks, task, NULL, 0);
	return number ? *number : 0;
}

/* The state of a thread that is in the kernel for this call. */
INLINE u32 call_state(long call)
{
	return (u64)call < N_CALLS ? KERNEL_CALL + (u32)call : KERNEL_OTHER;
}

/* What a thread does on the processor when nothing else is known: from the registers with which it entered the kernel. */
INLINE u32 state_by_registers(struct task_struct *task)
{
	if (task->flags & (PF_KTHREAD | PF_WORKER))
		return KERNEL_THREAD;
	struct pt_regs *regs = task_registers(task);
	long call = CALL_IN_PROGRESS(regs);
	if (call < 0 || call > 0xffff) /* interrupt vectors stand there complemented: not a call */
		return USER;
	if (COMPAT_CALL(regs))
		call = (u64)call < N_CALLS ? settings.compat_call[call] : N_CALLS;
	return call_state(call);
}

/* Begin measuring a thread: its slot's number, 0 if that is not possible or it is not of our pid namespace. */
NOINLINE u32 open(struct task_struct *task, u32 state, u32 resume, u32 flags)
{
	u32 number = 0, tid = 0, pid = 0;
	struct processor *p = here();
	if (!p || !in_namespace(task, &tid, &pid))
		return 0;
	u32 *stored = task_storage(&tasks, task, NULL, STORAGE_CREATE);
	if (!stored) {
		lose(p, LOST_STORAGE, 1);
		return 0;
	}
	if (*stored)
		return *stored;
	if (map_pop(&free_slots, &number)) {
		number = 0;
		if (control.slots < settings.max_slots - 1)
			number = __sync_fetch_and_add(&control.slots, 1) + 1;
		if (!number || number >= settings.max_slots) {
			lose(p, LOST_THREADS, 1);
			return 0;
		}
	}
	struct slot *s = slot_at(number);
	if (!s)
		return 0;
	s->end = 0;
	s->tid = tid;
	s->pid = pid;
	s->cpu = 0;
	s->state = state;
	s->resume = resume;
	s->depth = 0;
	s->flags = flags | (task->flags & PF_KTHREAD ? SLOT_KERNEL_THREAD : 0);
	s->runtime = 0;
	s->runtime_before = task->se.sum_exec_runtime;
	read_kernel(s->name, sizeof(s->name), &task->comm);
	u64 now = clock_ns(); /* finding room may have taken a while */
	s->cut = control.cut - (now < control.cut_at); /* born after the cut: not part of it */
	s->since = now;
	ORDER();
	s->birth = now;
	*stored = number;
	return number;
}

/* When the running thread came onto this processor, on our clock: from the run queue's clock then and at our last switch. */
INLINE u64 arrival(struct processor *p, struct task_struct *task, u64 now)
{
	u64 at = p->since;
	if (FIELD_EXISTS(task->sched_info.last_arrival) && p->switched == at) {
		s64 later = task->sched_info.last_arrival - p->switched_clock;
		if (later > 0)
			at += later;
	}
	if (settings.intervals && at < control.cut_at && control.cut_at <= now) /* what a reader has been told stands */
		at = control.cut_at;
	return at > now ? now : at;
}

/*
 * A kernel may keep some threads from being traced (a hypervisor's agent, say): their own events do not show, nor does
 * the switch from them to the next thread. Then the thread we took for running has left unseen.
 */
NOINLINE int left_unseen(struct processor *p, u32 number, u64 now)
{
	struct slot *s = slot_at(number);
	u64 at = arrival(p, current_task(), now);
	if (!s)
		return 0;
	u64 cut = control.cut_at;
	u32 state = p->state;
	lose(p, LOST_SWITCHES, 1);
	if (settings.intervals && p->since < cut && cut <= at && state < N_STATES) { /* as a reader has been told */
		add(s, state, cut - p->since, 0);
		p->cells[state].time += cut - p->since;
		p->since = cut;
	}
	add(s, UNKNOWN, at - p->since, 1);
	p->cells[UNKNOWN].time += at - p->since;
	p->since = at;
	p->longest = 0;
	s->since = at;
	s->state = UNKNOWN;
	ORDER();
	s->cpu = 0;
	return 0;
}

/*
 * Which thread runs here? Asked when measuring begins, when a thread was opened while it ran, and at the first event
 * after a switch to a thread that is not measured. What it does has been so for the whole stretch that is open, because
 * what ends a stretch is a handler, and none came.
 */
NOINLINE u32 look(struct processor *p, u64 now, u32 state)
{
	struct task_struct *task = current_task();
	u32 number = task->pid ? slot_of(task) : 0;
	u32 cpu = processor_id();
	p->task = (u64)task;
	if (settings.some_cpus && !p->selected)
		number = 0;
	struct slot *s = number ? slot_at(number) : NULL;
	if (!s) {
		u32 before = p->state, state_now = task->pid ? UNMEASURED : IDLE;
		if (before < N_STATES && before != state_now) {
			u64 at = arrival(p, task, now);
			p->cells[before].time += at - p->since;
			p->since = at;
			p->longest = 0;
		}
		p->state = state_now;
		p->depth = 0;
		p->slot = 0;
		return 0;
	}
	if (s->cpu != cpu + 1) {
		u64 from = arrival(p, task, now);
		if (s->since > from)
			from = s->since;
		if (from > now)
			from = now;
		save_if_due(s, number, now);
		if (from > s->since)
			add(s, s->state, from - s->since, 1);
		if (p->state < N_STATES && from > p->since) { /* before it came, or was opened */
			u32 before = p->state == UNKNOWN && !control.cut ? UNMEASURED : p->state;
			if (before < N_STATES)
				p->cells[before].time += from - p->since;
		}
		s->since = p->since = from;
		p->longest = 0; /* that was somebody else's */
		s->cpu = cpu + 1;
		p->state = state ? state : state_by_registers(task);
		p->depth = 0;
	}
	p->slot = number;
	return number;
}

/* ---- what was stolen ---- */

/*
 * The kernel learns from the hypervisor how long the processor was away, at each tick and each switch. That time lies in
 * the stretches since the last look, and it made the one that it hit long: it is taken out of the longest. The run queue
 * is reached through the running thread, because not every kernel lists its per-processor symbols.
 */
INLINE void take_stolen(struct processor *p, struct slot *s, struct task_struct *running, bool last)
{
	if (!settings.has_steal || !FIELD_EXISTS(running->se.cfs_rq) || !FIELD_EXISTS(running->se.cfs_rq->rq->prev_steal_time_rq))
		return;
	struct rq *queue = running->se.cfs_rq->rq;
	u64 steal = queue->prev_steal_time_rq, time = steal - p->steal;
	if (UNLIKELY(time | p->debt)) {
		u32 state = p->longest_state;
		p->steal = steal;
		if (!p->steal_known)
			p->steal_known = 1; /* all since boot */
		else
			p->debt += time;
		time = p->debt < p->longest ? p->debt : p->longest;
		if (time && state < N_STATES) {
			p->debt -= time;
			p->cells[state].time -= time;
			p->cells[STOLEN].time += time;
			p->cells[STOLEN].count++;
			if (s) {
				add(s, state, -time, 0);
				add(s, STOLEN, time, 1);
			}
		}
		if (last && p->debt) { /* the thread leaves: nothing of it is left to take from */
			lose(p, LOST_STEAL, p->debt);
			p->debt = 0;
		}
	}
	p->longest = 0;
}

/* ---- the frame of a handler ---- */

enum { NOT_NOW = 0xfffffffe };

/* What is seldom to be done before a handler's work: the slot to charge, or NOT_NOW. */
NOINLINE u32 prepare(struct processor *p, u32 state)
{
	u32 number = p->slot;
	u64 now = clock_ns();
	if (!p->since || (s64)(now - p->since) < 0 || over(now))
		return NOT_NOW;
	if (number == SLOT_UNSEEN)
		number = 0;
	if (p->cut != control.cut && !cross(p, number, now))
		return NOT_NOW;
	absorb(p, number);
	if (p->slot == SLOT_UNSEEN || p->task != (u64)current_task()) {
		now = clock_ns();
		if (number)
			left_unseen(p, number, now);
		number = look(p, now, state);
	}
	return number;
}

/* Charges what ends now. False: nothing is measured here, or not yet, or no more. */
INLINE bool begin(struct processor *p, struct slot **s, u64 *at, u32 state, u64 left)
{
	u32 number = p->slot;
	u64 now = clock_ns();
	ORDER();
	/* An interrupt deferred before the clock was read is taken over first; one that comes later is the next handler's. */
	for (u32 tries = 0; tries < 3; tries++) {
		if (LIKELY(number != SLOT_UNSEEN && p->task == (u64)current_task()) &&
		    LIKELY(p->deferred_total == p->absorbed_total) &&
		    LIKELY(p->cut == control.cut || now < control.cut_at))
			break;
		number = prepare(p, state);
		if (number == NOT_NOW)
			return false;
		now = clock_ns();
		ORDER();
	}
	*s = number ? slot_at(number) : NULL;
	charge(p, *s, now, left);
	*at = now;
	return true;
}

#define ENTER(p)    \
	(p)->busy = 1;  \
	ORDER()
#define LEAVE(p)    \
	ORDER();        \
	(p)->busy = 0

INLINE bool push(struct processor *p, u32 state)
{
	u32 depth = p->depth;
	if (depth >= N_NESTED) {
		p->overflow++;
		lose(p, LOST_NESTED, 1);
		return false;
	}
	p->nested[depth & (N_NESTED - 1)] = p->state;
	p->depth = depth + 1;
	p->state = state;
	return true;
}

INLINE void pop(struct processor *p)
{
	u32 depth = p->depth - 1;
	if (!p->depth) /* looking who runs here has emptied the stack meanwhile */
		return;
	p->depth = depth;
	p->state = p->nested[depth & (N_NESTED - 1)];
}

/* A state that ends while another one interrupts it, or with its thread, was entered too. */
INLINE void count_last(struct processor *p, struct slot *s, u32 state)
{
	if (state < N_STATES)
		p->cells[state].count++;
	add(s, state, 0, 1);
}

/* ---- system calls ---- */

SEC("tp_btf/sys_enter")
int enter_call(u64 *ctx)
{
	struct processor *p = here();
	struct slot *s;
	u64 now;
	if (!p || !p->slot)
		return 0;
	ENTER(p);
	if (begin(p, &s, &now, USER, 1) && s) {
		struct pt_regs *regs = (void *)ctx[0];
		long call = ctx[1];
		if (UNLIKELY(COMPAT_CALL(regs)))
			call = (u64)call < N_CALLS ? settings.compat_call[call] : N_CALLS;
		if (UNLIKELY(p->depth))
			count_last(p, s, p->nested[0]);
		p->depth = 0;
		p->state = call_state(call);
	}
	LEAVE(p);
	return 0;
}

SEC("tp_btf/sys_exit")
int leave_call(u64 *ctx)
{
	struct processor *p = here();
	struct slot *s;
	u64 now;
	(void)ctx;
	if (!p || !p->slot)
		return 0;
	ENTER(p);
	if (begin(p, &s, &now, 0, 1) && s) {
		if (UNLIKELY(p->depth)) /* in a fault that is never done: the call fails with EFAULT */
			count_last(p, s, p->nested[0]);
		p->depth = 0;
		p->state = USER;
	}
	LEAVE(p);
	return 0;
}

/* ---- the scheduler ---- */

/* Why the thread that leaves the processor waits, from the file that its system call is about. */
INLINE u32 wait_by_file(struct task_struct *task)
{
	struct pt_regs *regs = task_registers(task);
	u32 number = FIRST_ARGUMENT(regs);
	struct files_struct *files = task->files;
	if (!files)
		return WAIT_FILE;
	struct fdtable *table = files->fdt;
	struct file *file = NULL;
	if (!table || number >= table->max_fds)
		return WAIT_FILE;
	struct file **entries = table->fd;
	read_kernel(&file, sizeof(file), (char *)entries + (u64)number * sizeof(file));
	struct inode *inode = FOLLOW(file, f_inode);
	switch (FOLLOW(inode, i_mode) & MODE_TYPE) {
	case MODE_FIFO:
		return WAIT_PIPE;
	case MODE_SOCKET:
		return WAIT_NET;
	case MODE_REGULAR:
	case MODE_BLOCK:
		return WAIT_DISK;
	}
	return WAIT_FILE;
}

INLINE u32 wait_state(struct task_struct *task, u32 doing)
{
	bool disk = BITFIELD(task, in_iowait);
	if (doing == KERNEL_FAULT)
		return WAIT_FAULT;
	if (doing >= KERNEL_CALL && doing < WAIT_CALL) {
		u32 call = doing - KERNEL_CALL, reason = settings.wait_of[call & (N_CALLS - 1)];
		if (reason == WAIT_IO_URING)
			return reason;
		if (disk)
			return WAIT_DISK;
		if (reason == WAIT_BY_FILE)
			return wait_by_file(task);
		return reason ? reason : WAIT_CALL + call;
	}
	if (disk)
		return WAIT_DISK;
	return doing == KERNEL_THREAD ? WAIT_KTHREAD : WAIT_OTHER;
}

static int forget_cell(u32 i, u32 *number)
{
	struct slot *s = slot_at(*number);
	if (!s || i >= N_CELLS)
		return 1;
	u32 state = s->cells[i].count >> COUNT_BITS;
	if (state < N_STATES)
		s->index[state] = 0;
	return 0;
}

static int forget_state(u32 i, u32 *number)
{
	struct slot *s = slot_at(*number);
	if (!s || i >= N_STATES)
		return 1;
	s->index[i] = 0;
	return 0;
}

/* The thread's totals go to the reader, its slot to the next one. */
NOINLINE int close(struct processor *p, struct slot *s, u32 number, u64 now)
{
	u32 used = s->used, size = __builtin_offsetof(struct record, cells) + (used & 255) * sizeof(struct cell);
	if (size > sizeof(struct record))
		size = sizeof(struct record);
	s->end = now;
	/* Wake the reader for a good load, not for each. */
	u64 flags = ring_query(&exits, RING_AVAILABLE) > (1 << 20) ? RING_FORCE_WAKEUP : RING_NO_WAKEUP;
	if (ring_output(&exits, s, size, flags))
		lose(p, LOST_EXITS, 1);
	/* States that share the last cell are not listed in it. */
	if (used == N_CELLS)
		loop(N_STATES, forget_state, &number, 0);
	else
		loop(used, forget_cell, &number, 0);
	s->used = 0;
	s->birth = 0;
	map_push(&free_slots, &number, 0);
	return 0;
}

SEC("tp_btf/sched_switch")
int switch_threads(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct processor *p = here();
	struct slot *s;
	u64 now;
	if (!p || !p->since)
		return 0;
	ENTER(p);
	u32 number = p->slot;
	if (!begin(p, &s, &now, 0, number == 0))
		goto out;
	number = p->slot;
	take_stolen(p, s, prev, true);
	u32 why;
	if (settings.has_prev_state)
		why = ctx[3];
	else
		why = prev->__state;
	if (s) {
		bool preempted = ctx[0];
		s->resume = p->state;
		s->depth = p->depth;
		__builtin_memcpy(s->nested, p->nested, sizeof(s->nested));
		s->since = now;
		s->runtime = prev->se.sum_exec_runtime - s->runtime_before;
		if (preempted || !why)
			s->state = READY;
		else if (why & (TASK_STATE_STOPPED | TASK_STATE_TRACED))
			s->state = STOPPED;
		else if (!(why & TASK_STATE_DEAD))
			s->state = wait_state(prev, p->state);
		ORDER();
		s->cpu = 0;
		if (!preempted && (why & TASK_STATE_DEAD)) {
			u32 *stored = task_storage(&tasks, prev, NULL, 0);
			if (stored)
				*stored = 0;
			count_last(p, s, s->resume);
			close(p, s, number, now);
		}
	} else if (settings.some_cpus && !p->selected && prev->pid) {
		number = slot_of(prev);
		s = number ? slot_at(number) : NULL;
		if (s && !s->cpu) {
			bool preempted = ctx[0];
			save_if_due(s, number, now);
			charge_away(s, now);
			s->state = preempted || !why ? READY : why & 12 ? STOPPED : wait_state(prev, s->resume);
			if (!preempted && (why & TASK_STATE_DEAD)) {
				u32 *stored = task_storage(&tasks, prev, NULL, 0);
				if (stored)
					*stored = 0;
				close(p, s, number, now);
			}
		}
	}
	number = next->pid ? slot_of(next) : 0;
	s = number ? slot_at(number) : NULL;
	p->slot = next->pid && !s ? SLOT_UNSEEN : 0; /* see who is there at its first event, if it has any */
	p->depth = 0;
	p->state = next->pid ? UNMEASURED : IDLE;
	p->task = (u64)next;
	p->switched = now;
	if (FIELD_EXISTS(prev->se.cfs_rq) && FIELD_EXISTS(prev->sched_info.last_arrival))
		p->switched_clock = prev->se.cfs_rq->rq->clock;
	if (s) {
		save_if_due(s, number, now);
		charge_away(s, now);
		if (settings.some_cpus && !p->selected) {
			s->state = ELSEWHERE;
			p->slot = SLOT_UNSEEN;
		} else {
			s->cpu = processor_id() + 1;
			p->slot = number;
			p->state = s->resume;
			p->depth = s->depth;
			__builtin_memcpy(p->nested, s->nested, sizeof(p->nested));
		}
	}
out:
	LEAVE(p);
	return 0;
}

/* Threads that the kernel makes for a process (io_uring's workers) are not forked: they first show when they are woken. */
NOINLINE u32 new_worker(struct task_struct *task)
{
	u32 tid = 0, pid = 0;
	if (!(task->flags & PF_WORKER) || over(clock_ns()))
		return 0;
	bool measure = settings.follow && slot_of(current_task());
	if (!measure && (settings.everything || settings.cgroup))
		measure = in_namespace(task, &tid, &pid) && selected(task, tid, pid);
	return measure ? open(task, READY, KERNEL_THREAD, SLOT_NEW) : 0;
}

INLINE int woken(struct task_struct *task, bool new)
{
	struct processor *p = here();
	if (!p || !p->since)
		return 0;
	u32 number = slot_of(task);
	if (new && UNLIKELY(!number))
		number = new_worker(task);
	struct slot *s = number ? slot_at(number) : NULL;
	if (!s || s->cpu)
		return 0;
	u64 now = clock_ns();
	if (over(now))
		return 0;
	if (new) {
		if (s->flags & SLOT_NEW) {
			s->since = now;
			s->birth = now;
			s->flags &= ~SLOT_NEW;
			s->cut = control.cut - (now < control.cut_at);
		}
		return 0;
	}
	if (s->state == READY || s->state == ELSEWHERE || (s->state == UNKNOWN && task->on_cpu))
		return 0;
	save_if_due(s, number, now);
	charge_away(s, now);
	s->state = READY;
	p->events++;
	return 0;
}

SEC("tp_btf/sched_wakeup")
int wake(u64 *ctx)
{
	return woken((void *)ctx[0], false);
}

SEC("tp_btf/sched_wakeup_new")
int wake_new(u64 *ctx)
{
	return woken((void *)ctx[0], true);
}

/* ---- threads that come and change ---- */

SEC("tp_btf/sched_process_fork")
int fork_thread(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	struct processor *p = here();
	u32 tid = 0, pid = 0;
	if (!p || !p->since)
		return 0;
	if (over(clock_ns()))
		return 0;
	bool measure = settings.follow && slot_of(parent);
	if (!measure && (settings.everything || settings.cgroup || settings.name_length))
		measure = in_namespace(child, &tid, &pid) && selected(child, tid, pid);
	if (measure) /* it will go on with the end of the call that created it */
		open(child, READY, state_by_registers(child), SLOT_NEW);
	return 0;
}

/* A thread to be measured from now on, while it runs here or elsewhere. */
INLINE void open_running(struct task_struct *task)
{
	struct processor *p = here();
	if (open(task, UNKNOWN, state_by_registers(task), 0) && p && task->pid == current_task()->pid)
		p->slot = SLOT_UNSEEN;
}

SEC("tp_btf/sched_process_exec")
int exec_program(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct processor *p = here();
	u32 number, tid = 0, pid = 0;
	if (!p || !p->since)
		return 0;
	if (over(clock_ns()))
		return 0;
	number = slot_of(task);
	if (!number) {
		if (!in_namespace(task, &tid, &pid))
			return 0;
		if ((control.command && control.command == tid) || (settings.name_length && selected(task, tid, pid))) {
			control.command = 0;
			open_running(task);
		}
		return 0;
	}
	struct slot *s = slot_at(number);
	if (s && in_namespace(task, &tid, &pid)) { /* the thread that executes becomes the leader, with its id */
		s->tid = tid;
		s->pid = pid;
		read_kernel(s->name, sizeof(s->name), &task->comm);
	}
	return 0;
}

SEC("tp_btf/task_rename")
int rename_thread(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	const char *comm = (void *)ctx[1];
	struct processor *p = here();
	if (!p || !p->since)
		return 0;
	u32 number = slot_of(task);
	struct slot *s = number ? slot_at(number) : NULL;
	if (s) {
		read_kernel(s->name, sizeof(s->name), comm);
	} else if (settings.name_length) {
		char fresh[16] = {};
		read_kernel(fresh, sizeof(fresh), comm);
		if (name_matches(fresh) && !control.only && !over(clock_ns()))
			open_running(task);
	}
	return 0;
}

SEC("tp_btf/cgroup_attach_task")
int enter_cgroup(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[2];
	struct processor *p = here();
	if (!p || !p->since || !settings.cgroup)
		return 0;
	if (!control.only && !over(clock_ns()) && !slot_of(task) && in_cgroup(task))
		open_running(task);
	return 0;
}

/* ---- faults ---- */

INLINE int begin_fault(void)
{
	struct processor *p = here();
	struct slot *s;
	u64 now;
	if (!p || !p->slot || p->busy)
		return 0;
	ENTER(p);
	if (begin(p, &s, &now, 0, p->state == KERNEL_FAULT) && s && p->state != KERNEL_FAULT)
		push(p, KERNEL_FAULT);
	LEAVE(p);
	return 0;
}

SEC("tp_btf/page_fault_user")
int fault_in_user(u64 *ctx)
{
	(void)ctx;
	return begin_fault();
}

SEC("tp_btf/page_fault_kernel")
int fault_in_kernel(u64 *ctx)
{
	if ((s64)ctx[0] < 0 || current_task()->pagefault_disabled) /* not one that the memory manager will handle */
		return 0;
	return begin_fault();
}

INLINE int end_fault(void)
{
	struct processor *p = here();
	struct slot *s;
	u64 now;
	if (!p || !p->slot || p->state != KERNEL_FAULT || !p->depth || p->busy)
		return 0;
	ENTER(p);
	if (begin(p, &s, &now, 0, 1))
		pop(p);
	LEAVE(p);
	return 0;
}

/* Software events that the memory manager counts when it is done (mm_account_fault): there is no tracepoint at the end. */
SEC("perf_event")
int fault_done(void *ctx)
{
	(void)ctx;
	return end_fault();
}

/* A fault that ends in a signal is never done. */
SEC("tp_btf/signal_deliver")
int deliver_signal(u64 *ctx)
{
	(void)ctx;
	return end_fault();
}

/* ---- interrupts ---- */

INLINE int begin_interrupt(u32 state)
{
	struct processor *p = here();
	struct slot *s;
	u64 now;
	if (!p || !p->since)
		return 0;
	if (UNLIKELY(p->busy))
		return deferred_begin(p, state);
	ENTER(p);
	if (begin(p, &s, &now, 0, 0))
		push(p, state);
	LEAVE(p);
	return 0;
}

INLINE int end_interrupt(u32 state)
{
	struct processor *p = here();
	struct slot *s;
	u64 now;
	if (!p || !p->since)
		return 0;
	if (UNLIKELY(p->busy))
		return deferred_end(p, state);
	if (UNLIKELY(p->overflow)) {
		p->overflow--;
		return 0;
	}
	if (UNLIKELY(p->state != state || !p->depth)) {
		if (p->slot != SLOT_UNSEEN && !control.last) /* it began before or after the time for measuring */
			lose(p, LOST_UNMATCHED, 1);
		return 0;
	}
	ENTER(p);
	if (begin(p, &s, &now, 0, 1)) {
		pop(p);
		if (state == IRQ_TIMER)
			take_stolen(p, s, current_task(), false);
	}
	LEAVE(p);
	return 0;
}

#define INTERRUPT(tracepoint, state)     \
	SEC("tp_btf/" #tracepoint "_entry")  \
	int tracepoint##_begin(u64 *ctx)     \
	{                                    \
		(void)ctx;                       \
		return begin_interrupt(state);   \
	}                                    \
	SEC("tp_btf/" #tracepoint "_exit")   \
	int tracepoint##_end(u64 *ctx)       \
	{                                    \
		(void)ctx;                       \
		return end_interrupt(state);     \
	}

INTERRUPT(irq_handler, IRQ_DEVICE)
INTERRUPT(softirq, SOFTIRQ + (ctx[0] < N_SOFTIRQS ? (u32)ctx[0] : 0))
INTERRUPT(local_timer, IRQ_TIMER)
INTERRUPT(reschedule, IRQ_RESCHEDULE)
INTERRUPT(call_function, IRQ_CALL_FUNCTION)
INTERRUPT(call_function_single, IRQ_CALL_FUNCTION_SINGLE)
INTERRUPT(irq_work, IRQ_WORK)
INTERRUPT(thermal_apic, IRQ_THERMAL)
INTERRUPT(threshold_apic, IRQ_THRESHOLD)
INTERRUPT(error_apic, IRQ_ERROR)
INTERRUPT(spurious_apic, IRQ_SPURIOUS)
INTERRUPT(deferred_error_apic, IRQ_DEFERRED_ERROR)
INTERRUPT(x86_platform_ipi, IRQ_PLATFORM)
INTERRUPT(ipi, IRQ_IPI)

/* ---- threads that are alive when measuring begins ---- */

SEC("iter/task")
int open_living(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u32 tid = 0, pid = 0;
	if (settings.namespace_inum && !control.namespace_level) { /* the reader runs this, in its namespace */
		struct pid *own = current_task()->thread_pid;
		if (own)
			control.namespace_level = own->level;
	}
	if (!task || !task->pid || !in_namespace(task, &tid, &pid) || !selected(task, tid, pid) || slot_of(task))
		return 0;
	/* Before its first event nothing is known, unless it sleeps or waits for a processor: then it says so itself. */
	u32 resume = state_by_registers(task);
	u32 number = open(task, UNKNOWN, resume, 0);
	struct slot *s = number ? slot_at(number) : NULL;
	if (!s || task->on_cpu)
		return 0;
	u32 why = task->__state, state;
	if (!why || task->on_rq)
		state = READY;
	else if (why & (TASK_STATE_STOPPED | TASK_STATE_TRACED))
		state = STOPPED;
	else
		state = wait_state(task, resume);
	if (s->cpu || s->state != UNKNOWN || task->on_cpu || task->__state != why)
		return 0;
	/* One word holds both halves: if a handler changed it in between, its word stands. */
	__sync_val_compare_and_swap((u32 *)&s->state, UNKNOWN | resume << 16, state | resume << 16);
	return 0;
}
