/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The settings and maps of the programs. Readers map some of them; only the programs see the others. */
#ifndef HEADWAY_MAPS_H
#define HEADWAY_MAPS_H

#include "shared/records.h"
#include "scheduler/run_clock.h"

/* ---- settings ---- */

const volatile struct settings settings SEC(".rodata.settings");
/* A setting that the smaller object (plain.bpf.c) does without: there the compiler leaves out all that needs it. */
#ifdef PLAIN
#define OPTION(name) 0
#define GLOBAL_IN_PLAIN GLOBAL
#else
#define OPTION(name) settings.name
#define GLOBAL_IN_PLAIN INLINE /* the calls below it leave no room on the stack for its own part */
#endif
volatile struct control control;

/* How many measured threads have an id in this group, by the id's last bits. */
u32 measured_ids[N_IDS] SEC(".bss.measured_ids");

/* The thread record that was found last for an id of this group: a guess, which is verified (thread_record_of). */
u32 found_records[N_IDS] SEC(".bss.found_records");

/* The file_operations of a pipe and of a socket, once one was seen (files.h). */
u64 pipe_operations, socket_operations;

/* ---- memory ---- */

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct processor);
} saved_processors SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct thread_snapshot);
} saved_threads SEC(".maps");

struct {
	UINT(type, MAP_STACK);
	UINT(max_entries, 1);
	TYPE(value, u32);
} free_thread_records SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 4096);
} exits SEC(".maps");

/* The events of every processor: event + processor * N_COUNTED. */
struct {
	UINT(type, MAP_PERF_EVENTS);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u32);
} events SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct thread_counts);
} thread_counts SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct thread_counts);
} saved_thread_counts SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct processor_counts);
} processor_counts SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct processor_counts);
} saved_processor_counts SEC(".maps");

/* The rings of transitions: word + processor * ring_words. */
struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u64);
} spans SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u64);
} absences SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct tails);
} tails SEC(".maps");

/* One for each processor. Its pages begin with an entry, so an entry is a cache line: other processors read it. */
struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct run_clock);
} run_clocks SEC(".maps");

/* How long threads of a process had a processor, ns: process + processor * n_processes. */
struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u64);
} process_clocks SEC(".maps");

/* A process that has measured threads. */
struct process {
	u32 number;
	u32 threads; /* how many are measured; 0: the last one has just ended */
};

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, u32); /* the kernel's tgid */
	TYPE(value, struct process);
} processes SEC(".maps");

struct {
	UINT(type, MAP_STACK);
	UINT(max_entries, 1);
	TYPE(value, u32);
} free_processes SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, struct cause_key);
	TYPE(value, struct cause);
} causes SEC(".maps");

struct futex_key {
	u64 address;
	u64 pid;
};

/* What was last moved from a futex (futexes.h). */
struct futex_move {
	u64 at; /* when */
	u64 before; /* when it happened before that; 0: never, or that is forgotten */
	u64 to; /* the address of the other futex */
};

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 1);
	TYPE(key, struct futex_key);
	TYPE(value, struct futex_move);
} futex_moves SEC(".maps");

/* One entry of a processor's history (holders.h). */
struct held {
	u64 from, until;
	u32 kind, holder; /* as those of a cause */
	u64 count; /* 1: it left the processor then; 0: it was only interrupted */
	char name[16];
};

enum { N_HELD = 256 };

struct history {
	u64 next;
	struct held held[N_HELD];
};

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct history);
} histories SEC(".maps");

/* The state of one tag of a thread's marked regions, as last read. */
struct mark {
	u64 value; /* time in its regions until `marks.at` */
	u64 entries;
	u64 last; /* its part of the span charged last */
	u16 state;
	u16 on; /* 1: its region is the innermost, so its time grows */
	u32 progress; /* 1: the state is user.<tag> */
};

/* A span of user code that is being charged. */
struct user_span {
	u64 since, until, now;
	u64 time; /* that is to be charged */
	u64 left; /* of it, what no tag has been charged with yet */
	u64 changed; /* 1: a region began or ended in the span */
	u64 unclaimed; /* the part of since..now that no tag has claimed yet */
	u64 marking; /* what the marks themselves took of the regions */
	u64 around; /* what they took of the rest, ns << COST_BITS */
	u64 n_tags; /* that had time, or were entered */
};

struct frame {
	u64 stack; /* the stack pointer when it was called */
	u64 return_address; /* on that stack; 0: not known */
	u32 outer; /* the state that it was called in */
	u32 spare;
};

enum { N_FRAMES = 16 };

/* A thread's marked regions, once it has any, and the marked functions that it is in. */
struct marks {
	u64 at; /* when the block was last read; 0: never */
	u64 since; /* the block's own field `since` */
	u64 changed_at; /* the begin of the span in which a region last began or ended */
	u32 n_frames;
	u32 spare;
	struct mark tags[N_BLOCK_TAGS];
	struct frame frames[N_FRAMES];
	struct user_span span;
	struct block block; /* as read */
};

struct {
	UINT(type, MAP_TASK_STORAGE);
	UINT(map_flags, F_NO_PREALLOC);
	TYPE(key, int);
	TYPE(value, struct marks);
} marks SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, N_TAGS);
	TYPE(key, u32);
	TYPE(value, struct tag_name);
} tag_names SEC(".maps");

/* Numbers of tags that are free. */
struct {
	UINT(type, MAP_STACK);
	UINT(max_entries, N_TAGS);
	TYPE(value, u32);
} free_tags SEC(".maps");

struct { /* of the names of marked regions */
	UINT(type, MAP_HASH);
	UINT(max_entries, N_TAGS);
	TYPE(key, struct tag_name);
	TYPE(value, u32);
} tag_numbers SEC(".maps");

/* What threads did for tasks. */
struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct task_record);
} task_records SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct task_record);
} saved_task_records SEC(".maps");

struct {
	UINT(type, MAP_STACK);
	UINT(max_entries, 1);
	TYPE(value, u32);
} free_task_records SEC(".maps");

struct { /* of the tasks that threads have had */
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, struct task_key);
	TYPE(value, u32);
} task_numbers SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, N_TASK_NAMES);
	TYPE(key, u32);
	TYPE(value, struct task_name);
} task_names SEC(".maps");

struct {
	UINT(type, MAP_STACK);
	UINT(max_entries, N_TASK_NAMES);
	TYPE(value, u32);
} free_task_names SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, N_TASK_NAMES);
	TYPE(key, struct task_name);
	TYPE(value, u32);
} task_name_numbers SEC(".maps");

struct { /* of each processor: the context that it reads */
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct context_record);
} thread_contexts SEC(".maps");

/* An entry of what threads read of themselves, whatever it is (layout.h). */
struct published_unit {
	u64 words[PUBLISHED_UNIT / sizeof(u64)];
};

struct publication_map {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct published_unit);
};

/* What threads read of themselves: a map for each user that asks. User space cannot write any of them (they are frozen). */
struct {
	UINT(type, MAP_ARRAY_OF_MAPS);
	UINT(max_entries, 1);
	UINT(key_size, 4);
	struct publication_map *values[];
} publications SEC(".maps");

/* Returns a processor's cell for a state. A number that is no state gets the cell of STATE_NONE, which nobody reads. */
INLINE struct cell *cell_of(struct processor *p, u64 state)
{
	OPAQUE(state);
	if (state >= N_STATES)
		state = STATE_NONE;
	struct cell *cell = &p->cells[state];
	KEEP(cell);
	return cell;
}

/* Returns the place in a thread's record that names the cell of a state. */
INLINE u8 *index_of(struct thread_record *record, u64 state)
{
	OPAQUE(state);
	if (state >= N_STATES)
		state = STATE_NONE;
	u8 *index = &record->index[state];
	KEEP(index);
	return index;
}

#endif
