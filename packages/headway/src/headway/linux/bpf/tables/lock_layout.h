/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What locks.bpf.c tells of locks, and its reader takes. list_layout.py makes of this header the module _lock_layout. */
#ifndef HEADWAY_LOCK_LAYOUT_H
#define HEADWAY_LOCK_LAYOUT_H

#include "shared/layout.h"

enum lock_size {
	N_HOLDER_CELLS = 48, /* states of a holder that are told apart; it is rarely in more */
};

struct lock_key {
	__u64 address;
	__u32 pid;
	__u32 spare;
};

/* A lock that threads wait for, or did. */
struct contention {
	__u64 since; /* when the first of those that wait began to */
	__u64 held; /* ns in which at least one waited, until then */
	__u64 waiters;
};

struct doing_key {
	__u64 address;
	__u32 pid;
	__u32 holder; /* its id, as the lock has it */
	__u32 state; /* STATE_NONE: the lock went through other hands, so it is not known what its holder did */
	__u32 spare;
};

/* One thread, by the number of its record: the wait for a lock in which it is, and what the holder had done when it began. */
struct lock_wait {
	__u64 birth;
	__u64 since; /* 0: it is in none */
	__u64 address;
	__u32 pid;
	__u32 holder; /* 0: not known */
	__u32 record; /* the holder's */
	__u32 used; /* cells of the holder */
	__u64 holder_birth;
	__u64 open_time; /* how long the holder had been in that state */
	__u32 open_state;
	__u32 spare;
	__u64 times[N_HOLDER_CELLS];
};

#endif
