/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The words of a stack that is being walked: addresses or frames, and last why it ends. */
#ifndef HEADWAY_STACK_WORDS_H
#define HEADWAY_STACK_WORDS_H

#include "shared/maps.h"

/* The number of this processor's memory for a walk: that of a sample, or of a handler that the sample may interrupt. */
INLINE u32 walk_slot(u32 sample)
{
	return 2 * bpf_get_smp_processor_id() + sample;
}

/* Adds a word to a stack. */
INLINE void add_word(struct stack *stack, u64 word)
{
	u64 depth = stack->depth;
	OPAQUE(depth);
	if (depth >= N_STACK)
		return;
	u64 *place = &stack->frames[depth];
	KEEP(place);
	*place = word;
	stack->depth = depth + 1;
}

/* Sets bits of the word that was added last. */
INLINE void mark_last_word(struct stack *stack, u64 bits)
{
	u64 depth = stack->depth - 1;
	OPAQUE(depth);
	if (depth >= N_STACK)
		return;
	u64 *place = &stack->frames[depth];
	KEEP(place);
	*place |= bits;
}

INLINE int end_stack(struct stack *stack, u64 pc, u32 why)
{
	add_word(stack, (u64)STACK_END << 56 | (u64)why << 48 | (pc & ((1ull << 48) - 1)));
	return 1;
}

INLINE void count_stack_loss(u32 what)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct processor *p = bpf_map_lookup_elem(&processors, &cpu);
	if (p)
		p->losses[MASKED(what, N_LOSSES)]++;
}

#endif
