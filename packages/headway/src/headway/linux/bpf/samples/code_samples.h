/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Samples of user code, with the code: a timer on each processor interrupts the running thread now and then, and what it
 * was about to execute is kept. A reader finds the loops in which threads spin.
 *
 * The code is read here, while the thread executes it: it may be changed, or unmapped, before a reader comes.
 */
#ifndef HEADWAY_CODE_SAMPLES_H
#define HEADWAY_CODE_SAMPLES_H

#include "samples/stacks.h"
#include "samples/state_samples.h"

enum { CODE_PAGE = 4096 }; /* no page is smaller */
/* Bytes that count: of the stack, from below its top, where a function that calls none may keep what it likes (the red zone
 * of the x86-64 psABI), and behind each register. */
enum { RED_ZONE = 128, VISIBLE_STACK = RED_ZONE + 256, VISIBLE_OBJECT = 64 };

INLINE u64 hash_word(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}

/* Hashes `size` bytes of the thread's memory, if they can be read; `room` has as many. */
INLINE u64 hash_memory(u64 hash, u64 *room, u64 at, u32 size)
{
	if (bpf_probe_read_user(room, size, (void *)at))
		return hash;
	for (u32 i = 0; i < size / 8; i++)
		hash = hash_word(hash, room[i]);
	return hash;
}

/*
 * Returns a hash of what can be seen of the thread's state: the instruction, the registers, the top of the stack, the
 * beginnings of the objects that registers point to, and how many system calls it has made. A thread that computes does
 * not come back to the same.
 */
INLINE u64 hash_visible(struct sample_context *context, u64 calls, void *room)
{
	u64 hash = hash_word(hash_word(calls, INSTRUCTION(context)), context->sp);
	hash = hash_memory(hash, room, context->sp - RED_ZONE, VISIBLE_STACK);
#pragma clang loop unroll(full) /* the context cannot be indexed */
	for (u32 i = 0; i < N_REGISTERS; i++) {
		u64 value = context->registers[i];
		hash = hash_memory(hash_word(hash, value), room, value, VISIBLE_OBJECT);
	}
	return hash;
}

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
