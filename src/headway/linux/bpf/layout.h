/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the eBPF programs and the reader in user space share: the numbers of the states and the layout of the memory that
 * both have mapped. A state's name is given in states.py.
 */
#ifndef HEADWAY_LAYOUT_H
#define HEADWAY_LAYOUT_H

#ifdef __bpf__
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;
#else
#include <linux/types.h>
#endif

enum {
	N_CALLS = 512, /* system call numbers that have a state of their own; higher ones share KERNEL_OTHER */
	KERNEL_CALL = 128, /* kernel.<call> */
	WAIT_CALL = KERNEL_CALL + N_CALLS, /* wait.<call>, for calls without a reason of their own */
	N_STATES = WAIT_CALL + N_CALLS,
	N_CELLS = 128, /* states that one thread can be in before the rest share its last cell */
	N_NESTED = 8, /* states that can be interrupted one within the other */
	N_LOSSES = 16,
};

enum {
	STATE_NONE,
	USER,
	READY,
	UNKNOWN,
	STOLEN,
	OVERHEAD,
	IDLE,
	UNMEASURED,
	ELSEWHERE,
	STOPPED,
	KERNEL_FAULT,
	KERNEL_THREAD,
	KERNEL_OTHER,
	WAIT_FUTEX = 16,
	WAIT_DISK,
	WAIT_NET,
	WAIT_PIPE,
	WAIT_POLL,
	WAIT_EPOLL,
	WAIT_SLEEP,
	WAIT_CHILD,
	WAIT_FAULT,
	WAIT_SIGNAL,
	WAIT_IPC,
	WAIT_IO_URING,
	WAIT_FLOCK,
	WAIT_KTHREAD,
	WAIT_FILE,
	WAIT_OTHER,
	WAIT_BY_FILE, /* not a state: the file that the call is about decides */
	IRQ_DEVICE = 48,
	IRQ_TIMER,
	IRQ_RESCHEDULE,
	IRQ_CALL_FUNCTION,
	IRQ_CALL_FUNCTION_SINGLE,
	IRQ_WORK,
	IRQ_THERMAL,
	IRQ_THRESHOLD,
	IRQ_ERROR,
	IRQ_SPURIOUS,
	IRQ_DEFERRED_ERROR,
	IRQ_PLATFORM,
	IRQ_IPI,
	SOFTIRQ = 64, /* + vector, 0 to 9 */
	N_SOFTIRQS = 10,
	N_INTERRUPTS = 32, /* states from IRQ_DEVICE on */
};

enum { /* what can be lost, each counted */
	LOST_THREADS, /* threads not measured for want of a slot */
	LOST_EXITS, /* threads whose totals did not fit the ring when they ended */
	LOST_STATES, /* states that had to share a thread's last cell */
	LOST_NESTED, /* interrupts nested too deep: charged to the state they interrupted */
	LOST_SKIPPED, /* handlers that met another one at work twice over: likewise */
	LOST_UNMATCHED, /* ends of interrupts whose beginning was not seen */
	LOST_STEAL, /* ns stolen that no state could be found for */
	LOST_SWITCHES, /* switches from a measured thread that did not show */
	LOST_STORAGE, /* threads not measured for want of kernel memory */
};

struct cell {
	__u64 time; /* ns */
	__u64 count; /* occurrences; in a thread's cells the state stands in the upper 16 bits */
};

#define COUNT_BITS 48

/* One thread. Written by the processor that runs it; off the processor by whoever wakes or dispatches it, in turn. */
struct slot {
	__u64 birth; /* since when it is measured; 0: the slot is free */
	__u64 end; /* its exit */
	__u64 since; /* since when it is in `state`, when off the processor */
	__u64 runtime; /* the kernel's sum_exec_runtime when it last left a processor, less what it had before */
	__u64 runtime_before;
	__u32 tid;
	__u32 pid;
	__u32 cpu; /* the processor that it runs on, + 1; 0: on none */
	__u32 cut; /* number of the last cut it was saved for */
	__u16 state; /* off the processor: what it does there */
	__u16 resume; /* what it goes on with when it is dispatched */
	__u16 depth; /* of `nested` */
	__u16 used; /* cells in use */
	__u32 flags;
	__u32 spare;
	__u16 nested[N_NESTED]; /* states interrupted by `resume`, outermost first */
	char name[16];
	struct cell cells[N_CELLS]; /* as far as used, in order of first use */
	__u8 index[N_STATES]; /* state -> 1 + its cell; 0: none yet */
};

enum { SLOT_NEW = 1, SLOT_KERNEL_THREAD = 2 };

/* What of a slot is copied for a reader: all but the index. */
struct record {
	__u64 birth, end, since, runtime, runtime_before;
	__u32 tid, pid, cpu, cut;
	__u16 state, resume, depth, used;
	__u32 flags, spare;
	__u16 nested[N_NESTED];
	char name[16];
	struct cell cells[N_CELLS];
};

/* One processor. Written by that processor alone. */
struct processor {
	__u64 since; /* since when it is in `state`; 0: not measuring yet */
	__u32 slot; /* of the thread it runs; 0: one that is not measured, or none */
	__u16 state;
	__u16 depth;
	__u16 nested[N_NESTED];
	__u32 busy; /* a handler is at work: 1, and 2 when an interrupt's handler met it */
	__u32 cut;
	__u32 overflow; /* interrupts begun beyond N_NESTED */
	__u32 selected; /* threads are measured here */
	__u64 events;
	__u64 steal; /* the kernel's own count of stolen time at the last look */
	__u64 debt; /* stolen time not yet taken out of a state */
	__u64 task; /* the thread that we take to be running */
	__u64 switched, switched_clock; /* when it came, on our clock and on the run queue's */
	__u64 longest; /* the longest stretch since the last look, and its state */
	__u64 floor; /* stretches count from here on for `longest` */
	__u32 longest_state;
	__u32 steal_known;
	/* Interrupts that came while a handler was at work: gathered by theirs, taken over by the next handler. */
	__u64 deferred_since;
	__u64 deferred_total, absorbed_total;
	__u16 deferred_state, deferred_depth;
	__u16 deferred_nested[N_NESTED];
	__u32 spare;
	struct cell deferred[N_INTERRUPTS];
	struct cell absorbed[N_INTERRUPTS];
	__u64 losses[N_LOSSES];
	struct cell cells[N_STATES];
};

enum { SLOT_UNSEEN = 0xffffffff }; /* processor.slot: find out which thread is running */

/* Fixed before the programs are loaded: the verifier removes what is then unused. */
struct settings {
	__u32 everything; /* measure every thread */
	__u32 follow; /* measure what measured threads create */
	__u32 some_cpus; /* only on the processors selected */
	__u32 intervals; /* readers want cuts other than the last one */
	__u32 has_steal; /* the kernel accounts for stolen time */
	__u32 has_prev_state; /* sched_switch says why the thread leaves: commit fa2c3254d7cf, 5.18 */
	__u32 max_slots;
	__u32 namespace_inum; /* the reader's pid namespace; 0: the initial one */
	__u32 cgroup_level; /* at this level below the root, or deeper */
	__u64 cgroup; /* 0: not by cgroup */
	__u32 name_length; /* 0: not by name */
	__u32 name_prefix;
	char name[16];
	__u16 wait_of[N_CALLS]; /* call -> its state when it waits; 0: one of its own */
	__u16 compat_call[N_CALLS]; /* 32-bit call -> the native one of the same name; N_CALLS: none */
};

/* Written by user space, read by the programs. */
struct control {
	__u64 cut_at; /* all before this moment belongs to the cut, all after it does not */
	__u32 cut; /* its number */
	__u32 last; /* it is the last one: nothing after it is measured */
	__u32 command; /* a process of ours to be measured from its exec on; 0: none */
	__u32 only; /* measure no other thread than this one; 0: as selected */
	__u32 slots; /* slots handed out so far; written by the programs */
	__u32 namespace_level; /* of the reader's pid namespace; written by the programs */
};

#endif
