/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The way back from the kernel to user code. After a call has ended (sys_exit), the kernel does what was put off: it frees
 * files and their memory (task work), and prepares signal handlers. That it is done is no event. It was not done at an
 * event that finds the registers of the call still in place, because every other way into the kernel overwrites them. The
 * first event that finds user code to have run divides the time since the last one: what such a way back takes at least
 * (control.ways_back, calibrated) is the kernel's, the rest is the thread's.
 */
#ifndef HEADWAY_WAY_BACK_H
#define HEADWAY_WAY_BACK_H

#include "threads/threads.h"

INLINE bool is_way_back(u32 state)
{
	return state - KERNEL_TASK_WORK <= KERNEL_SIGNAL - KERNEL_TASK_WORK;
}

/*
 * The running thread waits in the kernel, outside of any of the kernel's states: a tracer or a filter stops it before its
 * call, or something stops it after that. Returns the state with which it goes on; 0: it is in no call.
 */
GLOBAL u32 state_around_call(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	if (!is_in_call(task))
		return 0;
	return HAS_NOT_BEGUN(bpf_task_pt_regs(task)) ? state_by_registers(task) : KERNEL_SIGNAL;
}

/* Whether the running thread does something for the kernel before it goes back to user code. */
INLINE bool has_task_work(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	return FIELD_EXISTS(task->task_works) && task->task_works;
}

/*
 * The running thread is on its way back, or was. `state`: USER if it is known to have been in user code. `now`: no snapshot
 * is between it and what was charged last, so nothing is charged beyond it.
 */
GLOBAL int end_way_back(u32 number, u32 state, u64 now)
{
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	if (!p || !record || !is_way_back(p->state))
		return 0;
	if (state != USER && is_in_call(bpf_get_current_task_btf()))
		return 0;
	u32 back = p->state;
	u64 price = control.ways_back[back - KERNEL_TASK_WORK ? BACK_FROM_SIGNAL : BACK_FROM_TASK_WORK];
	u64 since = p->since, time = now - since;
	if ((s64)time < 0)
		time = 0;
	if (time > price && price != WAY_BACK_SOUGHT)
		time = price;
	p->since = since + time;
	p->state = record->user;
	cell_of(p, back)->time += time;
	cell_of(p, back)->count++;
	add_to_cell(record, back, time, 1);
	if (OPTION(record))
		record_any_span(number, since, since + time, time, back | 1 << 16);
	return 0;
}

/* Signals without a handler, by what they do (signal(7)). */
enum {
	SIGNAL_KILL = 9,
	IGNORED_SIGNALS = 1 << 17 | 1 << 18 | 1 << 23 | 1 << 28, /* CHLD, CONT, URG, WINCH */
	STOPPING_SIGNALS = 1 << 19 | 1 << 20 | 1 << 21 | 1 << 22, /* STOP, TSTP, TTIN, TTOU */
	/* QUIT, ILL, TRAP, ABRT, BUS, FPE, SEGV, XCPU, XFSZ, SYS: the memory may be written to a file */
	DUMPING_SIGNALS = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 11 | 1 << 24 | 1 << 25,
	SIGNAL_SYS = 31,
};

/* Returns the state of a thread to which a signal is delivered. */
INLINE u32 state_at_signal(u32 signal, struct k_sigaction *action)
{
	if (signal == SIGNAL_KILL)
		return call_state(CALL_EXIT);
	if (FOLLOW(action, sa.sa_handler)) /* its own handler, or SIG_IGN (1), which is nothing to do */
		return KERNEL_SIGNAL;
	if (signal == SIGNAL_SYS)
		return KERNEL_COREDUMP;
	if (signal < 32 && (IGNORED_SIGNALS | STOPPING_SIGNALS) >> signal & 1)
		return KERNEL_SIGNAL;
	return signal < 32 && DUMPING_SIGNALS >> signal & 1 ? KERNEL_COREDUMP : call_state(CALL_EXIT);
}

#endif
