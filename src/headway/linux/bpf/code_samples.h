/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Samples of user code, with the code: a timer on each processor interrupts the running thread now and then, and what it
 * was about to execute is kept. A reader finds the loops in which threads spin.
 *
 * The code is read here, while the thread executes it: it may be changed, or unmapped, before a reader comes.
 */
#ifndef HEADWAY_CODE_SAMPLES_H
#define HEADWAY_CODE_SAMPLES_H

#include "stacks.h"
#include "state_samples.h"

enum { CODE_PAGE = 4096 }; /* no page is smaller */

/* Reads the code around a sample's instruction, as far as its pages are in memory: that of the instruction is. */
INLINE void read_code(struct code_sample *sample)
{
	u64 at = sample->address, inside = at & (CODE_PAGE - 1), rest = CODE_PAGE - inside;
	sample->before = sample->behind = 0;
	if (!bpf_probe_read_user(sample->code, CODE_BEFORE, (void *)(at - CODE_BEFORE))) {
		sample->before = CODE_BEFORE;
	} else if (inside > 0 && inside < CODE_BEFORE) {
		u8 *to = sample->code + MASKED(CODE_BEFORE - inside, CODE_BEFORE);
		if (!bpf_probe_read_user(to, MASKED(inside, CODE_BEFORE), (void *)(at - inside)))
			sample->before = inside;
	}
	if (!bpf_probe_read_user(sample->code + CODE_BEFORE, CODE_BEHIND, (void *)at))
		sample->behind = CODE_BEHIND;
	else if (rest < CODE_BEHIND &&
		!bpf_probe_read_user(sample->code + CODE_BEFORE, MASKED(rest, CODE_BEHIND), (void *)at))
		sample->behind = rest;
}

#endif
