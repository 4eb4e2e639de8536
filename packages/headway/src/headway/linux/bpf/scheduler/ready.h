/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Why a thread is ready and does not run. Each processor has clocks (run_clock.h). A thread that becomes ready keeps what
 * they show on the processor where it is ready. When it gets the processor, the differences are the parts of the time that
 * it was ready (ready_parts.h). If it goes to another processor in between, what it keeps is changed so that the
 * differences on both add up. So a time ready costs the same, however many threads ran meanwhile.
 *
 * The parts stand beside the thread's cell READY, which has all of the time. What no part has was not divided.
 */
#ifndef HEADWAY_READY_H
#define HEADWAY_READY_H

#include "scheduler/processes.h"
#include "scheduler/ready_parts.h"
#include "scheduler/run_queues.h"

enum { MAX_RT_PRIO = 100, CLOCK_TRIES = 3 };

INLINE struct run_clock *run_clock_of(u32 cpu)
{
	return bpf_map_lookup_elem(&run_clocks, &cpu);
}

/* Returns the clock of a process on a processor; NULL: it has none. */
INLINE u64 *process_clock_of(u32 process, u32 cpu)
{
	u32 key = cpu * settings.n_processes + process;
	return process < settings.n_processes ? bpf_map_lookup_elem(&process_clocks, &key) : NULL;
}

/* Returns how long the hypervisor has had the processor of a run queue, by the kernel's count. */
INLINE u64 stolen_from(struct rq *rq)
{
	return settings.has_steal && rq && FIELD_EXISTS(rq->prev_steal_time_rq) ? rq->prev_steal_time_rq : 0;
}

/* Whether the thread can be throttled with the queue that it is in. */
INLINE bool can_be_throttled(struct task_struct *task)
{
	if (task->prio < MAX_RT_PRIO)
		return false;
	/* Where single threads are throttled, one that is not goes on until it is about to return to user code. */
	return !FIELD_EXISTS(task->throttled) || task->throttled;
}

/*
 * Instead of a run queue: the thread, or all of its priority, has no runtime left (SCHED_DEADLINE; sched_rt_runtime_us). It
 * is throttled from when it became ready until it runs: the clock always runs.
 */
#define BY_ITS_RUNTIME 1ull

/* Returns BY_ITS_RUNTIME if a thread is throttled so, else 0. `rq`: of its processor. */
INLINE u64 throttled_by_runtime(struct task_struct *task, struct rq *rq)
{
	if (LIKELY(task->prio >= MAX_RT_PRIO))
		return 0;
	if (FIELD_EXISTS(task->dl.dl_throttled) && BITFIELD(task, dl.dl_throttled))
		return BY_ITS_RUNTIME;
	if (task->prio < 0 || !FIELD_EXISTS(rq->rt.rt_throttled))
		return 0;
	if (FIELD_EXISTS(task->rt.rt_rq)) {
		struct rt_rq *queue = FOLLOW(task, rt.rt_rq); /* as `queue_of` says, but few threads come here */
		if (FOLLOW(queue, rt_throttled))
			return BY_ITS_RUNTIME;
	}
	return rq && rq->rt.rt_throttled ? BY_ITS_RUNTIME : 0;
}

#define QUEUE_FIELD(queue, field) (direct ? (queue)->field : FOLLOW(queue, field))

/* Returns how long a run queue has been throttled. `direct`: the verifier knows the pointer. */
INLINE u64 throttled_time(struct cfs_rq *queue, bool direct)
{
	struct cfs_rq___task *old = (void *)queue;
	struct rq *rq;
	u64 time, since;
	if (FIELD_EXISTS(queue->throttled_clock_self_time)) {
		time = QUEUE_FIELD(queue, throttled_clock_self_time);
		since = QUEUE_FIELD(queue, throttled_clock_self);
		if (LIKELY(!since))
			return time;
		rq = FOLLOW(queue, rq);
		return time + FOLLOW(rq, clock) - since;
	}
	if (FIELD_EXISTS(queue->throttled_clock_pelt_time)) {
		time = QUEUE_FIELD(queue, throttled_clock_pelt_time);
		if (LIKELY(!QUEUE_FIELD(queue, throttle_count)))
			return time;
		rq = FOLLOW(queue, rq);
		since = FOLLOW(queue, throttled_clock_pelt);
		return time + FOLLOW(rq, clock_pelt) - FOLLOW(rq, lost_idle_time) - since;
	}
	if (FIELD_EXISTS(old->throttled_clock_task_time)) {
		time = QUEUE_FIELD(old, throttled_clock_task_time);
		if (LIKELY(!QUEUE_FIELD(queue, throttle_count)))
			return time;
		rq = FOLLOW(queue, rq);
		since = FOLLOW(old, throttled_clock_task);
		return time + FOLLOW(rq, clock_task) - since;
	}
	return 0;
}

/*
 * Reads the clocks of a processor for a process; `stolen` and `throttled` are there already. `deferred`: time of interrupts
 * that the clocks do not have yet (deferred_interrupts.h). Returns whether the figures fit together.
 */
INLINE bool read_clocks(u32 cpu, u32 process, u64 at, u64 deferred, struct ready_clocks *to)
{
	struct run_clock *clock = run_clock_of(cpu);
	u64 *own = process_clock_of(process, cpu);
	if (!clock || !own)
		return false;
	for (u32 i = 0; i < CLOCK_TRIES; i++)
		if (LIKELY(try_to_read_clocks(clock, own, process, at, deferred, to)))
			return true;
	return false;
}

/* The same of a queue whose pointer the verifier does not know, for rare work. */
GLOBAL u64 stolen_from_any(u64 pointer)
{
	struct cfs_rq *queue = (struct cfs_rq *)pointer;
	if (!settings.has_steal || !queue || !FIELD_EXISTS(queue->rq->prev_steal_time_rq))
		return 0;
	struct rq *rq = FOLLOW(queue, rq);
	return FOLLOW(rq, prev_steal_time_rq);
}

GLOBAL u64 throttled_time_of(u64 queue, u64 now)
{
	if (queue == BY_ITS_RUNTIME)
		return now;
	return queue ? throttled_time((struct cfs_rq *)queue, false) : 0;
}

/* The processor goes from one thread to the next, at this moment. `process`: the next thread's. */
GLOBAL u64 switch_run_clock(u32 cpu, u64 stolen, u32 process, u64 now)
{
	struct run_clock *clock = run_clock_of(cpu);
	if (!clock)
		return 0;
	u64 *own = clock->process ? process_clock_of(clock->process, cpu) : NULL;
	if (now < clock->switched)
		now = clock->switched;
	clock->sequence++;
	ORDER();
	clock->interrupts = switch_interrupts(clock->interrupts, now, 0);
	end_run(clock, own, now, stolen);
	clock->process = process;
	ORDER();
	clock->sequence++;
	return 0;
}

/* A thread that is not measured follows another one. The clocks do not tell most of these apart. */
INLINE void note_unmeasured_switch(u32 cpu, struct task_struct *next)
{
	u32 process = process_of_unmeasured(next);
	struct run_clock *clock = run_clock_of(cpu);
	if (clock && clock->process != process)
		switch_run_clock(cpu, stolen_from(processor_queue_of(queue_of(next))), process, bpf_ktime_get_ns());
}

/* The state of the processor is an interrupt from now on, or it is not any more. */
INLINE void note_interrupt_clock(struct processor *p, u64 now)
{
	struct run_clock *clock = settings.divide_ready ? run_clock_of(bpf_get_smp_processor_id()) : NULL;
	if (clock)
		clock->interrupts = switch_interrupts(clock->interrupts, now, (u32)p->state - IRQ_DEVICE < (u32)N_INTERRUPTS);
}

/* Interrupts that were deferred have been charged. If one interrupts another, the clock has its time already. */
INLINE void note_absorbed_interrupts(u64 time)
{
	struct run_clock *clock = settings.divide_ready ? run_clock_of(bpf_get_smp_processor_id()) : NULL;
	if (clock && !(clock->interrupts & 1))
		clock->interrupts += 2 * time;
}

/* Time was stolen while the processor was in this state. The kernel's count has it, which is subtracted from runs, too. */
INLINE void note_stolen_in(u32 state, u64 time)
{
	struct run_clock *clock = settings.divide_ready ? run_clock_of(bpf_get_smp_processor_id()) : NULL;
	if (clock && state - IRQ_DEVICE < (u32)N_INTERRUPTS)
		clock->interrupts = without_stolen(clock->interrupts, time);
}

/* A thread becomes ready on a processor: keeps what the clocks show there. */
GLOBAL u64 keep_clocks(u32 number, u32 cpu, u64 now, u64 deferred)
{
	struct thread_record *record = thread_record_at(number);
	if (record && read_clocks(cpu, record->process, now, deferred, &record->ready))
		record->ready_cpu = cpu + 1;
	return 0;
}

/* A thread becomes ready in a run queue. The caller has the queue's lock. `stolen`: what stolen_from returns for it. */
INLINE void begin_ready(u32 here, struct processor *p, struct task_struct *task, struct cfs_rq *queue, u64 stolen,
	struct thread_record *record, u64 now)
{
	u32 cpu = processor_of(task);
	u64 deferred = 0;
	record->ready_cpu = 0;
	if (!record->process)
		return;
	if (cpu == here) {
		deferred = p->deferred_total - p->absorbed_total;
		if (p->deferred_depth)
			deferred += now - p->deferred_since;
	}
	bool throttled = queue && can_be_throttled(task);
	record->ready_queue = throttled ? (u64)queue : throttled_by_runtime(task, processor_queue_of(queue));
	record->ready.throttled = throttled ? throttled_time(queue, true) : now;
	record->ready.stolen = stolen;
	keep_clocks(record->number, cpu, now, deferred);
}

/* The verifier looks at this once for each program, and not for each way that leads here. */
GLOBAL u64 divide_ended_ready(u32 number, u32 cpu, u64 now, u64 throttled)
{
	struct ready_clocks clocks;
	struct thread_record *record = thread_record_at(number);
	struct run_clock *clock = run_clock_of(cpu);
	u64 *own = record ? process_clock_of(record->process, cpu) : NULL;
	if (!record || !clock || !own)
		return 0;
	u64 *parts = record->ended_parts;
	clocks_at_switch(clock, *own, &clocks);
	clocks.throttled = throttled;
	divide_ready(&record->ready, &clocks, now - record->since, parts);
	u32 most = largest_part(parts);
#pragma unroll
	for (u32 i = 0; i < N_READY_PARTS; i++) {
		record->ready_parts[i].time += parts[i];
		record->ready_parts[i].count += is_negative((__u64)(i ^ most) - 1); /* 1 for the largest */
	}
	return 1;
}

/*
 * A thread that was ready gets this processor, at the switch that its clocks have just shown. Divides the time since the
 * thread became ready, and returns whether it could. Where it could not, the thread became ready unseen, or the clocks
 * could not be read then. `queue`: the run queue that the thread is in; NULL: not asked for.
 */
INLINE bool end_ready(u32 cpu, struct cfs_rq *queue, struct thread_record *record, u32 number, u64 now)
{
	u32 on = record->ready_cpu;
	u64 kept = record->ready_queue, throttled = record->ready.throttled;
	record->ready_cpu = 0;
	if (on != cpu + 1 || (s64)(now - record->since) < 0)
		return false;
	if (UNLIKELY(kept))
		throttled = queue && (u64)queue == kept ? throttled_time(queue, true) : throttled_time_of(kept, now);
	return divide_ended_ready(number, cpu, now, throttled);
}

/* A thread that is ready goes to another processor. What it keeps is changed to that processor's clocks. */
NOINLINE int move_ready(struct task_struct *task, struct thread_record *record, u32 cpu, u64 now)
{
	struct ready_clocks from = {}, to = {};
	u32 on = record->ready_cpu;
	u64 queue = record->ready_queue;
	struct cfs_rq *other = NULL;
	record->ready_cpu = 0;
	if (FIELD_EXISTS(task->sched_task_group) && FIELD_EXISTS(task->sched_task_group->cfs_rq)) {
		struct cfs_rq **queues = task->sched_task_group->cfs_rq;
		bpf_probe_read_kernel(&other, sizeof(other), queues + cpu);
	}
	from.stolen = stolen_from(processor_queue_of(queue_of(task)));
	to.stolen = stolen_from_any((u64)other);
	if (queue == BY_ITS_RUNTIME) /* wherever it is */
		other = (struct cfs_rq *)queue;
	if (queue) {
		from.throttled = throttled_time_of(queue, now);
		to.throttled = throttled_time_of((u64)other, now);
	}
	if (!read_clocks(on - 1, record->process, now, 0, &from) || !read_clocks(cpu, record->process, now, 0, &to))
		return 0;
	move_ready_clocks(&record->ready, &from, &to);
	record->ready_queue = queue ? (u64)other : 0;
	record->ready_cpu = cpu + 1;
	return 0;
}

/*
 * Divides the time of a thread that is still ready, as of a snapshot that has just been. The clocks are read after it, so a
 * part can have some microseconds too much, at the cost of `wakeup`; but none has more than it will have in the end.
 */
NOINLINE int divide_open_ready(struct thread_record *record, struct thread_snapshot *to, u64 at)
{
	struct ready_clocks clocks = {};
	u64 since = record->since, now = bpf_ktime_get_ns();
	u32 cpu = record->ready_cpu - 1;
	to->open_until = 0;
	struct processor *p = bpf_map_lookup_elem(&processors, &cpu);
	if (!p || since >= at || now < at)
		return 0;
	clocks.stolen = p->steal > record->ready.stolen ? p->steal : record->ready.stolen;
	clocks.throttled = throttled_time_of(record->ready_queue, at);
	if (!read_clocks(cpu, record->process, now, 0, &clocks))
		return 0;
	divide_ready(&record->ready, &clocks, at - since, to->open_parts);
	to->open_since = since;
	ORDER();
	if (record->since == since && record->state == READY && !record->cpu)
		to->open_until = at;
	return 0;
}

/*
 * Writes a time ready that was divided, to the ring of absences or, for handlers that run with interrupts on, to the ring
 * of spans. All of the time is a row of its largest part; the other parts are taken from that, because nobody knows when
 * they were.
 */
u64 record_ready(u32 number, u64 since, u64 until, u32 among_spans)
{
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	if (!p || !record || !OPTION(record) || !(among_spans ? has_span_room(p) : has_absence_room(p)))
		return 0;
	u32 most = largest_part(record->ended_parts), others = 0;
	for (u32 i = 0; i < N_READY_PARTS; i++)
		others += i != most && record->ended_parts[i];
	u64 next = among_spans ? p->written : p->written_absences;
	u64 words[3] = {RECORD_ABSENCE | (u64)(READY_PART + most) << RECORD_STATE | (u64)number << ABSENCE_NUMBER |
			(u64)others << ABSENCE_WAKER,
		since, until};
	for (u32 i = 0; i < 3; i++, next++)
		if (among_spans)
			put_span_word(next, words[i]);
		else
			put_absence_word(next, words[i]);
	for (u32 i = 0; i < N_READY_PARTS; i++) {
		u64 word = (u64)(READY_PART + i) << PART_STATE | record->ended_parts[i] << PART_TIME;
		if (i == most || !record->ended_parts[i])
			continue;
		if (among_spans)
			put_span_word(next++, word);
		else
			put_absence_word(next++, word);
	}
	ORDER();
	if (among_spans)
		p->written = next;
	else
		p->written_absences = next;
	return 0;
}

#endif
