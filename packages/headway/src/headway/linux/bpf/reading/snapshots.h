/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Snapshots: a reader announces a moment in the near future; the first handler after that moment copies the state. */
#ifndef HEADWAY_SNAPSHOTS_H
#define HEADWAY_SNAPSHOTS_H

#include "events/deferred_interrupts.h"
#include "scheduler/ready.h"
#include "events/spans.h"

NOINLINE int save_thread(struct thread_record *record, u32 number, u32 snapshot)
{
	u32 size = __builtin_offsetof(struct thread_snapshot, cells) + (record->used & 255) * sizeof(struct cell);
	struct thread_snapshot *copy = bpf_map_lookup_elem(&saved_threads, &number);
	if (!copy)
		return 0;
	if (size > sizeof(struct thread_snapshot))
		size = sizeof(struct thread_snapshot);
	copy->snapshot = 0;
	ORDER();
	if (record->cpu) { /* it runs: the processor has its state and moment */
		u32 cpu = record->cpu - 1;
		struct processor *p = bpf_map_lookup_elem(&processors, &cpu);
		if (p) {
			record->since = p->since;
			record->state = p->state;
			record->depth = p->depth;
			__builtin_memcpy(record->nested, p->nested, sizeof(record->nested));
		}
	}
	bpf_probe_read_kernel(copy, size, record);
	if (OPTION(tasks) && record->task_record)
		save_task(record->task_record, snapshot);
	if (settings.divide_ready && record->state == READY && !record->cpu)
		divide_open_ready(record, copy, control.snapshot_at);
	if (OPTION(n_counted)) {
		struct thread_counts *counts = bpf_map_lookup_elem(&thread_counts, &number);
		struct thread_counts *kept = bpf_map_lookup_elem(&saved_thread_counts, &number);
		if (counts && kept)
			bpf_probe_read_kernel(kept, sizeof(*kept), counts);
	}
	if (OPTION(durations))
		save_thread_histograms(number);
	ORDER();
	copy->snapshot = record->snapshot = snapshot;
	return 0;
}

/* Charges the time before a snapshot, as if a handler had run at the snapshot's moment. */
INLINE void charge_until_snapshot(struct processor *p, u32 number, u64 at, u64 now)
{
	forget_pending(p);
	if (p->since >= at)
		return;
	/*
	 * Interrupts that arrived before the snapshot, while the last handler was at work, belong before it. Another one may
	 * arrive now. Its time ends after the snapshot, so only the part before the snapshot is charged here.
	 */
	if (p->deferred_since < at)
		absorb_deferred(number, at);
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	charge_span(p, record, at, now, at - p->since, 0);
}

/*
 * The first handler after a snapshot was announced calls this. Returns false if the time for measuring is over.
 *
 * If the handler runs before the moment of the snapshot, this processor may have missed the previous snapshot, because
 * no handler ran here since. The previous snapshot needs no copy any more. Its moment divides the span all the same,
 * because the reader has counted the part before it.
 */
GLOBAL int cross_snapshot(u32 number, u64 now)
{
	struct processor *p = this_processor();
	if (!p)
		return false;
	/* The reader writes the moment first, then the number. So read the number first: another snapshot may be announced
	 * in between. */
	u32 snapshot = control.snapshot;
	ORDER();
	u64 at = control.snapshot_at;
	bool before_moment = now < at;
	if (before_moment) {
		at = control.told_at;
		snapshot--;
		if (p->snapshot == snapshot)
			return true;
	} else if (control.last) {
		if (number && p->task == (u64)bpf_get_current_task_btf())
			charge_until_snapshot(p, number, at, now);
		return false;
	}
	if (!settings.intervals) {
		p->snapshot = snapshot;
		return true;
	}
	charge_until_snapshot(p, number, at, now);
	struct thread_record *record = number ? thread_record_at(number) : NULL;
	if (before_moment && record)
		record->snapshot = snapshot;
	else if (record && record->snapshot != snapshot)
		save_thread(record, number, snapshot);
	u32 cpu = bpf_get_smp_processor_id();
	struct processor *copy = before_moment ? NULL : bpf_map_lookup_elem(&saved_processors, &cpu);
	if (copy) {
		copy->snapshot = 0;
		ORDER();
		bpf_probe_read_kernel(copy, sizeof(*copy), p);
		if (OPTION(n_counted)) {
			struct processor_counts *counts = bpf_map_lookup_elem(&processor_counts, &cpu);
			struct processor_counts *kept = bpf_map_lookup_elem(&saved_processor_counts, &cpu);
			if (counts && kept)
				bpf_probe_read_kernel(kept, sizeof(*kept), counts);
		}
		ORDER();
		copy->snapshot = snapshot;
	}
	p->snapshot = snapshot;
	p->floor = at;
	p->longest = 0;
	return true;
}

/* Returns the moment of the last snapshot that a reader has read. Time that is charged late must lie after it. */
INLINE u64 last_snapshot_read(u64 now)
{
	if (!settings.intervals)
		return 0;
	return now < control.snapshot_at ? control.told_at : control.snapshot_at;
}

INLINE bool measuring_is_over(u64 now)
{
	return control.last && now >= control.snapshot_at;
}

INLINE void save_if_due(struct thread_record *record, u32 number, u64 now)
{
	if (!settings.intervals)
		return;
	u32 snapshot = control.snapshot;
	ORDER();
	if (UNLIKELY(record->snapshot != snapshot)) {
		if (now >= control.snapshot_at)
			save_thread(record, number, snapshot);
		else
			record->snapshot = snapshot - 1; /* the previous one has been read */
	}
}

#endif
