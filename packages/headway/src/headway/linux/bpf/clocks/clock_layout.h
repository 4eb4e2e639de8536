/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the programs of clocks.bpf.c and their reader share. Times are ns; moments are of CLOCK_MONOTONIC. */
#ifndef HEADWAY_CLOCK_LAYOUT_H
#define HEADWAY_CLOCK_LAYOUT_H

#ifdef __bpf__
typedef unsigned char __u8;
typedef unsigned int __u32;
typedef unsigned long long __u64;
#else
#include <linux/types.h>
#endif

/* How threads are selected. Nobody writes it once the programs are loaded. */
struct clock_settings {
	__u64 cgroup; /* its id; 0: none */
	__u32 cgroup_level;
	__u32 namespace_inum; /* of the reader's pid namespace; 0: the initial one */
	__u8 everything;
	__u8 follow;
	__u8 name_length;
	__u8 name_prefix;
	__u8 name[16];
};

/* What the reader tells the programs, and they it. */
struct clock_control {
	__u64 start; /* threads that were created later are measured from their birth; all ones: measuring has not begun */
	__u64 at; /* the moment of the look that is under way, or was the last */
	__u64 offset; /* what the scheduler's clock shows beyond CLOCK_MONOTONIC */
	__u64 lost; /* readings that found no room in the ring */
	__u64 unmeasured; /* threads that found no room */
	__u32 offset_known;
	__u32 namespace_level;
	__u32 command; /* the thread that is measured from the moment it executes a program */
	__u32 hole;
};

enum clock_reading_kind {
	CLOCKS_SEEN, /* at a look */
	CLOCKS_FOUND, /* at the first look at a thread that is not measured from its birth */
	CLOCKS_BEGUN, /* the command has executed its program */
	CLOCKS_EXITING, /* the thread runs, for the last time */
	CLOCKS_ENDED /* it will not run again */
};

enum clock_reading_flag {
	CLOCKS_RUNNABLE = 1, /* it has a processor, or is in the queue of one */
	CLOCKS_STOPPED = 2,
	CLOCKS_KERNEL_THREAD = 4,
	CLOCKS_UNINTERRUPTIBLE = 8
};

enum clock_call { CLOCKS_NO_CALL = 0xffffffff, CLOCKS_CALL_UNKNOWN = 0xfffffffe };

/* The kernel's clocks of one thread. */
struct clock_reading {
	__u64 task; /* with `born`: tells the thread from all others, whatever its id becomes */
	__u64 born; /* when it was born, or first found */
	__u64 at;
	__u64 run; /* on a processor */
	__u64 ready; /* in the queue of one */
	__u64 arrivals; /* how often it got a processor */
	__u64 user, system; /* as the kernel divides the time on a processor: by samples at its tick, nearly everywhere */
	__u64 voluntary, involuntary; /* switches to another thread */
	__u64 minor, major; /* page faults */
	__u32 tid, pid;
	__u32 kind;
	__u32 flags;
	__u32 call; /* the system call that it is in */
	__u32 file; /* the kind of the file that the call's first argument numbers (enum file_kind) */
	__u8 name[16];
};

#endif
