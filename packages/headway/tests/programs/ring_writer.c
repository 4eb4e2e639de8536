/*
 * The code of the eBPF programs that writes the rings of transitions (linux/bpf/rings/transition_rings.h), compiled for user space as a
 * shared library. Its maps are memory of the test.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "shared/layout.h"

typedef __u32 u32;
typedef __u64 u64;

#define INLINE static inline
#define OPTION(name) settings.name
#define LIKELY(condition) (condition)
#define ORDER()
#define HEADWAY_MAPS_H /* the maps and the helpers are the following ones instead */

struct map {
	char *values;
	size_t size;
	u32 entries;
};

/* One machine: the rings and what the programs keep of each processor. */
struct machine {
	struct settings settings;
	struct processor *processors;
	struct map spans, absences, tails, thread_records;
};

/* Those of the machine that is chosen by `on`. */
static struct settings settings;
static struct processor *processors;
static struct map spans, absences, tails, thread_records;
static u32 processor_id;

static u32 bpf_get_smp_processor_id(void)
{
	return processor_id;
}

static void *bpf_map_lookup_elem(struct map *map, const u32 *key)
{
	return *key < map->entries ? map->values + *key * map->size : NULL;
}

static struct processor *this_processor(void)
{
	return &processors[processor_id];
}

#include "rings/transition_rings.h"

/* Words of both rings of each processor are powers of two; `tail_values` has a struct tails for each. */
struct machine *new_machine(u32 n, u64 *span_words, u32 n_spans, u64 *absence_words, u32 n_absences, void *tail_values,
	u32 n_records)
{
	struct machine *m = calloc(1, sizeof *m);
	m->processors = calloc(n, sizeof *m->processors);
	m->settings.record = 1;
	m->settings.ring_words = n_spans;
	m->settings.absence_words = n_absences;
	m->spans = (struct map){(char *)span_words, sizeof(u64), n * n_spans};
	m->absences = (struct map){(char *)absence_words, sizeof(u64), n * n_absences};
	m->tails = (struct map){tail_values, sizeof(struct tails), n};
	m->thread_records = (struct map){calloc(n_records, sizeof(struct thread_record)), sizeof(struct thread_record),
		n_records};
	return m;
}

void free_machine(struct machine *m)
{
	free(m->processors);
	free(m->thread_records.values);
	free(m);
}

/* What follows happens on this processor. */
void on(struct machine *m, u32 cpu)
{
	settings = m->settings;
	processors = m->processors;
	spans = m->spans;
	absences = m->absences;
	tails = m->tails;
	thread_records = m->thread_records;
	processor_id = cpu;
}

/* A span, as a handler writes it when it charges one: one that ended more than once was gathered from interrupts. */
void charge_span(u32 number, u64 since, u64 until, u64 time, u32 state, u64 left)
{
	if (left > 1)
		record_any_span(number, since, until, time, state | left << 16);
	else
		record_span(this_processor(), number, since, until, time, state, left);
	this_processor()->since = until;
}

/* From now on stacks are written. */
void take_stacks(void)
{
	settings.stacks = 1;
}

/* The thread of a thread record has left its processor with these stacks. `woken`: a thread has woken it. */
void leave_with_stacks(u32 number, u64 user, u64 kernel, u64 waker_user, u64 waker_kernel, u32 woken)
{
	struct thread_record *record = bpf_map_lookup_elem(&thread_records, &number);
	record->user_stack = user;
	record->kernel_stack = kernel;
	record->waker_user_stack = waker_user;
	record->waker_kernel_stack = waker_kernel;
	record->waker_kind = woken ? WAKER_THREAD : OBJECT_NONE;
}

u64 written(void)
{
	return this_processor()->written;
}

u64 written_absences(void)
{
	return this_processor()->written_absences;
}

u64 lost_spans(void)
{
	return this_processor()->lost_spans;
}
