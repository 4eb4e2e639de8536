/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The handlers: they follow every change of state of every measured thread, in the kernel.
 *
 * A processor has one current state, and the moment at which it began. Each handler charges the span that ends to that
 * state, in the cells of the processor and of the thread that it runs. Then it sets the next state. States nest: a fault
 * in a system call, a soft interrupt in the fault, an interrupt in that. Interrupted states are kept on a small stack,
 * which goes with the thread when it leaves the processor. A thread off the processor has its state and moment in its
 * thread record. So every nanosecond of a processor, and every nanosecond of a thread, is in exactly one cell. A context
 * switch moves no counters: it changes which thread record is charged.
 *
 * Who writes what: only a processor itself writes its memory. The processor that runs a thread writes the thread's record;
 * off the processor, whoever wakes or dispatches the thread does. The kernel's scheduler orders these writes (on_cpu, run
 * queue locks). Only an interrupt can come in between, on the same processor, while a handler is at work: see `busy`.
 *
 * Readers in user space announce a snapshot, a moment in the near future. The first handler after that moment, on each
 * processor and for each thread, copies the state before it changes anything. So a reader gets everything as of one
 * moment, while the measured programs go on.
 */
#include "waits/causes.h"
#include "events/handler.h"
#include "scheduler/off_processor.h"
#include "scheduler/stolen.h"
#include "polling/polling.h"
#include "regions/regions.h"
#include "samples/code_samples.h"
#include "samples/state_samples.h"
#include "tasks/socket_requests.h"
#include "polling/submissions.h"
#include "unwinding/recent_code.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* ---- which processor has something to do ---- */

/* Returns this processor once its clock has started, otherwise NULL. */
INLINE struct processor *started_processor(void)
{
	struct processor *p = this_processor();
	return p && p->since ? p : NULL;
}

/* Whether this processor may run a measured thread whose time is divided, and no handler is at work. */
INLINE bool is_dividing(struct processor *p)
{
	return p && !runs_no_measured_thread(p) && !p->busy && !is_let_be(p);
}

/* Returns this processor if a call that begins or ends on it is to be charged, otherwise NULL. Calls of others are counted. */
INLINE struct processor *processor_at_call(void)
{
	struct processor *p = this_processor();
	if (!p)
		return NULL;
	if (runs_no_measured_thread(p)) {
		p->passed_calls++;
		return NULL;
	}
	return is_let_be(p) ? NULL : p;
}

/* ---- system calls ---- */

SEC("tp_btf/sys_enter")
int handle_sys_enter(u64 *ctx)
{
	struct processor *p = processor_at_call();
	struct thread_record *record;
	u64 now;
	if (!p)
		return 0;
	enter(p);
	end_failed_fault(p);
	/* A tracer stopped the thread before this call, and it goes on in the call's state: that is one occurrence, not two. */
	u64 ended = UNLIKELY(p->state == call_state(ctx[1])) ? STATE_GOES_ON : STATE_ENDS;
	if (begin_event(p, &record, &now, AT_ENTER, USER, ended) && record && !is_undivided(p)) {
		struct pt_regs *regs = (void *)ctx[0];
		long call = ctx[1];
		u32 check = 0, state = 0;
		if (OPTION(samples))
			record->calls++;
		if (UNLIKELY(COMPAT_CALL(regs)))
			call = (u64)call < N_CALLS ? settings.compat_call[call] : N_CALLS;
		else if ((u64)call < N_CALLS)
			check = settings.check_of[call];
		if (UNLIKELY(is_probe_call(call))) /* a probe of ours makes this call: it does not end a row of checks */
			state = OVERHEAD;
		else if (UNLIKELY(check | record->last_poll_state)) {
			if (record->last_poll_state || settings.checks[MASKED(check - 1, N_CHECKS)].at_once)
				state = begin_check(p->thread_record, check, now);
			else
				defer_check(record, check);
			add_cost(p, AT_ASK);
		}
		if (OPTION(functions) && UNLIKELY(record->user >= TAG) && !is_probe_call(call))
			leave_marked_functions(p->thread_record);
		if (UNLIKELY(call == CALL_PRCTL) && (u32)argument(regs, 1) == REGISTER_CALL)
			register_block(p->thread_record, argument(regs, 2));
		if (OPTION(tasks) && UNLIKELY(call == CALL_PRCTL) && (u32)argument(regs, 1) == REGISTER_TASKS_CALL &&
			argument(regs, 2)) /* 0: the log is full, and this event has read it */
			register_task_log(p->thread_record, argument(regs, 2));
		if (OPTION(tasks) && UNLIKELY(call == CALL_PRCTL) && (u32)argument(regs, 1) == NAME_MEMORY_CALL)
			record->context.announced = 1;
		if (UNLIKELY(p->depth))
			count_interrupted(p->thread_record, p->nested[0]);
		if (UNLIKELY(call == CALL_RESTART_SYSCALL) && record->interrupted_call)
			state = record->interrupted_call;
		p->depth = 0;
		p->state = state ? state : call_state(call);
		if (is_timed(now, ONE_CALL_IN) && !check)
			time_handler(p, TIMED_ENTER, now);
	}
	leave(p);
	return 0;
}

SEC("tp_btf/sys_exit")
int handle_sys_exit(u64 *ctx)
{
	struct processor *p = processor_at_call();
	struct thread_record *record;
	u64 now;
	if (!p)
		return 0;
	enter(p);
	end_failed_fault(p);
	if (begin_event(p, &record, &now, AT_LEAVE, STATE_NONE, STATE_ENDS) && record && !is_undivided(p)) {
		if (UNLIKELY(p->depth)) /* in a fault without an end: the call fails with EFAULT */
			count_interrupted(p->thread_record, p->nested[0]);
		else if (UNLIKELY(record->current_check)) {
			if (record->current_check >= NEUTRAL) {
				end_neutral(p->thread_record, now, ctx[1]);
				add_cost(p, AT_ANSWER);
			} else if (record->current_poll_state || (s64)ctx[1] < 0 ||
				(!ctx[1] && settings.checks[MASKED(record->current_check - 1, N_CHECKS)].zero)) {
				end_check(p->thread_record, now, ctx[1]);
				add_cost(p, AT_ANSWER);
			}
			record->current_check = 0;
		}
		if (OPTION(unwind) && UNLIKELY(p->state == KERNEL_CALL + CALL_MMAP))
			note_mapped(bpf_get_current_task_btf(), record->pid, ctx[1]);
		if (OPTION(why) && UNLIKELY(p->state == KERNEL_CALL + CALL_FUTEX) && (s64)ctx[1] > 0)
			note_requeue(p->thread_record, now, ctx[1]);
		if (OPTION(why) && UNLIKELY(record->polled))
			charge_polled(p->thread_record, ctx[1]);
		if (UNLIKELY((s64)ctx[1] == RESTART_BLOCK))
			record->interrupted_call = is_poll(p->state) ? 0 : p->state;
		p->depth = 0;
		p->state = UNLIKELY(has_task_work()) ? KERNEL_TASK_WORK : record->user;
	}
	leave(p);
	return 0;
}

/* The running thread is in the kernel in another way from now on, and will not go on with what it was in. */
INLINE void enter_kernel(struct processor *p, u32 state, u32 kind)
{
	struct thread_record *record;
	u64 now;
	enter(p);
	if (begin_event(p, &record, &now, kind, STATE_NONE, p->state != state) && record && !is_undivided(p)) {
		p->depth = 0;
		p->state = state;
	}
	leave(p);
}

/* ---- the scheduler ---- */

static const volatile u8 no_cells[N_STATES] SEC(".rodata.none");

/* Sends the thread's totals to the reader, and frees its thread record for another thread. */
NOINLINE int close_thread_record(struct processor *p, struct thread_record *record, u32 number, u64 now)
{
	u32 used = record->used,
		size = __builtin_offsetof(struct thread_snapshot, cells) + (used & 255) * sizeof(struct cell);
	if (size > sizeof(struct thread_snapshot))
		size = sizeof(struct thread_snapshot);
	record->end = now;
	if (OPTION(n_counted))
		submit_counts(number);
	if (OPTION(tasks) && record->task_records)
		close_task_records(number);
	if (OPTION(durations))
		submit_histograms(number);
	if (OPTION(publish))
		close_published_thread(number);
	/* Wake the reader when much has come together, not for each thread. */
	u64 flags = bpf_ringbuf_query(&exits, RING_AVAILABLE) > (1 << 20) ? RING_FORCE_WAKEUP : RING_NO_WAKEUP;
	if (bpf_ringbuf_output(&exits, record, size, flags))
		count_loss(p, LOST_EXITS, 1);
	bpf_probe_read_kernel(record->index, sizeof(record->index), (const void *)no_cells);
	record->used = 0;
	record->birth = 0;
	count_ids(record, -1);
	if (settings.divide_ready && record->process)
		leave_process(record->process, record->counted_ids[1]);
	bpf_map_push_elem(&free_thread_records, &number, 0);
	return 0;
}

INLINE void end_thread(struct processor *p, struct thread_record *record, u32 number, struct task_struct *task, u64 now)
{
	u32 *stored = bpf_task_storage_get(&tasks, task, NULL, 0);
	if (stored)
		*stored = 0;
	close_thread_record(p, record, number, now);
}

/* A switch: what leaves the processor and what comes, and how. */
struct context_switch {
	struct task_struct *prev, *next;
	struct cfs_rq *leaving, *arriving; /* the run queues of both; `arriving` only if time ready is divided */
	struct rq *rq;        /* that of the processor */
	u64 now;
	u32 cpu;
	u32 why; /* the state of `prev`, as the kernel has it */
	bool preempted, dead;
};

/* The thread that leaves is in this state from now on. `doing`: what it did when it left. */
INLINE void begin_absence(struct processor *p, struct thread_record *record, u32 doing, const struct context_switch *s)
{
	record->state = state_off_processor(doing, s->preempted, s->why);
	if (settings.divide_ready && record->state == READY)
		begin_ready(s->cpu, p, s->prev, s->leaving, stolen_from(s->rq), record, s->now);
}

/* Keeps what a thread was in, and the kernel's clocks of it. `resume`: the state that goes on when it comes back. */
INLINE void keep_run(struct processor *p, struct thread_record *record, u32 resume, const struct context_switch *s)
{
	struct task_struct *prev = s->prev;
	record->resume = resume;
	record->depth = p->depth;
	__builtin_memcpy(record->nested, p->nested, sizeof(record->nested));
	record->since = s->now;
	record->runtime = prev->se.sum_exec_runtime - record->runtime_before;
	if (FIELD_EXISTS(prev->sched_info.run_delay))
		record->run_delay = prev->sched_info.run_delay;
	if (FIELD_EXISTS(prev->seccomp.mode) && UNLIKELY(prev->seccomp.mode == SECCOMP_FILTER) && !control.filtered)
		control.filtered = 1;
}

/* A measured thread leaves the processor. */
INLINE void depart(void *ctx, struct processor *p, struct thread_record *record, u32 number, u32 resume,
	const struct context_switch *s)
{
	struct task_struct *prev = s->prev;
	keep_run(p, record, resume, s);
	if (!s->dead)
		begin_absence(
			p, record, is_undivided(p) && p->state == RUNNING ? doing_by_registers(prev, record) : p->state, s);
	if (OPTION(why))
		note_wait_object(prev, record);
	else if (OPTION(record))
		note_futex(prev, record);
	if (OPTION(stacks) && !s->dead)
		store_switch_stacks(ctx, p, record);
	if (OPTION(publish))
		publish_departure(number, record->state, s->now);
	ORDER();
	record->cpu = 0; /* from here on, whoever wakes or dispatches the thread writes its record */
	if (s->dead) {
		count_interrupted(number, record->resume);
		end_thread(p, record, number, prev, s->now);
	}
}

/* A thread leaves a processor on which none are measured: it was ELSEWHERE, although its record is open. */
INLINE void depart_from_unselected(struct processor *p, const struct context_switch *s)
{
	struct task_struct *prev = s->prev;
	u32 number = thread_record_of(prev);
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	if (!record || record->cpu)
		return;
	save_if_due(record, number, s->now);
	charge_off_processor(record, number, s->now);
	record->runtime = prev->se.sum_exec_runtime - record->runtime_before;
	u32 state = is_undivided(p) ? undivided_state(record) : state_as_recorded(state_by_registers(prev), record);
	record->resume = state_with_polling(record, state); /* what it was in before has ended where nothing is counted */
	record->depth = 0;
	if (s->dead)
		end_thread(p, record, number, prev, s->now);
	else {
		record->user_stack = record->kernel_stack = 0;
		begin_absence(p, record, doing_by_registers(prev, record), s);
		if (OPTION(publish))
			publish_thread(number, record->state, s->now, PUBLISHED_ABSENT);
	}
}

/* The processor has no measured thread until it is known that one comes. */
INLINE void vacate(struct processor *p, bool measured, const struct context_switch *s)
{
	struct task_struct *prev = s->prev, *next = s->next;
	/* The first event, if there is one, identifies a thread without a record that may be measured. */
	p->thread_record = next->pid && !measured && may_be_measured(next) ? THREAD_UNSEEN : 0;
	p->depth = 0;
	p->state = next->pid || settings.threads_only ? UNMEASURED : IDLE;
	p->task = (u64)next;
	if (s->rq && FIELD_EXISTS(prev->sched_info.last_arrival))
		p->switched_clock = s->rq->clock;
	if (OPTION(why)) {
		keep_thread(s->now, 1);
		p->running = next->pid;
	}
	p->switched = s->now;
}

/* A measured thread gets the processor. It goes on with the state in which it left one, interrupted states included. */
INLINE void arrive(struct processor *p, struct thread_record *record, u32 number, const struct context_switch *s)
{
	save_if_due(record, number, s->now);
	if (UNLIKELY(record->state != READY))
		end_unseen_wait(number, p->switched_clock, s->now, ready_counted(s->next), queued_since(s->next));
	charge_until_dispatch(s->cpu, s->arriving, record, number, s->now);
	if (settings.some_cpus && !p->selected) {
		record->state = ELSEWHERE;
		if (OPTION(publish))
			publish_thread(number, ELSEWHERE, s->now, PUBLISHED_ABSENT);
		p->thread_record = THREAD_UNSEEN;
		return;
	}
	record->cpu = s->cpu + 1;
	p->thread_record = number;
	p->state = record->resume;
	p->depth = record->depth;
	__builtin_memcpy(p->nested, record->nested, sizeof(p->nested));
	if (settings.undivided)
		resume_at_level(p, record, s->next);
}

/*
 * The thread that leaves is in the kernel, whatever its state says: it waits there. Sets the state to that of the fault or
 * signal that was not seen to go on. Returns the state in which it goes on; 0: the present one.
 */
INLINE u32 correct_state(struct processor *p, struct task_struct *prev, bool preempted)
{
	/* A fault that waits for a disk is major. */
	if (UNLIKELY(p->state == KERNEL_FAULT_MINOR) && !preempted && p->task == (u64)prev && BITFIELD(prev, in_iowait))
		rename_fault(p, KERNEL_FAULT_MAJOR);
	/* It waits in the kernel, and was seen to leave it, or was not seen to enter it. */
	u32 resume = 0;
	if (UNLIKELY(is_user(p->state)) && !preempted && p->task == (u64)prev) {
		resume = state_around_call();
		if (resume == KERNEL_SIGNAL)
			p->state = KERNEL_SIGNAL;
	}
	return resume;
}

SEC("tp_btf/sched_switch")
int handle_sched_switch(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 cpu = bpf_get_smp_processor_id();
	struct processor *p = processor_at(cpu);
	struct thread_record *record;
	u64 now;
	if (!p || !p->since)
		return 0;
	if (settings.threads_only && runs_no_measured_thread(p) && !may_be_measured(next)) {
		p->task = (u64)next;
		p->passed_switches++;
		if (settings.divide_ready)
			note_unmeasured_switch(cpu, next);
		return 0;
	}
	enter(p);
	/* Read before the ways part, because of what a look at them costs the verifier (run_queues.h). */
	struct cfs_rq *leaving = queue_of(prev), *arriving = settings.divide_ready ? queue_of(next) : NULL;
	u32 number = p->thread_record, resume = correct_state(p, prev, ctx[0]);
	/* Where time is not divided a thread has run when it leaves; otherwise it goes on with its state when it comes back. */
	if (!begin_event(p, &record, &now, AT_SWITCH, STATE_NONE, number == 0 || p->state == RUNNING))
		goto out;
	number = p->thread_record;
	p->settled = 1; /* no interrupt is under way here */
	forget_pending(p);
	struct context_switch s = {
		.prev = prev, .next = next, .leaving = leaving, .arriving = arriving, .now = now, .cpu = cpu};
	s.rq = processor_queue_of(leaving); /* that of both threads */
	update_stolen(ctx, p, record, s.rq, true);
	u32 coming = next->pid ? thread_record_of(next) : 0;
	if (settings.divide_ready)
		switch_run_clock(cpu, stolen_from(s.rq), process_of(next, coming), now);
	s.preempted = ctx[0];
	s.why = settings.has_prev_state ? (u32)ctx[3] : prev->__state;
	s.dead = !s.preempted && s.why & TASK_STATE_DEAD;
	if (OPTION(stacks))
		p->stacks_took = 0;
	if (record)
		depart(ctx, p, record, number, resume ? resume : p->state, &s);
	else if (settings.some_cpus && !p->selected && prev->pid)
		depart_from_unselected(p, &s);
	record = coming ? thread_record_at(coming) : NULL;
	vacate(p, record, &s);
	if (record)
		arrive(p, record, coming, &s);
	if (is_timed(now, ONE_SWITCH_IN))
		time_handler(p, TIMED_SWITCH, now + (OPTION(stacks) && OPTION(record) ? p->stacks_took : 0));
out:
	leave(p);
	return 0;
}

/*
 * Opens the record of a thread that the kernel creates for a process (io_uring's workers), if it is to be measured. Such
 * threads are not forked: they first show when they are woken.
 */
NOINLINE u32 open_worker_thread(struct task_struct *task)
{
	u32 tid = 0, pid = 0;
	if (!(task->flags & PF_WORKER) || measuring_is_over(bpf_ktime_get_ns()))
		return 0;
	bool measure = settings.follow && thread_record_of(bpf_get_current_task_btf());
	if (!measure && (settings.everything || settings.cgroup))
		measure = in_namespace(task, &tid, &pid) && is_to_be_measured(task, tid, pid);
	return measure ? open_thread_record(task, READY, KERNEL_THREAD, THREAD_NEW) : 0;
}

INLINE void begin_ready_in_queue(
	u32 here, struct processor *p, struct task_struct *task, struct thread_record *record, u64 now)
{
	struct cfs_rq *queue = queue_of(task);
	begin_ready(here, p, task, queue, stolen_from(processor_queue_of(queue)), record, now);
}

/* A wake-up: ends the wait of a thread, or begins the life of a new one. */
INLINE int end_wait(struct task_struct *task, bool new)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct processor *p = processor_at(cpu);
	if (!p || !p->since)
		return 0;
	u32 number = thread_record_of(task);
	if (new && UNLIKELY(!number))
		number = open_worker_thread(task);
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	if (!record || record->cpu)
		return 0;
	u64 now = bpf_ktime_get_ns();
	if (measuring_is_over(now))
		return 0;
	if (new) {
		if (record->flags & THREAD_NEW) {
			record->since = now;
			record->birth = now;
			record->flags &= ~THREAD_NEW;
			record->snapshot = control.snapshot - (now < control.snapshot_at);
			if (settings.divide_ready)
				begin_ready_in_queue(cpu, p, task, record, now);
		}
		return 0;
	}
	if (record->state == READY || record->state == ELSEWHERE || (record->state == UNKNOWN && task->on_cpu))
		return 0;
	save_if_due(record, number, now);
	if (OPTION(why))
		charge_wait_causes(record, now);
	charge_off_processor(record, number, now);
	if (OPTION(why) || OPTION(record))
		record->waker_kind = OBJECT_NONE;
	record->state = READY;
	if (OPTION(publish))
		publish_thread(number, READY, now, PUBLISHED_ABSENT);
	if (settings.divide_ready)
		begin_ready_in_queue(cpu, p, task, record, now);
	p->cost_pending += control.before[AT_WAKE];
	count_event(p, AT_WAKE);
	return 0;
}

/* sched_waking runs in the waker; sched_wakeup may run on another processor, when the thread is awake. */
SEC("tp_btf/sched_waking")
int handle_sched_waking(u64 *ctx)
{
	struct processor *p = started_processor();
	if (!p || !(OPTION(why) || OPTION(record)))
		return 0;
	u32 number = thread_record_of((void *)ctx[0]);
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	if (record)
		note_waker(p, record, ctx);
	if (record && OPTION(record) && OPTION(stacks))
		store_waker_stacks(ctx, p, record, !is_in_interrupt(p, ctx));
	return 0;
}

SEC("tp_btf/sched_wakeup")
int handle_sched_wakeup(u64 *ctx)
{
	return end_wait((void *)ctx[0], false);
}

SEC("tp_btf/sched_wakeup_new")
int handle_sched_wakeup_new(u64 *ctx)
{
	return end_wait((void *)ctx[0], true);
}

/* The kernel calls this before it moves the thread. A thread that sleeps is moved too, when it is about to be woken. */
SEC("tp_btf/sched_migrate_task")
int handle_sched_migrate_task(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct processor *p = started_processor();
	if (!p)
		return 0;
	u32 number = thread_record_of(task);
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	if (record && !record->cpu && record->state == READY && record->ready_cpu)
		move_ready(task, record, ctx[1], bpf_ktime_get_ns());
	return 0;
}

/* ---- threads that come and change ---- */

/* A thread was created: its process has the mappings of the one that it was created in. */
INLINE void inherit_mappings(struct task_struct *parent, u32 child)
{
	u32 number = thread_record_of(parent);
	struct thread_record *from = number ? thread_record_at(number) : NULL;
	struct thread_record *to = child ? thread_record_at(child) : NULL;
	if (from && to)
		inherit_code(from->pid, to->pid);
}

SEC("tp_btf/sched_process_fork")
int handle_sched_process_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	struct processor *p = started_processor();
	u32 tid = 0, pid = 0;
	if (!p)
		return 0;
	if (measuring_is_over(bpf_ktime_get_ns()))
		return 0;
	bool measure = settings.follow && thread_record_of(parent);
	if (!measure && (settings.everything || settings.cgroup || settings.name_length))
		measure = in_namespace(child, &tid, &pid) && is_to_be_measured(child, tid, pid);
	if (measure) { /* the child resumes in the call that created it */
		u32 number = open_thread_record(child, READY, state_by_registers(child), THREAD_NEW);
		if (OPTION(unwind))
			inherit_mappings(parent, number);
		inherit_depth(parent, child, number);
		inherit_block(parent, child, number);
		if (OPTION(tasks))
			inherit_context(parent, number);
	}
	return 0;
}

/* Begins measuring a thread that runs, here or on another processor. */
INLINE void open_running_thread(struct task_struct *task, u32 flags)
{
	struct processor *p = this_processor();
	if (!open_thread_record(task, UNKNOWN, state_by_registers(task), flags) || !p)
		return;
	if (OPTION(n_counted) && !p->busy && task->pid == bpf_get_current_task_btf()->pid) {
		enter(p);
		charge_events(0, STATE_NONE); /* what was counted until now is not the thread's */
		leave(p);
	}
	if (task->pid != bpf_get_current_task_btf()->pid) {
		u32 cpu = processor_of(task);
		p = task->on_cpu ? bpf_map_lookup_elem(&processors, &cpu) : NULL;
		if (!p || p->thread_record)
			return;
	}
	p->thread_record = THREAD_UNSEEN;
}

SEC("tp_btf/sched_process_exec")
int handle_sched_process_exec(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct processor *p = started_processor();
	u32 number, tid = 0, pid = 0;
	if (!p)
		return 0;
	if (measuring_is_over(bpf_ktime_get_ns()))
		return 0;
	number = thread_record_of(task);
	if (!number) {
		if (!in_namespace(task, &tid, &pid))
			return 0;
		if ((control.command && control.command == tid) ||
			(settings.name_length && is_to_be_measured(task, tid, pid))) {
			control.command = 0;
			open_running_thread(task, THREAD_EXECUTES);
			if (OPTION(unwind))
				begin_recent_code(task, pid);
		}
		return 0;
	}
	struct thread_record *record = thread_record_at(number);
	if (record && in_namespace(task, &tid, &pid)) { /* the thread that calls execve becomes the leader, with its id */
		record->tid = tid;
		record->pid = pid;
		if (OPTION(publish)) {
			record->publications = control.publications - 1; /* its user may be another one now */
			identify_published_thread(task, number, record->publication);
		}
		bpf_probe_read_kernel(record->name, sizeof(record->name), &task->comm);
		record->user = USER; /* its memory is a new one */
		if (OPTION(unwind))
			begin_recent_code(task, pid);
		record->block = 0;
		bpf_task_storage_delete(&marks, task);
		if (OPTION(tasks)) {
			if (OPTION(record) && record->task_record)
				record_task(number, p->since, TASK_NAME_NONE, 0);
			forget_tasks(record);
			record->context.announced = 1;
		}
	}
	return 0;
}

SEC("tp_btf/task_rename")
int handle_task_rename(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	const char *comm = (void *)ctx[1];
	struct processor *p = started_processor();
	if (!p)
		return 0;
	u32 number = thread_record_of(task);
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	if (record) {
		bpf_probe_read_kernel(record->name, sizeof(record->name), comm);
		if (OPTION(publish))
			publish_name(number, record->publication);
		note_submitter(task, record);
	} else if (settings.name_length) {
		char fresh[16] = {};
		bpf_probe_read_kernel(fresh, sizeof(fresh), comm);
		if (name_matches(fresh) && !control.only && !measuring_is_over(bpf_ktime_get_ns()))
			open_running_thread(task, 0);
	}
	return 0;
}

SEC("tp_btf/cgroup_attach_task")
int handle_cgroup_attach_task(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[2];
	struct processor *p = started_processor();
	if (!p || !settings.cgroup)
		return 0;
	if (!control.only && !measuring_is_over(bpf_ktime_get_ns()) && !thread_record_of(task) && in_cgroup(task))
		open_running_thread(task, 0);
	return 0;
}

/* ---- what threads read of each other ---- */

/* The reader runs this when there is a map for one user more. */
SEC("iter/task")
int publish_absent(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u32 number = task && task->pid ? thread_record_of(task) : 0;
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	if (OPTION(publish) && record)
		publish_absent_thread(task, record, number);
	return 0;
}

/* The reader runs this when it measures no more. */
SEC("iter/task")
int end_publication(struct bpf_iter__task *ctx)
{
	(void)ctx;
	publish_end(control.last ? control.snapshot_at : bpf_ktime_get_ns());
	return 0;
}

/*
 * A thread ends. Whoever calls exit or exit_group is in that call; others were killed by a signal. Since 6.16 this comes
 * before the memory is given back.
 */
SEC("tp_btf/sched_process_exit")
int handle_sched_process_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct processor *p = this_processor();
	if (OPTION(publish) && control.observer && (u32)task->pid == control.observer)
		publish_end(bpf_ktime_get_ns()); /* the reader ends, in whatever way, and the kernel detaches these programs */
	if (!is_dividing(p))
		return 0;
	if (p->state == KERNEL_COREDUMP || is_user(p->state) || is_way_back(p->state))
		enter_kernel(p, call_state(CALL_EXIT), AT_LEAVE);
	return 0;
}

/* ---- faults ---- */

INLINE int begin_fault(void)
{
	struct processor *p = this_processor();
	struct thread_record *record;
	u64 now;
	if (!is_dividing(p))
		return 0;
	enter(p);
	bool again = is_fault(p->state); /* the one before failed, and the kernel tries again */
	if (again)
		rename_fault(p, KERNEL_FAULT);
	if (begin_event(p, &record, &now, AT_FAULT, STATE_NONE, again) && record && !is_undivided(p)) {
		if (is_fault(p->state))
			p->state = KERNEL_FAULT_MINOR;
		else
			push_state(p, KERNEL_FAULT_MINOR);
	}
	leave(p);
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
		bpf_get_current_task_btf()->pagefault_disabled) /* the memory manager will not handle this fault */
		return 0;
	struct processor *p = this_processor();
	if (p && is_undivided(p)) {
		note_kernel_fault(p);
		return 0;
	}
	return begin_fault();
}

/* `sort`: what the fault was. */
INLINE int end_fault(u32 sort)
{
	struct processor *p = this_processor();
	struct thread_record *record;
	u64 now;
	if (!p || !p->thread_record || !is_fault(p->state) || !p->depth || p->busy)
		return 0;
	enter(p);
	if (p->state != sort)
		rename_fault(p, sort);
	if (begin_event(p, &record, &now, AT_FAULT_END, STATE_NONE, STATE_ENDS))
		pop_state(p);
	leave(p);
	return 0;
}

/*
 * The begin of a page fault where it has no tracepoint (arm64). do_page_fault counts this software event before it takes
 * the lock of the address space, and once even if it tries the fault again.
 */
SEC("perf_event")
int handle_page_fault_begin(void *ctx)
{
	(void)ctx;
	return begin_fault();
}

/*
 * The end of a page fault, which has no tracepoint: the memory manager counts these software events (mm_account_fault). The
 * cookie says which of the two this is: 0 minor, 1 major.
 */
SEC("perf_event")
int handle_page_fault_end(void *ctx)
{
	return end_fault(bpf_get_attach_cookie(ctx) ? KERNEL_FAULT_MAJOR : KERNEL_FAULT_MINOR);
}

/* A signal is delivered. Where it comes of a fault, the memory manager never counts the end of that. */
SEC("tp_btf/signal_deliver")
int handle_signal_deliver(u64 *ctx)
{
	struct processor *p = this_processor();
	end_fault(KERNEL_FAULT);
	if (!is_dividing(p) || p->depth)
		return 0;
	/* After a call no user code has run. */
	if (is_user(p->state) && is_in_call(bpf_get_current_task_btf()) &&
		control.ways_back[BACK_FROM_SIGNAL] != WAY_BACK_SOUGHT)
		p->state = KERNEL_SIGNAL;
	enter_kernel(p, state_at_signal(ctx[0], (void *)ctx[2]), AT_FAULT_END);
	return 0;
}

/* ---- memory that the thread itself must free ---- */

/* The tracepoints of all kinds of direct reclaim: for want of memory of the machine, and of a control group. */
SEC("raw_tp/reclaim_begin")
int handle_reclaim_begin(u64 *ctx)
{
	struct processor *p = this_processor();
	struct thread_record *record;
	u64 now;
	(void)ctx;
	if (!is_dividing(p))
		return 0;
	enter(p);
	if (begin_event(p, &record, &now, AT_FAULT, STATE_NONE, STATE_GOES_ON) && record && !is_undivided(p))
		push_state(p, KERNEL_RECLAIM);
	leave(p);
	return 0;
}

SEC("raw_tp/reclaim_end")
int handle_reclaim_end(u64 *ctx)
{
	struct processor *p = this_processor();
	struct thread_record *record;
	u64 now;
	(void)ctx;
	if (!p || !p->thread_record || p->state != KERNEL_RECLAIM || !p->depth || p->busy)
		return 0;
	enter(p);
	if (begin_event(p, &record, &now, AT_FAULT_END, STATE_NONE, STATE_ENDS))
		pop_state(p);
	leave(p);
	return 0;
}

/* ---- locks of the kernel ---- */

SEC("tp_btf/contention_begin")
int handle_contention_begin(u64 *ctx)
{
	struct thread_record *record = (u32)ctx[1] & LOCK_IS_SPUN_FOR ? NULL : own_record();
	if (record)
		record->lock = ctx[0];
	return 0;
}

SEC("tp_btf/contention_end")
int handle_contention_end(u64 *ctx)
{
	struct thread_record *record = own_record();
	if (record && record->lock == ctx[0])
		record->lock = 0;
	return 0;
}

/* ---- submissions of an io_uring ---- */

SEC("raw_tp/submission")
int handle_submission(u64 *ctx)
{
	(void)ctx;
	return change_submitter(POLL_IO_URING, KERNEL_THREAD);
}

SEC("raw_tp/submitted")
int handle_submitted(u64 *ctx)
{
	(void)ctx;
	return change_submitter(KERNEL_THREAD, POLL_IO_URING);
}

/* ---- interrupts ---- */

INLINE int begin_interrupt(u32 state)
{
	struct processor *p = started_processor();
	struct thread_record *record;
	u64 now;
	if (!p || (settings.threads_only && runs_no_measured_thread(p)))
		return 0;
	if (UNLIKELY(p->busy))
		return begin_deferred_interrupt(p, state);
	enter(p);
	if (begin_event(p, &record, &now, AT_INTERRUPT, STATE_NONE, STATE_GOES_ON)) {
		/* Its end will not be looked at if this event has found that no measured thread runs. */
		if (!is_undivided(p) && !(settings.threads_only && !p->thread_record)) {
			push_state(p, state);
			note_interrupt_clock(p, now);
		}
	} else
		p->early++;
	leave(p);
	return 0;
}

INLINE int end_interrupt(u64 *ctx, u32 state)
{
	struct processor *p = started_processor();
	struct thread_record *record;
	u64 now;
	if (!p || (settings.threads_only && runs_no_measured_thread(p)))
		return 0;
	if (UNLIKELY(p->busy))
		return end_deferred_interrupt(p, state);
	if (UNLIKELY(p->overflow)) {
		p->overflow--;
		return 0;
	}
	if (UNLIKELY(p->state != state || !p->depth)) {
		if (p->early)
			p->early--;
		else if (p->settled && p->thread_record != THREAD_UNSEEN && !control.last && !may_change_level(p))
			count_loss(p, LOST_UNMATCHED, 1); /* it began while this processor was measured, and was not seen */
		return 0;
	}
	enter(p);
	if (begin_event(p, &record, &now, AT_INTERRUPT_END, STATE_NONE, STATE_ENDS)) {
		pop_state(p);
		leave_out_of_gap(record, p->state, p->span);
		note_interrupt_clock(p, now);
		if (state == IRQ_TIMER) {
			update_stolen(ctx, p, record, processor_queue_of(queue_of(bpf_get_current_task_btf())), false);
			if (OPTION(samples) && record && record->sampled)
				record->outside_gap += UNSEEN;
		}
		if (OPTION(why) && state == IRQ_DEVICE && record)
			charge_interrupt_line(p, record, ctx[0]);
	}
	leave(p);
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

/* Returns the state of an interrupt line. On arm64 the processors' own timer has a line too. */
INLINE u32 line_state(u64 line)
{
	return settings.timer_line && (u32)line == settings.timer_line ? IRQ_TIMER : IRQ_DEVICE;
}

INTERRUPT(irq_handler, line_state(ctx[0]))
INTERRUPT(softirq, SOFTIRQ + (ctx[0] < N_SOFTIRQS ? (u32)ctx[0] : 0))
INTERRUPT(ipi, IRQ_IPI)

/*
 * On x86, each interrupt of the processors themselves has a vector, and a tracepoint that gives the vector. One program is
 * attached to all entries and one to all exits, because each further program costs time in the verifier. These interrupts
 * run with interrupts off, so neither program runs twice at once. The numbers are from
 * arch/x86/include/asm/irq_vectors.h. A test compares the frequent ones with /proc/interrupts.
 */
enum { FIRST_VECTOR = 0xe0, N_VECTORS = 32 };
static const volatile u8 vector_states[N_VECTORS] SEC(".rodata.vector_states") = {
	[0xec - FIRST_VECTOR] = IRQ_TIMER,
	[0xf4 - FIRST_VECTOR] = IRQ_DEFERRED_ERROR,
	[0xf6 - FIRST_VECTOR] = IRQ_WORK,
	[0xf7 - FIRST_VECTOR] = IRQ_PLATFORM,
	[0xf9 - FIRST_VECTOR] = IRQ_THRESHOLD,
	[0xfa - FIRST_VECTOR] = IRQ_THERMAL,
	[0xfb - FIRST_VECTOR] = IRQ_CALL_FUNCTION_SINGLE,
	[0xfc - FIRST_VECTOR] = IRQ_CALL_FUNCTION,
	[0xfd - FIRST_VECTOR] = IRQ_RESCHEDULE,
	[0xfe - FIRST_VECTOR] = IRQ_ERROR,
};

/* Returns the state of a vector. A spurious interrupt comes with its own vector: any one that has no owner. */
INLINE u32 vector_state(u64 vector)
{
	u32 state = vector >= FIRST_VECTOR ? vector_states[MASKED(vector - FIRST_VECTOR, N_VECTORS)] : 0;
	return state ? state : IRQ_SPURIOUS;
}

SEC("raw_tp/irq_vector_entry")
int handle_irq_vector_entry(u64 *ctx)
{
	return begin_interrupt(vector_state(ctx[0]));
}

SEC("raw_tp/irq_vector_exit")
int handle_irq_vector_exit(u64 *ctx)
{
	return end_interrupt(ctx, vector_state(ctx[0]));
}

/* ---- marked functions ---- */

INLINE int handle_marked_function(u32 kind, u32 state, u32 instruction)
{
	struct processor *p = this_processor();
	struct thread_record *record;
	u64 now;
	if (!p || runs_no_measured_thread(p) || p->busy)
		return 0;
	enter(p);
	if (begin_event(p, &record, &now, kind, USER, kind != AT_FUNCTION) && record &&
		(is_user(p->state) || p->state == OVERHEAD) && !is_undivided(p)) {
		track_marked_function(p->thread_record, state, kind == AT_FUNCTION_END ? RETURN_ADDRESS : 0,
			kind != AT_FUNCTION && p->state >= TAG);
		if (p->state != OVERHEAD) /* otherwise the kernel's own call for the probe goes on */
			p->state = record->user;
		u64 event = AT_FUNCTION + instruction;
		OPAQUE(event);
		if (kind == AT_FUNCTION && event < N_EVENTS)
			p->cost_pending = control.after[event];
		if (kind == AT_FUNCTION_EXIT && !instruction) /* a jump, which the kernel emulates as it does some entries */
			p->cost_pending = control.after[AT_FUNCTION];
	}
	leave(p);
	return 0;
}

SEC("uprobe")
int handle_function_entry(void *ctx)
{
	u64 cookie = bpf_get_attach_cookie(ctx);
	return handle_marked_function(AT_FUNCTION, TAG + (cookie & (N_TAGS - 1)), cookie >> 16);
}

/* A return instruction of the function, or a jump by which another function takes its place: the cookie is 0 then. */
SEC("uprobe")
int handle_function_exit(void *ctx)
{
	return handle_marked_function(AT_FUNCTION_EXIT, 0, bpf_get_attach_cookie(ctx));
}

SEC("uretprobe")
int handle_function_return(void *ctx)
{
	(void)ctx;
	return handle_marked_function(AT_FUNCTION_END, 0, 0);
}

/* A static probe of a program, at which a task begins or ends. The cookie is its place in task_probes. */
SEC("uprobe")
int handle_task_probe(void *ctx)
{
	struct processor *p = this_processor();
	struct thread_record *record;
	u64 now;
	if (!OPTION(tasks) || !p || runs_no_measured_thread(p) || p->busy)
		return 0;
	enter(p);
	if (begin_event(p, &record, &now, AT_TASK_PROBE, USER, STATE_GOES_ON) && record && !is_undivided(p) &&
		reach_task_probe(p->thread_record, bpf_get_attach_cookie(ctx), now))
		p->cost_pending += (bpf_ktime_get_ns() - now) << COST_BITS;
	leave(p);
	return 0;
}

/* ---- requests ---- */

/* Returns whether requests are told apart, and this processor runs a measured thread of its own. */
INLINE bool may_have_request(struct processor *p)
{
	return OPTION(tasks) && settings.requests && p && !runs_no_measured_thread(p) && !p->busy && !is_let_be(p) &&
		p->thread_record != THREAD_UNSEEN && p->task == (u64)bpf_get_current_task_btf();
}

/* A call has ended, and that was charged: the thread may have read a request. */
SEC("tp_btf/sys_exit")
int handle_received(u64 *ctx)
{
	struct processor *p = this_processor();
	struct pt_regs *regs = (void *)ctx[0];
	if (!may_have_request(p) || (s64)ctx[1] < 4 || role_of_call(CALL_IN_PROGRESS(regs)) != RECEIVES ||
		COMPAT_CALL(regs))
		return 0;
	enter(p);
	u64 began = bpf_ktime_get_ns();
	if (receive_request(p->thread_record, ctx[1], p->since))
		p->cost_pending += (bpf_ktime_get_ns() - began) << COST_BITS;
	leave(p);
	return 0;
}

/* A call begins, and the code before it was charged: the thread may have answered its request. */
SEC("tp_btf/sys_enter")
int handle_call_of_request(u64 *ctx)
{
	struct processor *p = this_processor();
	struct pt_regs *regs = (void *)ctx[0];
	u32 role = role_of_call(ctx[1]);
	if (!role || !may_have_request(p) || COMPAT_CALL(regs))
		return 0;
	enter(p);
	look_at_call(p->thread_record, role, p->since);
	leave(p);
	return 0;
}

/* ---- samples ---- */

/*
 * Returns the state of the running thread at a sample, which is taken in the timer's interrupt: the interrupted one, or
 * OVERHEAD if a handler was at work. If it is user code that may turn out to be polling, that is noted (`sampled`), and
 * `since` becomes the moment of the last check.
 */
INLINE u32 sampled_state(struct processor *p, struct thread_record *record, struct task_struct *task, u64 *since)
{
	u32 state = p->state, depth = p->depth - 1;
	if (p->busy)
		state = OVERHEAD;
	else if (p->state == IRQ_TIMER && p->depth)
		state = p->nested[MASKED(depth, N_NESTED)];
	if (is_user(state) && record->last_poll_state) {
		*since = record->asked_at;
		record->sampled = 1;
	}
	return state == USER && record->block ? marked_state(record->block, task) : state;
}

/* Adds the user stack to a sample: where it is, which differs from sample to sample, and apart from that who called it. */
INLINE void walk_sampled_stack(struct sample_event *event, u32 pid)
{
	struct stack *stack = walk_user_stack(walk_slot(1), pid);
	if (!stack)
		return;
	event->pc = stack->frames[0] & ~(0xffull << 56);
	stack->frames[0] &= 0xffull << 56; /* the mark */
	struct stack *python = python_stack_of(walk_slot(1));
	if (python) { /* likewise the innermost frame's instruction */
		event->instruction = (u32)python->frames[0] >> PYTHON_INSTRUCTION_SHIFT;
		python->frames[0] &= ~((u64)PYTHON_NO_INSTRUCTION << PYTHON_INSTRUCTION_SHIFT);
		store_python_stack(stack, walk_slot(1));
	}
	event->stack = store_words(stack, stack->depth);
}

/* The kernel takes a sample of the running thread, with its stack. The program reports the state. */
SEC("perf_event")
int handle_sample(void *ctx)
{
	struct processor *p = this_processor();
	struct task_struct *task = bpf_get_current_task_btf();
	struct sample_event event = {
		.time = bpf_ktime_get_ns(), .kind = SAMPLE_TAKEN, .state = UNKNOWN, .cpu = bpf_get_smp_processor_id()};
	(void)ctx;
	if (!p || !p->since)
		return 1;
	u32 number = thread_record_of(task);
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	if (!record)
		return 1;
	event.tid = record->tid;
	event.pid = record->pid;
	if (p->thread_record == number && p->task == (u64)task)
		event.state = sampled_state(p, record, task, &event.since);
	if (OPTION(unwind) && !(record->flags & THREAD_KERNEL))
		walk_sampled_stack(&event, record->pid);
	if (bpf_ringbuf_output(&sample_events, &event, sizeof(event), RING_NO_WAKEUP))
		count_loss(p, LOST_SAMPLE_EVENTS, 1);
	return 1;
}

/* The software event of a clock, on each processor: reports samples of user code without a mark, with the code. */
SEC("perf_event")
int handle_code_sample(struct sample_context *ctx)
{
	struct processor *p = started_processor();
	struct task_struct *task = bpf_get_current_task_btf();
	u64 since = 0;
	if (!p || !IS_USER_MODE(ctx) || p->task != (u64)task)
		return 0;
	u32 number = p->thread_record;
	struct thread_record *record = number && number != THREAD_UNSEEN ? thread_record_at(number) : NULL;
	if (!record || sampled_state(p, record, task, &since) != USER)
		return 0;
	struct code_sample *sample = bpf_ringbuf_reserve(&sample_events, sizeof(*sample), 0);
	if (!sample) {
		count_loss(p, LOST_SAMPLE_EVENTS, 1);
		return 0;
	}
	sample->time = bpf_ktime_get_ns();
	sample->since = since;
	sample->birth = record->birth;
	sample->address = INSTRUCTION(ctx);
	sample->tid = record->tid;
	sample->pid = record->pid;
	sample->visible = hash_visible(ctx, record->calls, sample->code);
	read_code(sample);
	bpf_ringbuf_submit(sample, RING_NO_WAKEUP);
	return 0;
}

/* ---- time that is not divided ---- */

/* The software event of a clock, on each processor (perf_event_open(2)). */
SEC("perf_event")
int handle_state_sample(struct sample_context *ctx)
{
	struct processor *p = this_processor();
	struct task_struct *task = bpf_get_current_task_btf();
	if (!p || !p->since || p->busy || p->state != RUNNING || p->task != (u64)task)
		return 0;
	u32 number = p->thread_record;
	struct thread_record *record = number && number != THREAD_UNSEEN ? thread_record_at(number) : NULL;
	if (!record)
		return 0;
	p->cost_pending += control.after[AT_SAMPLE];
	count_event(p, AT_SAMPLE);
	if (OPTION(n_counted)) { /* a snapshot of a thread that never leaves its processor has its counts until here */
		add_to_cell(record, RUNNING, 0, 0);
		charge_events(number, RUNNING);
	}
	u32 state = interrupted_state(ctx, task);
	if (UNLIKELY(record->block)) {
		u32 own = undivided_user_state(record->block);
		if (!own)
			return 0;
		if (state == USER)
			state = own;
	}
	count_sample(record->samples, state);
	count_sample(p->samples, state);
	return 0;
}

/* ---- threads that are ready at a snapshot ---- */

SEC("iter/task")
int divide_ready_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u32 number = task && task->pid ? thread_record_of(task) : 0;
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	if (record && !record->cpu && record->state == READY && record->ready_cpu)
		divide_open_ready(record, (struct thread_snapshot *)record, control.snapshot_at);
	return 0;
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
	if (OPTION(publish))
		control.observer = bpf_get_current_task_btf()->tgid;
	if (!task || !task->pid || task->exit_state || !in_namespace(task, &tid, &pid) ||
		!is_to_be_measured(task, tid, pid) || thread_record_of(task))
		return 0;
	/* A thread that runs is UNKNOWN until its first event. One that sleeps or waits for a processor has a known state. */
	u32 resume = state_by_registers(task);
	u32 number = open_thread_record(task, UNKNOWN, resume, 0);
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	if (!record || task->on_cpu)
		return 0;
	u32 why = task->__state, state, doing = resume;
	resume = record->resume;
	if (settings.undivided && doing == USER)
		doing = KERNEL_FAULT;
	if (!why || task->on_rq)
		state = READY;
	else if (why & (TASK_STATE_STOPPED | TASK_STATE_TRACED))
		state = STOPPED;
	else
		state = wait_state(task, doing, false);
	if (record->cpu || record->state != UNKNOWN || task->on_cpu || task->__state != why)
		return 0;
	/*
	 * `state` and `resume` are exchanged as one word: if a handler has changed it meanwhile, the handler's word stays.
	 * Without this instruction the thread is UNKNOWN until its first event.
	 */
	if (settings.has_fetch)
		__sync_val_compare_and_swap((u32 *)&record->state, UNKNOWN | resume << 16, state | resume << 16);
	if (OPTION(why) && !record->cpu && record->state == state)
		note_wait_object(task, record);
	else if (OPTION(record) && !record->cpu && record->state == state)
		note_futex(task, record);
	if (OPTION(stacks)) {
		u64 stack = store_waiting_stack(task);
		if (!record->cpu && record->state == state && !record->kernel_stack) /* it has not moved meanwhile */
			record->kernel_stack = stack;
	}
	return 0;
}

/* ---- threads that are not measured any more, although they live ---- */

/* The reader runs this when it does not measure for a while: no thread that it can reach has a record afterwards. */
SEC("iter/task")
int forget_task(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct processor *p = this_processor();
	u32 number = task && p ? thread_record_of(task) : 0;
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	if (record)
		end_thread(p, record, number, task, bpf_ktime_get_ns());
	return 0;
}
