/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The files of poll(2) and select(2), which wait for one of several. When such a call returns it has marked in the program's
 * memory which of them are ready: the first one of these ended the wait. If there is only one, it is known before.
 */
#ifndef HEADWAY_POLLED_FILES_H
#define HEADWAY_POLLED_FILES_H

#include "waits/files.h"

#if defined(__TARGET_ARCH_x86)
enum { CALL_POLL = 7, CALL_PPOLL = 271 };
#else
enum { CALL_POLL = 73, CALL_PPOLL = 73 }; /* it has only this one */
#endif

enum {
	N_POLLED = 256, /* descriptors of a list that are looked at */
	SET_WORDS = 16, /* of a set: FD_SETSIZE */
	NO_DESCRIPTOR = 0x7fffffff,
};

struct pollfd { /* as the program has it (poll(2)) */
	int fd;
	short events, revents;
};

/* Whether a call that waits for one of several files has a list of them, and not sets. */
INLINE bool is_listing(u64 call)
{
	return call == CALL_POLL || call == CALL_PPOLL;
}

/* Returns the number of the lowest bit that is set. */
INLINE u32 lowest_bit(u64 word)
{
	u64 below = ~word & (word - 1); /* as many bits as its number, counted from here on */
	below -= below >> 1 & 0x5555555555555555ull;
	below = (below & 0x3333333333333333ull) + (below >> 2 & 0x3333333333333333ull);
	return ((below + (below >> 4)) & 0x0f0f0f0f0f0f0f0full) * 0x0101010101010101ull >> 56;
}

/* Returns the file that the running thread's poll(2) waits for if it is the only one; 0: there are several, or none. */
GLOBAL u64 only_polled_file(void)
{
	struct pt_regs *regs = bpf_task_pt_regs(bpf_get_current_task_btf());
	struct pollfd one = {};
	if (!is_listing(CALL_IN_PROGRESS(regs)) || (u32)argument(regs, 2) != 1 ||
		bpf_probe_read_user(&one, sizeof(one), (void *)argument(regs, 1)))
		return 0;
	return own_file(one.fd);
}

/* Returns the first descriptor of a list that is ready; NO_DESCRIPTOR: none of those that are looked at is. */
GLOBAL u32 ready_in_list(u64 list, u64 n)
{
	struct pollfd one = {};
	for (u32 i = 0; i < N_POLLED && i < n; i++) {
		if (bpf_probe_read_user(&one, sizeof(one), (void *)(list + i * sizeof(one))))
			return NO_DESCRIPTOR;
		if (one.revents)
			return one.fd;
	}
	return NO_DESCRIPTOR;
}

/* Returns the first descriptor that is ready in any of three sets, each of which may be missing; NO_DESCRIPTOR: likewise. */
GLOBAL u32 ready_in_sets(u64 n, u64 reading, u64 writing, u64 others)
{
	for (u32 i = 0; i < SET_WORDS && i * 64 < n; i++) {
		u64 word[3] = {}, at = i * sizeof(u64);
		if (reading)
			bpf_probe_read_user(&word[0], sizeof(u64), (void *)(reading + at));
		if (writing)
			bpf_probe_read_user(&word[1], sizeof(u64), (void *)(writing + at));
		if (others)
			bpf_probe_read_user(&word[2], sizeof(u64), (void *)(others + at));
		word[0] |= word[1] | word[2];
		if (word[0])
			return i * 64 + lowest_bit(word[0]);
	}
	return NO_DESCRIPTOR;
}

/* Returns the file that ended the wait in the running thread's call, which returns; 0: it is not known. */
GLOBAL u64 ready_polled_file(void)
{
	struct pt_regs *regs = bpf_task_pt_regs(bpf_get_current_task_btf());
	u64 first = argument(regs, 1), second = argument(regs, 2);
	if (is_listing(CALL_IN_PROGRESS(regs)))
		return own_file(ready_in_list(first, (u32)second));
	return own_file(ready_in_sets(first, second, argument(regs, 3), argument(regs, 4)));
}

#endif
