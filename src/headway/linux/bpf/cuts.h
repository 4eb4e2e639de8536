/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Cuts: a reader names a moment in the future; the first handler after it copies what is there. */
#ifndef HEADWAY_CUTS_H
#define HEADWAY_CUTS_H

#include "cells.h"

/* ---- cuts ---- */

NOINLINE int save_slot(struct slot *s, u32 number, u32 cut)
{
	u32 size = __builtin_offsetof(struct record, cells) + (s->used & 255) * sizeof(struct cell);
	struct record *copy = bpf_map_lookup_elem(&saved_slots, &number);
	if (!copy)
		return 0;
	if (size > sizeof(struct record))
		size = sizeof(struct record);
	copy->cut = 0;
	ORDER();
	if (s->cpu) { /* running: its state and moment are the processor's */
		u32 cpu = s->cpu - 1;
		struct processor *p = bpf_map_lookup_elem(&processors, &cpu);
		if (p) {
			s->since = p->since;
			s->state = p->state;
			s->depth = p->depth;
			__builtin_memcpy(s->nested, p->nested, sizeof(s->nested));
		}
	}
	bpf_probe_read_kernel(copy, size, s);
	if (settings.n_counted) {
		struct thread_counts *counts = bpf_map_lookup_elem(&slot_counts, &number), *kept = bpf_map_lookup_elem(&saved_slot_counts, &number);
		if (counts && kept)
			bpf_probe_read_kernel(kept, sizeof(*kept), counts);
	}
	ORDER();
	copy->cut = s->cut = cut;
	return 0;
}

/* What lies before a cut is charged as if a handler had come then. */
INLINE void charge_until_cut(struct processor *p, u32 number, u64 at, u64 now)
{
	p->pending_state = 0;
	p->pending_user = 0;
	if (p->since >= at)
		return;
	/*
	 * Interrupts that came while the last handler was at work, before the cut, belong before it. One may come now: what
	 * it leaves behind ends after the cut, so the cut limits what is taken over.
	 */
	if (p->deferred_since < at)
		absorb(p, number, at);
	struct slot *s = number ? slot_at(number) : NULL;
	charge_stretch(p, s, at, now, at - p->since, 0);
}

/*
 * The first handler since a cut was announced: false if the time for measuring is over. If it is not there yet, the one
 * before may not have been crossed here, because nothing happened: it needs no copy any more, but what a reader has been
 * told stands.
 */
NOINLINE int cross(struct processor *p, u32 number, u64 now)
{
	u32 cut = control.cut; /* before its moment, which is announced first: the next one may be announced meanwhile */
	ORDER();
	u64 at = control.cut_at;
	bool told = now < at;
	if (told) {
		at = control.told_at;
		cut--;
		if (p->cut == cut)
			return true;
	} else if (control.last) {
		if (number && p->task == (u64)bpf_get_current_task_btf())
			charge_until_cut(p, number, at, now);
		return false;
	}
	if (!settings.intervals) {
		p->cut = cut;
		return true;
	}
	charge_until_cut(p, number, at, now);
	struct slot *s = number ? slot_at(number) : NULL;
	if (told && s)
		s->cut = cut;
	else if (s && s->cut != cut)
		save_slot(s, number, cut);
	u32 cpu = bpf_get_smp_processor_id();
	struct processor *copy = told ? NULL : bpf_map_lookup_elem(&saved_processors, &cpu);
	if (copy) {
		copy->cut = 0;
		ORDER();
		bpf_probe_read_kernel(copy, sizeof(*copy), p);
		if (settings.n_counted) {
			struct processor_counts *counts = bpf_map_lookup_elem(&processor_counts, &cpu);
			struct processor_counts *kept = bpf_map_lookup_elem(&saved_processor_counts, &cpu);
			if (counts && kept)
				bpf_probe_read_kernel(kept, sizeof(*kept), counts);
		}
		ORDER();
		copy->cut = cut;
	}
	p->cut = cut;
	p->floor = at;
	p->longest = 0;
	return true;
}

/* Until when a reader has been told, which stands: nothing that turns out later begins or ends before that. */
INLINE u64 told_until(u64 now)
{
	if (!settings.intervals)
		return 0;
	return now < control.cut_at ? control.told_at : control.cut_at;
}

INLINE bool over(u64 now)
{
	return control.last && now >= control.cut_at;
}

INLINE void save_if_due(struct slot *s, u32 number, u64 now)
{
	if (!settings.intervals)
		return;
	u32 cut = control.cut;
	ORDER();
	if (UNLIKELY(s->cut != cut)) {
		if (now >= control.cut_at)
			save_slot(s, number, cut);
		else
			s->cut = cut - 1; /* the one before has been read */
	}
}

#endif
