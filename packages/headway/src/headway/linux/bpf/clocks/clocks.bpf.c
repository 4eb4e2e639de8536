/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Read the clocks that the kernel keeps of every thread, at intervals and at its end.
 *
 * No program here runs at anything that happens often: an iterator goes through the threads when the reader looks, and
 * tracepoints tell of births, of programs that are executed, and of ends. So the cost does not depend on how often threads
 * switch, or call the kernel.
 *
 * The scheduler brings the run time of a thread on a processor up to date at its tick and when the thread leaves, and its
 * time in the queue when it gets a processor. Both are brought up to the moment of the look here: the scheduler's clock then
 * is CLOCK_MONOTONIC plus an offset, which is learnt at each look from the run queue of the reader. It has just been
 * switched to, or has called sched_yield(2), which both set that clock.
 */
#include "clocks/clock_layout.h"
#include "shared/kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile struct clock_settings settings SEC(".rodata.settings");
volatile struct clock_control control;

#include "scheduler/run_queues.h"
#include "threads/selection.h"
#include "waits/file_kinds.h"

struct seq_file;
static long (*const bpf_seq_write)(struct seq_file *to, const void *data, u32 size) = (void *)127;

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 seq_num;
} CORE;

struct sched_entity___clocks {
	u64 exec_start; /* when sum_exec_runtime was brought up to date, by the run queue's clock of threads */
} CORE;

struct sched_info___clocks {
	unsigned long pcount;
} CORE;

struct task_struct___clocks {
	u64 utime, stime;
	unsigned long nvcsw, nivcsw;
	struct sched_entity___clocks se;
	struct sched_info___clocks sched_info;
} CORE;

/* What is known of a measured thread. */
struct clock_thread {
	u64 born;
	u64 exited; /* when its exit began; 0: it has not */
	u64 exit_run, exit_ready; /* its clocks then */
	u64 arrivals; /* as of the last look */
	u32 tid, pid;
	u32 file; /* what it waited for at the last look */
	u8 found; /* the reader has not seen it yet, and it had lived before measuring began */
	u8 told; /* the reader knows that it has ended */
};

struct {
	UINT(type, MAP_TASK_STORAGE);
	UINT(map_flags, F_NO_PREALLOC);
	TYPE(key, int);
	TYPE(value, struct clock_thread);
} clock_threads SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 4096);
} clock_events SEC(".maps");

enum {
	WAKE_READER_AT = 1 << 18, /* bytes in the ring */
	LONGEST_RUN = 1 << 30 /* ns: no thread runs longer without a tick, but where ticks are off */
};

INLINE struct clock_thread *known_thread(struct task_struct *task)
{
	return bpf_task_storage_get(&clock_threads, task, NULL, 0);
}

/* Begins to measure a thread; `born`: from when on. */
INLINE struct clock_thread *begin_thread(struct task_struct *task, u32 tid, u32 pid, u64 born)
{
	struct clock_thread *thread = bpf_task_storage_get(&clock_threads, task, NULL, STORAGE_CREATE);
	if (!thread) {
		add_shared((u64 *)&control.unmeasured, 1);
		return NULL;
	}
	if (!thread->born) {
		thread->tid = tid;
		thread->pid = pid;
		thread->born = born;
	}
	return thread;
}

/* ---- the clocks ---- */

/* Returns how long a thread has run since its run time was brought up to date; 0: that is not known. */
INLINE u64 run_since_update(struct task_struct *task, u64 updated, u64 at)
{
	struct rq *rq = processor_queue_of(queue_of(task));
	if (!rq || !control.offset_known)
		return 0;
	u64 behind = rq->clock - rq->clock_task; /* interrupts and stolen time, which are no thread's */
	s64 since = at + control.offset - behind - updated;
	return since > 0 && since < LONGEST_RUN ? since : 0;
}

INLINE void read_run(struct clock_reading *r, struct task_struct *task, u64 at)
{
	struct task_struct___clocks *clocks = (void *)task;
	u64 run = task->se.sum_exec_runtime, updated = clocks->se.exec_start;
	u64 since = task->on_cpu ? run_since_update(task, updated, at) : 0;
	ORDER();
	u64 again = task->se.sum_exec_runtime;
	r->run = again == run ? run + since : again; /* it was brought up to date just now */
}

INLINE void read_ready(struct clock_reading *r, struct task_struct *task, u64 at)
{
	struct task_struct___clocks *clocks = (void *)task;
	if (!FIELD_EXISTS(task->sched_info.run_delay))
		return;
	u64 ready = task->sched_info.run_delay, queued = task->sched_info.last_queued;
	s64 since = queued && control.offset_known ? at + control.offset - queued : 0;
	ORDER();
	u64 again = task->sched_info.run_delay;
	r->ready = again == ready && since > 0 ? ready + since : again;
	r->arrivals = clocks->sched_info.pcount;
	if (queued)
		r->flags |= CLOCKS_RUNNABLE;
}

/* What the thread waits for, if it does: the call that it is in, and the kind of the file that this is about. */
INLINE void read_wait(struct clock_reading *r, struct task_struct *task, struct clock_thread *thread)
{
	u32 why = task->__state;
	r->call = CLOCKS_CALL_UNKNOWN;
	if (!why || task->on_cpu)
		r->flags |= CLOCKS_RUNNABLE;
	if (r->flags & CLOCKS_RUNNABLE)
		return;
	if (why & (TASK_STATE_STOPPED | TASK_STATE_TRACED))
		r->flags |= CLOCKS_STOPPED;
	if (why & 2) /* TASK_UNINTERRUPTIBLE */
		r->flags |= CLOCKS_UNINTERRUPTIBLE;
	if (task->flags & (PF_KTHREAD | PF_WORKER)) {
		r->flags |= CLOCKS_KERNEL_THREAD;
		return;
	}
	struct pt_regs *regs = bpf_task_pt_regs(task);
	long call = CALL_IN_PROGRESS(regs);
	if (COMPAT_CALL(regs))
		return;
	r->call = call >= 0 && call <= 0xffff ? (u32)call : CLOCKS_NO_CALL;
	if (r->call == CLOCKS_NO_CALL)
		return;
	if (r->arrivals && thread->arrivals == r->arrivals) { /* it waits for the same thing as at the last look */
		r->file = thread->file;
		return;
	}
	u64 number = argument(regs, 1);
	struct file *file = number < 0x7fffffff ? file_of(task, number) : NULL;
	r->file = thread->file = file ? kind_by_inode(file) : FILE_NONE;
	thread->arrivals = r->arrivals;
}

INLINE void read_counts(struct clock_reading *r, struct task_struct *task)
{
	struct task_struct___clocks *clocks = (void *)task;
	r->user = clocks->utime;
	r->system = clocks->stime;
	r->voluntary = clocks->nvcsw;
	r->involuntary = clocks->nivcsw;
	r->minor = task->min_flt;
	r->major = task->maj_flt;
}

/* Fills a reading of zeros. */
INLINE void read_thread(
	struct clock_reading *r, struct task_struct *task, struct clock_thread *thread, u32 kind, u64 at)
{
	r->task = (u64)task;
	r->born = thread->born;
	r->at = at;
	r->tid = thread->tid;
	r->pid = thread->pid;
	r->kind = kind;
	read_run(r, task, at);
	read_ready(r, task, at);
	read_counts(r, task);
	bpf_probe_read_kernel(r->name, sizeof(r->name), &task->comm);
}

/* A thread has ended: what it ran and was ready after its exit began is what its last part took. */
INLINE void date_end(struct clock_reading *r, const struct clock_thread *thread, u64 now)
{
	u64 after = (r->run - thread->exit_run) + (r->ready - thread->exit_ready);
	r->kind = CLOCKS_ENDED;
	if (!thread->exited) /* its exit did not show */
		r->at = now;
	else
		r->at = (s64)after > 0 && thread->exited + after < now ? thread->exited + after : thread->exited;
}

INLINE void send(const struct clock_reading *r)
{
	u64 flags = bpf_ringbuf_query(&clock_events, RING_AVAILABLE) > WAKE_READER_AT ? RING_FORCE_WAKEUP : RING_NO_WAKEUP;
	if (bpf_ringbuf_output(&clock_events, r, sizeof(*r), flags))
		add_shared((u64 *)&control.lost, 1);
}

/* ---- looks ---- */

/* At the beginning of a look: its moment, and what the scheduler's clock shows then. */
INLINE void begin_look(void)
{
	struct task_struct *reader = bpf_get_current_task_btf();
	struct rq *rq = processor_queue_of(queue_of(reader));
	struct pid *own = reader->thread_pid;
	if (settings.namespace_inum && !control.namespace_level && own)
		control.namespace_level = own->level;
	u64 now = bpf_ktime_get_ns();
	if (rq) {
		control.offset = rq->clock - now;
		control.offset_known = 1;
	}
	control.at = now;
}

/* Returns the thread if it is measured, and begins with one that is to be. */
INLINE struct clock_thread *measured_thread(struct task_struct *task, u32 tid, u32 pid)
{
	struct clock_thread *thread = known_thread(task);
	if (thread)
		return thread;
	if (task->exit_state)
		return NULL;
	if (!is_selected(task, tid, pid)) {
		/* Threads that the kernel creates for a process (io_uring's workers) are not forked. */
		if (!settings.follow || !(task->flags & PF_WORKER) || task->flags & PF_KTHREAD)
			return NULL;
		struct task_struct *leader = task->group_leader;
		if (!leader || !known_thread(leader))
			return NULL;
	}
	bool fresh = task->start_time >= control.start;
	thread = begin_thread(task, tid, pid, fresh ? task->start_time : control.at);
	if (thread && !fresh)
		thread->found = 1;
	return thread;
}

/* The reader runs this for each look. A thread for which there was no room in what it reads comes again. */
SEC("iter/task")
int read_clocks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct bpf_iter_meta *meta = ctx->meta;
	struct clock_reading r = {};
	u32 tid = 0, pid = 0;
	if (!task)
		return 0;
	if (!meta->seq_num)
		begin_look();
	if (!task->pid || !in_namespace(task, &tid, &pid))
		return 0;
	struct clock_thread *thread = measured_thread(task, tid, pid);
	if (!thread || thread->told)
		return 0;
	thread->tid = tid;
	thread->pid = pid;
	read_thread(&r, task, thread, thread->found ? CLOCKS_FOUND : CLOCKS_SEEN, control.at);
	bool ended = task->exit_state && !task->on_cpu;
	if (ended)
		date_end(&r, thread, bpf_ktime_get_ns());
	else
		read_wait(&r, task, thread);
	struct seq_file *to = meta->seq;
	if (!bpf_seq_write(to, &r, sizeof(r))) {
		thread->found = 0;
		thread->told = ended;
	}
	return 0;
}

/* ---- threads that come, change and go ---- */

SEC("tp_btf/sched_process_fork")
int note_fork(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 tid = 0, pid = 0, parent_tid = 0, parent_pid = 0;
	if (!in_namespace(child, &tid, &pid))
		return 0;
	bool measure = settings.everything;
	if (!measure && settings.follow)
		measure = known_thread(parent) ||
			(in_namespace(parent, &parent_tid, &parent_pid) && bpf_map_lookup_elem(&selected_pids, &parent_pid));
	if (!measure && (settings.cgroup || settings.name_length))
		measure = is_selected(child, tid, pid);
	if (measure)
		begin_thread(child, tid, pid, bpf_ktime_get_ns());
	return 0;
}

/* The thread that executes a program takes the id of its process. */
SEC("tp_btf/sched_process_exec")
int note_exec(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct clock_reading r = {};
	u32 tid = 0, pid = 0;
	if (!in_namespace(task, &tid, &pid))
		return 0;
	struct clock_thread *thread = known_thread(task);
	if (thread) {
		thread->tid = tid;
		thread->pid = pid;
		return 0;
	}
	if (!control.command || control.command != tid)
		return 0;
	control.command = 0;
	u64 now = bpf_ktime_get_ns();
	thread = begin_thread(task, tid, pid, now);
	if (!thread)
		return 0;
	read_thread(&r, task, thread, CLOCKS_BEGUN, now);
	send(&r);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int note_exit(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct clock_thread *thread = known_thread(task);
	struct clock_reading r = {};
	if (!thread)
		return 0;
	read_thread(&r, task, thread, CLOCKS_EXITING, bpf_ktime_get_ns());
	thread->exited = r.at;
	thread->exit_run = r.run;
	thread->exit_ready = r.ready;
	send(&r);
	return 0;
}

/* Nobody needs the thread any more: it has left its processor for the last time, a grace period of RCU ago. */
SEC("tp_btf/sched_process_free")
int note_end(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct clock_thread *thread = known_thread(task);
	struct clock_reading r = {};
	if (!thread || thread->told)
		return 0;
	u64 now = bpf_ktime_get_ns();
	read_thread(&r, task, thread, CLOCKS_ENDED, now);
	date_end(&r, thread, now);
	send(&r);
	return 0;
}
