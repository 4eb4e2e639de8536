/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every change of state of every measured thread, counted in the kernel.
 *
 * A processor has one current state and the moment since when it is in it. Each hook charges the span that ends to
 * that state, in the processor's cells and in those of the thread it runs, and sets the next state. States nest (a fault
 * in a system call, a soft interrupt in it, an interrupt in that): what is interrupted is kept on a small stack, which
 * goes with the thread when it leaves the processor. A thread off the processor has its state and moment in its thread
 * record. So every nanosecond of a processor, and every nanosecond of a thread, is in exactly one cell. A context switch
 * moves no counters: it changes which thread record is charged.
 *
 * Who writes what: a processor's memory only that processor; a thread's record the processor that it runs on, otherwise
 * whoever wakes or dispatches it, which the kernel's scheduler orders (on_cpu, run queue locks). The one thing that can
 * come in between is an interrupt on the same processor while a handler is at work: see `busy`.
 *
 * Readers in user space announce a snapshot: a moment in the near future. The first handler after it, on each processor
 * and for each thread, copies what is there before it changes anything. So a reader gets everything as of one moment,
 * while the programs under measurement go on.
 */
#include "causes.h"
#include "frame.h"
#include "polling.h"
#include "regions.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* ---- system calls ---- */

SEC("tp_btf/sys_enter")
int handle_sys_enter(u64 *ctx)
{
	struct processor *p = here();
	struct thread_record *s;
	u64 now;
	if (!p || !p->thread_record)
		return 0;
	ENTER(p);
	if (begin(p, &s, &now, AT_ENTER, USER, 1) && s) {
		struct pt_regs *regs = (void *)ctx[0];
		long call = ctx[1];
		u32 check = 0, state = 0;
		if (UNLIKELY(COMPAT_CALL(regs)))
			call = (u64)call < N_CALLS ? settings.compat_call[call] : N_CALLS;
		else if ((u64)call < N_CALLS)
			check = settings.check_of[call];
		if (UNLIKELY(is_probe(call))) /* our own doing: it ends no row of checks */
			state = OVERHEAD;
		else if (UNLIKELY(check | s->asked)) {
			if (s->asked || settings.checks[MASKED(check - 1, N_CHECKS)].if_no_time)
				state = ask(p->thread_record, check, now);
			else
				ask_later(s, check);
			p->tax += control.after[AT_ASK];
		}
		if (UNLIKELY(call == CALL_PRCTL) && (u32)argument(regs, 1) == REGISTER_CALL)
			register_block(p->thread_record, argument(regs, 2));
		if (UNLIKELY(p->depth))
			count_last(p, s, p->nested[0]);
		p->depth = 0;
		p->state = state ? state : call_state(call);
	}
	LEAVE(p);
	return 0;
}

SEC("tp_btf/sys_exit")
int handle_sys_exit(u64 *ctx)
{
	struct processor *p = here();
	struct thread_record *s;
	u64 now;
	if (!p || !p->thread_record)
		return 0;
	ENTER(p);
	if (begin(p, &s, &now, AT_LEAVE, 0, 1) && s) {
		if (UNLIKELY(p->depth)) /* in a fault that is never done: the call fails with EFAULT */
			count_last(p, s, p->nested[0]);
		else if (UNLIKELY(s->asking)) {
			if (s->asks || (s64)ctx[1] <= 0) {
				answer(p->thread_record, now, ctx[1]);
				p->tax += control.after[AT_ANSWER];
			}
			s->asking = 0;
		}
		p->depth = 0;
		p->state = s->user;
	}
	LEAVE(p);
	return 0;
}

/* ---- the scheduler ---- */

INLINE void stolen_by_now(
	void *ctx, struct processor *p, struct thread_record *s, struct task_struct *running, bool last)
{
	u64 before = p->cells[STOLEN].time;
	take_stolen(p, s, running, last);
	if (settings.stacks && s && UNLIKELY(p->cells[STOLEN].time != before))
		note_stolen(ctx, s, p->cells[STOLEN].time - before);
}

/* Why the thread that leaves the processor waits, from the file that its system call is about. */
INLINE u32 wait_by_file(struct task_struct *task)
{
	switch (file_kind(file_of(task, argument(bpf_task_pt_regs(task), 1)))) {
	case FILE_PIPE:
		return WAIT_PIPE;
	case FILE_SOCKET:
		return WAIT_NET;
	case FILE_DISK:
		return WAIT_DISK;
	}
	return WAIT_FILE;
}

INLINE u32 wait_state(struct task_struct *task, u32 doing)
{
	bool disk = BITFIELD(task, in_iowait);
	if (doing == KERNEL_FAULT)
		return WAIT_FAULT;
	if (doing >= POLL && doing < TAG)
		doing = KERNEL_CALL + settings.checks[MASKED((doing - POLL) / N_FILES, N_CHECKS)].call;
	if (doing >= KERNEL_CALL && doing < WAIT_CALL) {
		u32 call = doing - KERNEL_CALL, reason = settings.wait_of[MASKED(call, N_CALLS)];
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

u64 forget_cell(u32 number, u32 cell)
{
	struct thread_record *s = thread_record_at(number);
	if (!s)
		return 0;
	*index_of(s, s->cells[MASKED(cell, N_CELLS)].count >> COUNT_BITS) = 0;
	return 0;
}

u64 forget_states(u32 number)
{
	struct thread_record *s = thread_record_at(number);
	if (!s)
		return 0;
	for (u32 i = 0; i < N_STATES; i++) {
		s->index[i] = 0;
		ORDER(); /* or else the compiler calls memset, which there is not */
	}
	return 0;
}

/* The thread's totals go to the reader, its thread record to the next one. */
NOINLINE int close(struct processor *p, struct thread_record *s, u32 number, u64 now)
{
	u32 used = s->used, size = __builtin_offsetof(struct thread_snapshot, cells) + (used & 255) * sizeof(struct cell);
	if (size > sizeof(struct thread_snapshot))
		size = sizeof(struct thread_snapshot);
	s->end = now;
	if (settings.n_counted)
		send_counts(number);
	/* Wake the reader for a good load, not for each. */
	u64 flags = bpf_ringbuf_query(&exits, RING_AVAILABLE) > (1 << 20) ? RING_FORCE_WAKEUP : RING_NO_WAKEUP;
	if (bpf_ringbuf_output(&exits, s, size, flags))
		lose(p, LOST_EXITS, 1);
	/* States that share the last cell are not listed in it. */
	if (used == N_CELLS)
		forget_states(number);
	else
		for (u32 i = 0; i < N_CELLS && i < used; i++)
			forget_cell(number, i);
	s->used = 0;
	s->birth = 0;
	bpf_map_push_elem(&free_thread_records, &number, 0);
	return 0;
}

/* What a thread does that leaves its processor: `doing` it did there. */
INLINE u32 away_state(struct task_struct *task, u32 doing, bool preempted, u32 why)
{
	if (preempted || !why)
		return READY;
	return why & (TASK_STATE_STOPPED | TASK_STATE_TRACED) ? STOPPED : wait_state(task, doing);
}

INLINE void end_thread(struct processor *p, struct thread_record *s, u32 number, struct task_struct *task, u64 now)
{
	u32 *stored = bpf_task_storage_get(&tasks, task, NULL, 0);
	if (stored)
		*stored = 0;
	close(p, s, number, now);
}

SEC("tp_btf/sched_switch")
int handle_sched_switch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct processor *p = here();
	struct thread_record *s;
	u64 now;
	if (!p || !p->since)
		return 0;
	ENTER(p);
	u32 number = p->thread_record;
	if (!begin(p, &s, &now, AT_SWITCH, 0, number == 0))
		goto out;
	number = p->thread_record;
	p->settled = 1; /* no interrupt is under way here */
	p->pending_state = 0;
	p->pending_user = 0;
	stolen_by_now(ctx, p, s, prev, true);
	bool preempted = ctx[0];
	u32 why = settings.has_prev_state ? (u32)ctx[3] : prev->__state;
	bool dead = !preempted && why & TASK_STATE_DEAD;
	if (s) {
		s->resume = p->state;
		s->depth = p->depth;
		__builtin_memcpy(s->nested, p->nested, sizeof(s->nested));
		s->since = now;
		s->runtime = prev->se.sum_exec_runtime - s->runtime_before;
		if (FIELD_EXISTS(prev->sched_info.run_delay))
			s->run_delay = prev->sched_info.run_delay;
		if (!dead)
			s->state = away_state(prev, p->state, preempted, why);
		if (settings.why)
			note_object(prev, s);
		if (settings.stacks && !dead)
			note_stacks(ctx, s);
		ORDER();
		s->cpu = 0;
		if (dead) {
			count_last(p, s, s->resume);
			end_thread(p, s, number, prev, now);
		}
	} else if (settings.some_cpus && !p->selected && prev->pid) {
		number = thread_record_of(prev);
		s = number ? thread_record_at(number) : NULL;
		if (s && !s->cpu) {
			save_if_due(s, number, now);
			charge_away(s, number, now);
			if (dead)
				end_thread(p, s, number, prev, now);
			else
				s->state = away_state(prev, s->resume, preempted, why);
		}
	}
	number = next->pid ? thread_record_of(next) : 0;
	s = number ? thread_record_at(number) : NULL;
	p->thread_record = next->pid && !s ? THREAD_UNSEEN : 0; /* see who is there at its first event, if it has any */
	p->depth = 0;
	p->state = next->pid ? UNMEASURED : IDLE;
	p->task = (u64)next;
	if (FIELD_EXISTS(prev->se.cfs_rq) && FIELD_EXISTS(prev->sched_info.last_arrival))
		p->switched_clock = prev->se.cfs_rq->rq->clock;
	if (settings.why)
		note_holder(prev, p->switched, now);
	p->switched = now;
	if (s) {
		save_if_due(s, number, now);
		if (UNLIKELY(s->state != READY))
			woken_unseen(next, number, p->switched_clock, now);
		if (settings.why && s->state == READY)
			blame_holders(number, now);
		charge_away(s, number, now);
		if (settings.some_cpus && !p->selected) {
			s->state = ELSEWHERE;
			p->thread_record = THREAD_UNSEEN;
		} else {
			s->cpu = bpf_get_smp_processor_id() + 1;
			p->thread_record = number;
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
	if (!(task->flags & PF_WORKER) || over(bpf_ktime_get_ns()))
		return 0;
	bool measure = settings.follow && thread_record_of(bpf_get_current_task_btf());
	if (!measure && (settings.everything || settings.cgroup))
		measure = in_namespace(task, &tid, &pid) && selected(task, tid, pid);
	return measure ? open(task, READY, KERNEL_THREAD, THREAD_NEW) : 0;
}

INLINE int woken(struct task_struct *task, bool new)
{
	struct processor *p = here();
	if (!p || !p->since)
		return 0;
	u32 number = thread_record_of(task);
	if (new && UNLIKELY(!number))
		number = new_worker(task);
	struct thread_record *s = number ? thread_record_at(number) : NULL;
	if (!s || s->cpu)
		return 0;
	u64 now = bpf_ktime_get_ns();
	if (over(now))
		return 0;
	if (new) {
		if (s->flags & THREAD_NEW) {
			s->since = now;
			s->birth = now;
			s->flags &= ~THREAD_NEW;
			s->snapshot = control.snapshot - (now < control.snapshot_at);
		}
		return 0;
	}
	if (s->state == READY || s->state == ELSEWHERE || (s->state == UNKNOWN && task->on_cpu))
		return 0;
	save_if_due(s, number, now);
	if (settings.why)
		note_wait(s, now);
	charge_away(s, number, now);
	if (settings.why || settings.record)
		s->waker_kind = OBJECT_NONE;
	s->state = READY;
	p->tax += control.before[AT_WAKE];
	p->events++;
	return 0;
}

/* What wakes a thread is seen here, when it is awake at sched_wakeup. */
SEC("tp_btf/sched_waking")
int handle_sched_waking(u64 *ctx)
{
	struct processor *p = here();
	if (!(settings.why || settings.record) || !p || !p->since)
		return 0;
	u32 number = thread_record_of((void *)ctx[0]);
	struct thread_record *s = number ? thread_record_at(number) : NULL;
	if (s)
		note_waker(p, s);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int handle_sched_wakeup(u64 *ctx)
{
	return woken((void *)ctx[0], false);
}

SEC("tp_btf/sched_wakeup_new")
int handle_sched_wakeup_new(u64 *ctx)
{
	return woken((void *)ctx[0], true);
}

/* ---- threads that come and change ---- */

SEC("tp_btf/sched_process_fork")
int handle_sched_process_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	struct processor *p = here();
	u32 tid = 0, pid = 0;
	if (!p || !p->since)
		return 0;
	if (over(bpf_ktime_get_ns()))
		return 0;
	bool measure = settings.follow && thread_record_of(parent);
	if (!measure && (settings.everything || settings.cgroup || settings.name_length))
		measure = in_namespace(child, &tid, &pid) && selected(child, tid, pid);
	if (measure) /* it will go on with the end of the call that created it */
		inherit_block(parent, child, open(child, READY, state_by_registers(child), THREAD_NEW));
	return 0;
}

/* A thread to be measured from now on, while it runs here or elsewhere. */
INLINE void open_running(struct task_struct *task, u32 flags)
{
	struct processor *p = here();
	if (open(task, UNKNOWN, state_by_registers(task), flags) && p && task->pid == bpf_get_current_task_btf()->pid)
		p->thread_record = THREAD_UNSEEN;
}

SEC("tp_btf/sched_process_exec")
int handle_sched_process_exec(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct processor *p = here();
	u32 number, tid = 0, pid = 0;
	if (!p || !p->since)
		return 0;
	if (over(bpf_ktime_get_ns()))
		return 0;
	number = thread_record_of(task);
	if (!number) {
		if (!in_namespace(task, &tid, &pid))
			return 0;
		if ((control.command && control.command == tid) || (settings.name_length && selected(task, tid, pid))) {
			control.command = 0;
			open_running(task, THREAD_EXECUTES);
		}
		return 0;
	}
	struct thread_record *s = thread_record_at(number);
	if (s && in_namespace(task, &tid, &pid)) { /* the thread that executes becomes the leader, with its id */
		s->tid = tid;
		s->pid = pid;
		bpf_probe_read_kernel(s->name, sizeof(s->name), &task->comm);
		s->user = USER; /* its memory is a new one */
		s->block = 0;
		bpf_task_storage_delete(&marks, task);
	}
	return 0;
}

SEC("tp_btf/task_rename")
int handle_task_rename(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	const char *comm = (void *)ctx[1];
	struct processor *p = here();
	if (!p || !p->since)
		return 0;
	u32 number = thread_record_of(task);
	struct thread_record *s = number ? thread_record_at(number) : NULL;
	if (s) {
		bpf_probe_read_kernel(s->name, sizeof(s->name), comm);
	} else if (settings.name_length) {
		char fresh[16] = {};
		bpf_probe_read_kernel(fresh, sizeof(fresh), comm);
		if (name_matches(fresh) && !control.only && !over(bpf_ktime_get_ns()))
			open_running(task, 0);
	}
	return 0;
}

SEC("tp_btf/cgroup_attach_task")
int handle_cgroup_attach_task(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[2];
	struct processor *p = here();
	if (!p || !p->since || !settings.cgroup)
		return 0;
	if (!control.only && !over(bpf_ktime_get_ns()) && !thread_record_of(task) && in_cgroup(task))
		open_running(task, 0);
	return 0;
}

/* ---- faults ---- */

INLINE int begin_fault(void)
{
	struct processor *p = here();
	struct thread_record *s;
	u64 now;
	if (!p || !p->thread_record || p->busy)
		return 0;
	ENTER(p);
	if (begin(p, &s, &now, AT_FAULT, 0, p->state == KERNEL_FAULT) && s && p->state != KERNEL_FAULT)
		push(p, KERNEL_FAULT);
	LEAVE(p);
	return 0;
}

SEC("tp_btf/page_fault_user")
int handle_page_fault_user(u64 *ctx)
{
	(void)ctx;
	return begin_fault();
}

SEC("tp_btf/page_fault_kernel")
int handle_page_fault_kernel(u64 *ctx)
{
	if ((s64)ctx[0] < 0 ||
		bpf_get_current_task_btf()->pagefault_disabled) /* not one that the memory manager will handle */
		return 0;
	return begin_fault();
}

INLINE int end_fault(void)
{
	struct processor *p = here();
	struct thread_record *s;
	u64 now;
	if (!p || !p->thread_record || p->state != KERNEL_FAULT || !p->depth || p->busy)
		return 0;
	ENTER(p);
	if (begin(p, &s, &now, AT_FAULT_END, 0, 1))
		pop(p);
	LEAVE(p);
	return 0;
}

/*
 * Where there are no tracepoints of page faults (arm64): the software event that do_page_fault counts before it takes the
 * lock of the address space, once even where the fault is tried again.
 */
SEC("perf_event")
int handle_page_fault_begin(void *ctx)
{
	(void)ctx;
	return begin_fault();
}

/* Software events that the memory manager counts when it is done (mm_account_fault): there is no tracepoint at the end. */
SEC("perf_event")
int handle_page_fault_end(void *ctx)
{
	(void)ctx;
	return end_fault();
}

/* A fault that ends in a signal is never done. */
SEC("tp_btf/signal_deliver")
int handle_signal_deliver(u64 *ctx)
{
	(void)ctx;
	return end_fault();
}

/* ---- interrupts ---- */

INLINE int begin_interrupt(u32 state)
{
	struct processor *p = here();
	struct thread_record *s;
	u64 now;
	if (!p || !p->since)
		return 0;
	if (UNLIKELY(p->busy))
		return deferred_begin(p, state);
	ENTER(p);
	if (begin(p, &s, &now, AT_INTERRUPT, 0, 0))
		push(p, state);
	else
		p->early++;
	LEAVE(p);
	return 0;
}

INLINE int end_interrupt(u64 *ctx, u32 state)
{
	struct processor *p = here();
	struct thread_record *s;
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
		if (p->early)
			p->early--;
		else if (p->settled && p->thread_record != THREAD_UNSEEN && !control.last)
			lose(p, LOST_UNMATCHED, 1); /* it did not begin before or after the time for measuring */
		return 0;
	}
	ENTER(p);
	if (begin(p, &s, &now, AT_INTERRUPT_END, 0, 1)) {
		pop(p);
		if (state == IRQ_TIMER) {
			stolen_by_now(ctx, p, s, bpf_get_current_task_btf(), false);
			if (settings.stacks && s && s->sampled)
				s->disturbed += p->span + UNSEEN;
		}
		if (settings.why && state == IRQ_DEVICE && s)
			note_line(p, s, ctx[0]);
	}
	LEAVE(p);
	return 0;
}

#define INTERRUPT(tracepoint, state)          \
	SEC("tp_btf/" #tracepoint "_entry")       \
	int handle_##tracepoint##_entry(u64 *ctx) \
	{                                         \
		(void)ctx;                            \
		return begin_interrupt(state);        \
	}                                         \
	SEC("tp_btf/" #tracepoint "_exit")        \
	int handle_##tracepoint##_exit(u64 *ctx)  \
	{                                         \
		return end_interrupt(ctx, state);     \
	}

/* Of a line of interrupts: on arm64 the processors' own timer has one too. */
INLINE u32 line_state(u64 line)
{
	return settings.timer_line && (u32)line == settings.timer_line ? IRQ_TIMER : IRQ_DEVICE;
}

INTERRUPT(irq_handler, line_state(ctx[0]))
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

/* ---- marked functions ---- */

INLINE int at_function(u32 kind, u32 state, u32 instruction)
{
	struct processor *p = here();
	struct thread_record *s;
	u64 now;
	if (!p || !p->thread_record || p->busy)
		return 0;
	ENTER(p);
	if (begin(p, &s, &now, kind, USER, kind == AT_FUNCTION_END) && s && (is_user(p->state) || p->state == OVERHEAD)) {
		step_function(p->thread_record, state);
		if (p->state != OVERHEAD) /* otherwise the call that brought us here goes on */
			p->state = s->user;
		u64 event = AT_FUNCTION + instruction;
		OPAQUE(event);
		if (kind == AT_FUNCTION && event < N_EVENTS)
			p->tax = control.after[event];
	}
	LEAVE(p);
	return 0;
}

SEC("uprobe")
int handle_function_entry(void *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx);
	return at_function(AT_FUNCTION, TAG + (cookie & (N_TAGS - 1)), cookie >> 16);
}

SEC("uretprobe")
int handle_function_return(void *ctx)
{
	(void)ctx;
	return at_function(AT_FUNCTION_END, 0, 0);
}

/* ---- samples ---- */

/*
 * A sample is taken of the running thread, in the timer's interrupt: what that interrupted is what counts. In the time of
 * a handler of ours it is the observer's. What may turn out to be polling is marked.
 */
SEC("perf_event")
int handle_sample(void *ctx)
{
	struct processor *p = here();
	struct task_struct *task = bpf_get_current_task_btf();
	struct sample_event event = {
		.time = bpf_ktime_get_ns(), .kind = SAMPLE_TAKEN, .state = UNKNOWN, .cpu = bpf_get_smp_processor_id()};
	(void)ctx;
	if (!p || !p->since)
		return 1;
	u32 number = thread_record_of(task);
	struct thread_record *s = number ? thread_record_at(number) : NULL;
	if (!s)
		return 1;
	event.tid = s->tid;
	event.pid = s->pid;
	if (p->thread_record == number && p->task == (u64)task) {
		u32 depth = p->depth - 1;
		event.state = p->state;
		if (p->busy)
			event.state = OVERHEAD;
		else if (p->state == IRQ_TIMER && p->depth)
			event.state = p->nested[MASKED(depth, N_NESTED)];
		if (is_user(event.state) && s->asked) {
			event.since = s->asked_at;
			s->sampled = 1;
		}
		if (event.state == USER && s->block)
			event.state = marked_now(s->block, task);
	}
	if (bpf_ringbuf_output(&sample_events, &event, sizeof(event), RING_NO_WAKEUP))
		lose(p, LOST_SAMPLE_EVENTS, 1);
	return 1;
}

/* ---- threads that are alive when measuring begins ---- */

SEC("iter/task")
int dump_task(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u32 tid = 0, pid = 0;
	if (settings.namespace_inum && !control.namespace_level) { /* the reader runs this, in its namespace */
		struct pid *own = bpf_get_current_task_btf()->thread_pid;
		if (own)
			control.namespace_level = own->level;
	}
	if (!task || !task->pid || !in_namespace(task, &tid, &pid) || !selected(task, tid, pid) || thread_record_of(task))
		return 0;
	/* Before its first event nothing is known, unless it sleeps or waits for a processor: then it says so itself. */
	u32 resume = state_by_registers(task);
	u32 number = open(task, UNKNOWN, resume, 0);
	struct thread_record *s = number ? thread_record_at(number) : NULL;
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
	/*
	 * One word holds both halves: if a handler changed it in between, its word stands. Without that instruction the thread
	 * is unknown until its first event.
	 */
	if (settings.has_fetch)
		__sync_val_compare_and_swap((u32 *)&s->state, UNKNOWN | resume << 16, state | resume << 16);
	if (settings.why && !s->cpu && s->state == state)
		note_object(task, s);
	if (settings.stacks) {
		u64 stack = keep_found(task);
		if (!s->cpu && s->state == state && !s->kernel_stack) /* it has not moved meanwhile */
			s->kernel_stack = stack;
	}
	return 0;
}
