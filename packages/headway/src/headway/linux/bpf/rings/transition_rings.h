/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Transitions, recorded on request. Whatever is added to a cell is also written down, in the same order, so that the rows
 * add up to the cells.
 *
 * Each processor has two rings of words. The reader maps them and is never woken. The first ring has the spans on the
 * processor. Only handlers write it, one at a time: an interrupt that arrives while a handler is at work writes nothing
 * there (see `begin_deferred_interrupt`). The second ring has absences, the waits and times ready that end. An interrupt
 * during a handler may write these too, but always with interrupts off.
 *
 * A span has no time of its own: it begins where the last span ended, and is of the same thread. Where one of these does
 * not hold, a record before the span gives the thread (RECORD_THREAD) or the moment (RECORD_TIME). The writer compares
 * with what it wrote last (`told_record`, `told_until`), so after lost spans it gives both again.
 */
#ifndef HEADWAY_TRANSITION_RINGS_H
#define HEADWAY_TRANSITION_RINGS_H

#include "shared/maps.h"

enum { RECORD_ROOM = 16 }; /* words that must be free: more than one transition needs */

INLINE void put_span_word(u64 at, u64 word)
{
	u32 key = bpf_get_smp_processor_id() * settings.ring_words + (at & (settings.ring_words - 1));
	u64 *place = bpf_map_lookup_elem(&spans, &key);
	if (place)
		*place = word;
}

INLINE void put_absence_word(u64 at, u64 word)
{
	u32 key = bpf_get_smp_processor_id() * settings.absence_words + (at & (settings.absence_words - 1));
	u64 *place = bpf_map_lookup_elem(&absences, &key);
	if (place)
		*place = word;
}

INLINE bool is_recorded(struct processor *p)
{
	return OPTION(record) && !(settings.some_cpus && !p->selected);
}

/* Returns whether the ring of spans has room. If not, counts a lost span, and has the next one give its thread again. */
INLINE bool has_span_room(struct processor *p)
{
	u32 cpu = bpf_get_smp_processor_id();
	if (LIKELY(p->written < p->room))
		return true;
	struct tails *t = bpf_map_lookup_elem(&tails, &cpu);
	if (t)
		p->room = t->spans + settings.ring_words - RECORD_ROOM;
	if (t && p->written < p->room)
		return true;
	p->lost_spans++;
	p->told_record = THREAD_UNSEEN;
	return false;
}

/* Returns whether the ring of absences has room. If not, counts a lost absence. */
INLINE bool has_absence_room(struct processor *p)
{
	u32 cpu = bpf_get_smp_processor_id();
	if (LIKELY(p->written_absences < p->room_absences))
		return true;
	struct tails *t = bpf_map_lookup_elem(&tails, &cpu);
	if (t)
		p->room_absences = t->absences + settings.absence_words - RECORD_ROOM;
	if (t && p->written_absences < p->room_absences)
		return true;
	p->lost_absences++;
	return false;
}

/* Writes the thread and the begin of the next span, unless they follow from the last one. Returns the next free word. */
INLINE u64 put_thread_and_time(struct processor *p, u32 number, u64 since)
{
	u64 at = p->written;
	if (p->told_record != number) {
		put_span_word(at++, RECORD_THREAD | (u64)number << RECORD_NUMBER);
		p->told_record = number;
	}
	if (p->told_until != since) {
		put_span_word(at++, RECORD_TIME);
		put_span_word(at++, since);
		p->told_until = since;
	}
	return at;
}

/* Writes a span of which `time` was charged to a state. `what` is the state, and from bit 16 on how often it ended. */
u64 record_any_span(u32 number, u64 since, u64 until, u64 time, u64 what)
{
	struct processor *p = this_processor();
	if (!p || !is_recorded(p) || !has_span_room(p))
		return 0;
	u64 at = put_thread_and_time(p, number, since), duration = until - since, taken = duration - time,
		count = what >> 16;
	if (count <= 1 && !(taken >> TAKEN_BITS) && !(duration >> DURATION_BITS)) {
		put_span_word(at++,
			count << SPAN_ENDED | (what & STATE_MASK) << SPAN_STATE | taken << SPAN_TAKEN | duration << SPAN_DURATION);
	} else {
		put_span_word(at++, RECORD_LONG | (what & STATE_MASK) << RECORD_STATE | count << RECORD_COUNT);
		put_span_word(at++, duration);
		put_span_word(at++, taken);
	}
	p->told_until = until;
	ORDER();
	p->written = at;
	return 0;
}

/* Writes a span like record_any_span, but faster if it fits one word, as most do. */
INLINE void record_span(struct processor *p, u32 number, u64 since, u64 until, u64 time, u32 state, u64 ended)
{
	if (!OPTION(record))
		return;
	u64 duration = until - since, taken = duration - time;
	if (LIKELY(p->told_record == number && p->told_until == since && p->written < p->room) &&
		LIKELY(!(taken >> TAKEN_BITS) && !(duration >> DURATION_BITS)) && !(settings.some_cpus && !p->selected)) {
		put_span_word(p->written,
			ended << SPAN_ENDED | (u64)state << SPAN_STATE | taken << SPAN_TAKEN | duration << SPAN_DURATION);
		p->told_until = until;
		ORDER();
		p->written++;
		return;
	}
	record_any_span(number, since, until, time, state | ended << 16);
}

/* Writes time or occurrences that have no span of their own. They belong to the moment `at`, where a span begins or ends. */
u64 record_amount(u32 number, u32 state, u64 time, u64 count, u64 at)
{
	struct processor *p = this_processor();
	if (!p || !is_recorded(p) || !has_span_room(p))
		return 0;
	u64 next = put_thread_and_time(p, number, at);
	put_span_word(next++, RECORD_AMOUNT | (u64)(state & STATE_MASK) << RECORD_STATE | count << RECORD_COUNT);
	put_span_word(next++, time);
	ORDER();
	p->written = next;
	return 0;
}

/* Writes that time charged to one state belongs to another. The reader mostly still has the span, and renames it. */
u64 record_move(u32 number, u32 from, u32 to, u64 time, u64 count)
{
	struct processor *p = this_processor();
	if (!p || !is_recorded(p) || !has_span_room(p))
		return 0;
	u64 next = put_thread_and_time(p, number, p->since);
	put_span_word(next++,
		RECORD_MOVE | (u64)(from & STATE_MASK) << RECORD_STATE | (u64)(to & STATE_MASK) << MOVE_TO |
			(count & 1) << MOVE_COUNT);
	put_span_word(next++, time);
	ORDER();
	p->written = next;
	return 0;
}

/* Writes that the thread of a thread record works on a task from now on: the task's name, its id, and its trace's. */
u64 record_task(u32 number, u64 at, u32 name, u64 task)
{
	struct processor *p = this_processor();
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	if (!p || !record || !is_recorded(p) || !has_span_room(p))
		return 0;
	u64 next = put_thread_and_time(p, number, at);
	bool traced = task && record->trace_id[0] | record->trace_id[1];
	put_span_word(next++, (traced ? RECORD_CONTEXT : RECORD_TASK) | (u64)name << RECORD_TASK_NAME);
	put_span_word(next++, task);
	if (traced) {
		put_span_word(next++, __builtin_bswap64(record->trace_id[0]));
		put_span_word(next++, __builtin_bswap64(record->trace_id[1]));
	}
	ORDER();
	p->written = next;
	return 0;
}

/* Returns the address of the futex at which the thread of a thread record waits; 0: it is not known. */
INLINE u64 futex_of(const struct thread_record *record)
{
	return record && record->object_kind == OBJECT_ADDRESS ? record->object : 0;
}

/* Whether the stacks of an absence are written: a thread that is ready, or whose state is not known, waits for nothing. */
INLINE bool has_stacks(u32 state)
{
	return OPTION(stacks) && state != READY && state != UNKNOWN && state != ELSEWHERE;
}

/* Returns one of the stacks of an absence. `woken`: whether its end is seen, and so whose stacks the waker's are. */
INLINE u64 stack_of_absence(const struct thread_record *record, u32 which, bool woken)
{
	if (which == ABSENT_USER)
		return record->user_stack;
	if (which == ABSENT_KERNEL)
		return record->kernel_stack;
	if (!woken || record->waker_kind != WAKER_THREAD)
		return 0;
	return which == WAKER_USER ? record->waker_user_stack : record->waker_kernel_stack;
}

/*
 * Writes time off the processor to the ring of spans. For handlers that run with interrupts on: an interrupt could write
 * to the ring of absences at the same time, but not to this one.
 */
u64 record_return(u32 number, u32 state, u64 since, u64 until)
{
	struct processor *p = this_processor();
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	u64 kind = has_stacks(state) ? RECORD_STACKED : RECORD_ABSENCE;
	if (!p || !record || !OPTION(record) || !has_span_room(p))
		return 0;
	u64 next = p->written;
	put_span_word(next++, kind | (u64)(state & STATE_MASK) << RECORD_STATE | (u64)number << ABSENCE_NUMBER);
	put_span_word(next++, since);
	put_span_word(next++, until);
	if (state == WAIT_FUTEX)
		put_span_word(next++, futex_of(record));
	for (u32 i = 0; has_stacks(state) && i < N_ABSENCE_STACKS; i++)
		put_span_word(next++, stack_of_absence(record, i, false));
	ORDER();
	p->written = next;
	return 0;
}

/* Writes time off the processor, and the waker that ended it, to the ring of absences. The caller has interrupts off. */
u64 record_absence(u32 number, u32 state, u64 since, u64 until)
{
	struct processor *p = this_processor();
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	u64 kind = has_stacks(state) ? RECORD_STACKED : RECORD_ABSENCE;
	u64 word = kind | (u64)(state & STATE_MASK) << RECORD_STATE | (u64)number << ABSENCE_NUMBER;
	if (!p || !record || !OPTION(record) || !has_absence_room(p))
		return 0;
	if (state != READY && record->waker_kind == WAKER_STATE)
		word |= (u64)WOKEN_BY_STATE << ABSENCE_WOKEN_BY | (u64)record->waker << ABSENCE_WAKER;
	else if (state != READY && record->waker_kind == WAKER_THREAD && record->waker_record)
		word |= (u64)WOKEN_BY_MEASURED << ABSENCE_WOKEN_BY | (u64)record->waker_record << ABSENCE_WAKER;
	else if (state != READY && record->waker_kind == WAKER_THREAD)
		word |= (u64)WOKEN_BY_TID << ABSENCE_WOKEN_BY | (u64)record->waker << ABSENCE_WAKER;
	u64 next = p->written_absences;
	put_absence_word(next++, word);
	put_absence_word(next++, since);
	put_absence_word(next++, until);
	if (state == WAIT_FUTEX)
		put_absence_word(next++, futex_of(record));
	for (u32 i = 0; has_stacks(state) && i < N_ABSENCE_STACKS; i++)
		put_absence_word(next++, stack_of_absence(record, i, true));
	ORDER();
	p->written_absences = next;
	return 0;
}

#endif
