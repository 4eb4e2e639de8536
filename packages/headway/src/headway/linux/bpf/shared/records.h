/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The records of processors and threads: what every object of programs sees of what is measured. */
#ifndef HEADWAY_RECORDS_H
#define HEADWAY_RECORDS_H

#include "shared/kernel.h"

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct processor);
} processors SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct thread_record);
} thread_records SEC(".maps");

struct {
	UINT(type, MAP_TASK_STORAGE);
	UINT(map_flags, F_NO_PREALLOC);
	TYPE(key, int);
	TYPE(value, u32); /* thread record */
} tasks SEC(".maps");

INLINE struct processor *processor_at(u32 cpu)
{
	return bpf_map_lookup_elem(&processors, &cpu);
}

INLINE struct processor *this_processor(void)
{
	return processor_at(bpf_get_smp_processor_id());
}

#endif
