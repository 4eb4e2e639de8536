/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Durations, kept on request: how long each occurrence of a state lasted, by thread and state.
 *
 * A duration is the time that was charged to the state since its last occurrence ended. So it has all pieces of an
 * occurrence that was interrupted, and the durations of a state add up to its time. Page faults may have more time: one that
 * turns out to be another leaves what was charged before, as at an interrupt, without a duration (rename_fault).
 * Whatever is added to a cell of a thread comes here too (add_to_cell): time in a piece, the end of an occurrence, and what
 * is taken back. An occurrence that a cell has, and that ended without a duration of its own, is in no bucket: the reader
 * finds their number by comparing the histogram with the cell.
 *
 * A bucket is for the durations above 2^(n-1) ns and up to 2^n ns. On request this span has 2, 4 or 8 buckets.
 *
 * Histograms come from a pool, because a thread is in few of the states that it has cells for. A thread takes one when it
 * is in a state for the first time. When it has ended the reader gives them back, emptied, after it has read them.
 * Snapshots: the first change of a histogram after a snapshot copies it (save_histogram). A histogram without such a copy
 * has not changed since.
 */
#ifndef HEADWAY_DURATIONS_H
#define HEADWAY_DURATIONS_H

#include "shared/maps.h"

/* ---- memory ---- */

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct thread_histograms);
} thread_histograms SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct thread_histograms);
} saved_thread_histograms SEC(".maps");

/* A histogram's number, shifted by the bits of a part, is the place of the first of its parts. */
struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct histogram);
} histograms SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct histogram);
} saved_histograms SEC(".maps");

struct {
	UINT(type, MAP_STACK);
	UINT(max_entries, 1);
	TYPE(value, u32);
} free_histograms SEC(".maps");

/* How many histograms were in use so far. */
u32 histograms_used[1] SEC(".bss.histograms_used");

static const volatile u8 no_numbers[N_CELLS * sizeof(u32)] SEC(".rodata.none");
static const volatile u8 no_durations[sizeof(struct histogram)] SEC(".rodata.none");

/* The logarithm of the buckets of each power of two. */
INLINE u32 part_bits(void)
{
	return (OPTION(durations) - 1) & 3;
}

INLINE struct histogram *histogram_at(u32 number, u32 part)
{
	u32 place = (number << part_bits()) + part;
	return bpf_map_lookup_elem(&histograms, &place);
}

INLINE void lose_durations(u32 what, u64 much)
{
	struct processor *p = this_processor();
	if (p)
		p->losses[MASKED(what, N_LOSSES)] += much;
}

/* A thread is in a state for the first time: takes a histogram for the state's cell. */
GLOBAL int take_histogram(u32 number, u32 cell)
{
	struct thread_histograms *t = bpf_map_lookup_elem(&thread_histograms, &number);
	u32 taken = 0;
	if (!t)
		return 0;
	if (bpf_map_pop_elem(&free_histograms, &taken)) {
		taken = 0;
		if (settings.has_fetch && histograms_used[0] < settings.max_histograms - 1)
			taken = __sync_fetch_and_add(&histograms_used[0], 1) + 1;
		if (!taken || taken >= settings.max_histograms) {
			lose_durations(LOST_HISTOGRAMS, 1);
			taken = 0;
		}
	}
	t->numbers[MASKED(cell, N_CELLS)] = taken;
	return 0;
}

/* ---- buckets ---- */

/* Returns how many bits a number below 2^63 has, 0 for 0. It has no branch: the verifier follows each apart. */
INLINE u32 bits_of(u64 number)
{
	u64 bits = 0, more;
#define HALVE(n)                                             \
	more = ((1ULL << (1 << (n))) - 1 - number) >> 63 << (n); \
	OPAQUE(more);                                            \
	number >>= more;                                         \
	bits += more
	HALVE(5);
	HALVE(4);
	HALVE(3);
	HALVE(2);
	HALVE(1);
	HALVE(0);
#undef HALVE
	return bits + number;
}

/* Returns the bucket of a duration: its power of two, and in the lowest PART_BITS bits the part of that. */
INLINE u32 find_bucket(u64 duration)
{
	u64 below = duration ? duration - 1 : 0;
	u32 power = bits_of(below), part = 0;
	if (power >= N_BUCKETS - 1)
		return (N_BUCKETS - 1) << PART_BITS;
	if (part_bits() && power)
		part = (below << part_bits() >> ((power - 1) & 63)) & ((1 << part_bits()) - 1);
	return power << PART_BITS | part;
}

/* The same, for rare work. */
GLOBAL u32 bucket_of(u64 duration)
{
	return find_bucket(duration);
}

/* Returns the count of a bucket of the histogram `h`, whose number this is. */
INLINE u64 *count_of_bucket(struct histogram *h, u32 number, u32 bucket)
{
	u64 power = bucket >> PART_BITS;
	if (part_bits() && bucket & ((1 << PART_BITS) - 1)) {
		h = histogram_at(number, bucket & ((1 << part_bits()) - 1));
		if (!h)
			return NULL;
	}
	OPAQUE(power);
	if (power >= N_BUCKETS)
		return NULL;
	u64 *count = &h->counts[power];
	KEEP(count);
	return count;
}

/* ---- durations ---- */

/* The histogram changes for the first time since a snapshot: keeps it as it was then. */
GLOBAL int save_histogram(u32 number)
{
	for (u32 part = 0; part < 1 << PART_BITS && part < 1u << part_bits(); part++) {
		u32 place = (number << part_bits()) + part;
		struct histogram *h = bpf_map_lookup_elem(&histograms, &place);
		struct histogram *copy = bpf_map_lookup_elem(&saved_histograms, &place);
		if (h && copy)
			bpf_probe_read_kernel(copy, sizeof(*copy), h);
	}
	return 0;
}

/* Returns when the time ended that was just added to a cell of a thread. */
INLINE u64 end_of_time(u32 number, u64 time)
{
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	struct processor *p = this_processor();
	if (!record || !p)
		return 0;
	return record->cpu ? p->since : record->since + time;
}

GLOBAL int note_longest(u32 number, u32 cell, u64 duration, u64 time)
{
	struct thread_histograms *t = bpf_map_lookup_elem(&thread_histograms, &number);
	struct histogram *h = t ? histogram_at(t->numbers[MASKED(cell, N_CELLS)], 0) : NULL;
	if (!h)
		return 0;
	h->longest = duration;
	h->longest_end = end_of_time(number, time);
	h->revoked = 0;
	return 0;
}

/* Takes durations out of a bucket. Returns how many it took. */
GLOBAL u64 take_from_bucket(u32 number, u32 bucket, u64 how_many)
{
	struct histogram *h = histogram_at(number, 0);
	u64 *count = h && (bucket & ((1 << PART_BITS) - 1)) < 1u << part_bits() ? count_of_bucket(h, number, bucket) : NULL;
	if (!count)
		return 0;
	if (how_many > *count)
		how_many = *count;
	*count -= how_many;
	return how_many;
}

/* Takes the durations that were counted last out of their buckets; those that are not known any more, out of the lowest. */
INLINE void take_back_durations(struct histogram *h, u32 number, u64 how_many)
{
	for (u32 i = 0; i < N_RECENT && how_many; i++) {
		u32 bucket = h->recent & ((1 << RECENT_BITS) - 1);
		if (!bucket)
			break;
		take_from_bucket(number, bucket - 1, 1);
		if (bucket - 1 == bucket_of(h->longest))
			h->revoked = 1;
		h->recent >>= RECENT_BITS;
		how_many--;
	}
	if (!how_many)
		return;
	lose_durations(LOST_BUCKETS, how_many);
	h->revoked = 1;
	for (u32 i = 0; i < N_BUCKETS << PART_BITS && how_many; i++)
		how_many -= take_from_bucket(number, i, how_many);
}

/*
 * Returns the histogram of a thread's cell, saved if a snapshot wants that; NULL: it has none. `which` becomes its number.
 * `snapshot`: that of the thread record.
 */
INLINE struct histogram *histogram_of(u32 number, u32 cell, u32 snapshot, u32 *which)
{
	struct thread_histograms *t = bpf_map_lookup_elem(&thread_histograms, &number);
	*which = t ? t->numbers[MASKED(cell, N_CELLS)] : 0;
	struct histogram *h = *which ? histogram_at(*which, 0) : NULL;
	if (h && settings.intervals && UNLIKELY(h->snapshot != snapshot)) {
		save_histogram(*which);
		ORDER();
		h->snapshot = snapshot;
		ORDER();
	}
	return h;
}

/*
 * Time was added to a cell of a thread, and an occurrence if `count` is 1. Of more than one that ended together, only the
 * sum is known.
 */
INLINE void keep_duration(u32 number, u32 cell, u64 time, u64 count, u32 snapshot)
{
	u32 which;
	struct histogram *h = histogram_of(number, cell, snapshot, &which);
	if (!h)
		return;
	u64 duration = h->pieces + time;
	if (UNLIKELY(
			(s64)duration < 0)) /* time was taken out of an occurrence that has ended: that stays as long as it was */
		duration = 0;
	if (!count) {
		h->pieces = duration;
		return;
	}
	h->pieces = 0;
	if (UNLIKELY(count != 1))
		return;
	u32 bucket = find_bucket(duration);
	u64 *at = count_of_bucket(h, which, bucket);
	if (at)
		*at += 1;
	h->recent = h->recent << RECENT_BITS | (bucket + 1);
	if (UNLIKELY(duration > h->longest || !h->longest_end))
		note_longest(number, cell, duration, time);
}

/* The same, and -count occurrences were taken back if `count` is negative. */
GLOBAL int keep_any_duration(u32 number, u32 cell, u64 time, u64 count, u32 snapshot)
{
	u32 which;
	if ((s64)count >= 0) {
		keep_duration(number, cell, time, count, snapshot);
		return 0;
	}
	struct histogram *h = histogram_of(number, cell, snapshot, &which);
	if (h)
		take_back_durations(h, which, -count);
	return 0;
}

/* What a thread was in when its time stopped being divided, or began to be, has no end: forgets its pieces. */
GLOBAL int forget_pieces(u32 number, u32 state)
{
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	struct thread_histograms *t = bpf_map_lookup_elem(&thread_histograms, &number);
	u32 cell = record ? *index_of(record, state) : 0;
	struct histogram *h = t && cell ? histogram_at(t->numbers[MASKED(cell - 1, N_CELLS)], 0) : NULL;
	if (h)
		h->pieces = 0;
	return 0;
}

/* ---- threads that are saved, and that end ---- */

GLOBAL int save_thread_histograms(u32 number)
{
	struct thread_histograms *t = bpf_map_lookup_elem(&thread_histograms, &number);
	struct thread_histograms *copy = bpf_map_lookup_elem(&saved_thread_histograms, &number);
	if (t && copy)
		bpf_probe_read_kernel(copy, sizeof(*copy), t);
	return 0;
}

GLOBAL int give_back_part(u32 place)
{
	struct histogram *h = bpf_map_lookup_elem(&histograms, &place);
	if (h)
		bpf_probe_read_kernel(h, sizeof(*h), (const void *)no_durations);
	return 0;
}

GLOBAL int give_back_histogram(u32 thread_record, u32 cell)
{
	struct thread_histograms *t = bpf_map_lookup_elem(&thread_histograms, &thread_record);
	u32 number = t ? t->numbers[MASKED(cell, N_CELLS)] : 0;
	if (!number)
		return 0;
	for (u32 part = 0; part < 1 << PART_BITS && part < 1u << part_bits(); part++)
		give_back_part((number << part_bits()) + part);
	bpf_map_push_elem(&free_histograms, &number, 0);
	return 0;
}

/* The thread has ended: sends the numbers of its histograms to the reader, ahead of its thread record. */
GLOBAL int submit_histograms(u32 number)
{
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	struct thread_histograms *t = bpf_map_lookup_elem(&thread_histograms, &number);
	if (!record || !t)
		return 0;
	u32 used = record->used,
		size = __builtin_offsetof(struct thread_histograms, numbers) + (used & 255) * sizeof(t->numbers[0]);
	if (size > sizeof(struct thread_histograms))
		size = sizeof(struct thread_histograms);
	t->kind = THREAD_HISTOGRAMS;
	t->birth = record->birth;
	t->tid = record->tid;
	t->used = used;
	if (bpf_ringbuf_output(&exits, t, size, RING_NO_WAKEUP)) /* the reader will not have them */
		for (u32 i = 0; i < N_CELLS && i < used; i++)
			give_back_histogram(number, i);
	bpf_probe_read_kernel(t->numbers, sizeof(t->numbers), (const void *)no_numbers);
	return 0;
}

#endif
