/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The least cost of any program on these hooks: an empty program, and one that reads the clock once. */
#include "shared/kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

volatile u64 sink;

#define EMPTY(hook)            \
	SEC("tp_btf/" #hook)       \
	int empty_##hook(u64 *ctx) \
	{                          \
		(void)ctx;             \
		return 0;              \
	}
#define CLOCK(hook)            \
	SEC("tp_btf/" #hook)       \
	int clock_##hook(u64 *ctx) \
	{                          \
		(void)ctx;             \
		sink = bpf_ktime_get_ns(); \
		return 0;              \
	}

EMPTY(sys_enter)
EMPTY(sys_exit)
EMPTY(sched_switch)
EMPTY(sched_wakeup)
CLOCK(sys_enter)
CLOCK(sys_exit)
CLOCK(sched_switch)
CLOCK(sched_wakeup)
