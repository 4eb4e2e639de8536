/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Samples of the state, while time is not divided: a timer on each processor interrupts the running thread now and then,
 * and what it interrupts is counted. A reader divides the thread's time in these proportions.
 *
 * The timer cannot interrupt what runs with interrupts off: an interrupt's handler, parts of the scheduler. A sample that
 * is due meanwhile is taken when interrupts are on again.
 */
#ifndef HEADWAY_STATE_SAMPLES_H
#define HEADWAY_STATE_SAMPLES_H

#include "events/levels.h"
#include "regions/regions.h"

/* struct bpf_perf_event_data (include/uapi/linux/bpf_perf_event.h), which begins with the registers. */
#if defined(__TARGET_ARCH_x86)
enum { N_REGISTERS = 15 }; /* for general use, but for the stack pointer */
struct sample_context {
	u64 registers[N_REGISTERS], call, ip, cs, flags, sp, ss;
	u64 sample_period, addr;
};
#define IS_USER_MODE(context) ((context)->cs & 3)
#define INSTRUCTION(context) ((context)->ip)
#else
enum { N_REGISTERS = 31 };
struct sample_context {
	u64 registers[N_REGISTERS], sp, pc, pstate;
	u64 sample_period, addr;
};
#define IS_USER_MODE(context) (!((context)->pstate & 0xf)) /* PSR_MODE_EL0t */
#define INSTRUCTION(context) ((context)->pc)
#endif

/* The state of the running thread, by what the sample interrupted. */
INLINE u32 interrupted_state(struct sample_context *context, struct task_struct *task)
{
	if (IS_USER_MODE(context))
		return USER;
	if (is_on_interrupt_stack(task, context->sp))
		return IRQ_ANY;
	u32 state = state_by_registers(task);
	return state == USER ? KERNEL_FAULT : state; /* user code is not in the kernel but for a fault */
}

/* The first place is for user code, also for that of regions for which there is no place: it is of another kind than the
 * kernel's states. */
INLINE void count_sample(struct sample_count *samples, u32 state)
{
	samples->state = USER;
	if (state == USER) {
		samples->count++;
		return;
	}
	for (u32 i = 1; i < N_SAMPLED; i++) {
		struct sample_count *place = &samples[i];
		if (place->state && place->state != state) {
			if (i < N_SAMPLED - 1)
				continue;
			if (is_user(state)) {
				samples->count++;
				return;
			}
			state = KERNEL_OTHER;
		}
		place->state = state;
		place->count++;
		return;
	}
}

#endif
