/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The memory of the programs: settings, what readers have mapped, and what only the programs see. */
#ifndef HEADWAY_MEMORY_H
#define HEADWAY_MEMORY_H

#include "kernel.h"

/* ---- settings ---- */

const volatile struct settings settings SEC(".rodata.settings");
volatile struct control control;

/* ---- memory ---- */

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
	TYPE(value, struct processor);
} saved_processors SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct slot);
} slots SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct record);
} saved_slots SEC(".maps");

struct {
	UINT(type, MAP_STACK);
	UINT(max_entries, 1);
	TYPE(value, u32);
} free_slots SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 4096);
} exits SEC(".maps");

struct {
	UINT(type, MAP_TASK_STORAGE);
	UINT(map_flags, F_NO_PREALLOC);
	TYPE(key, int);
	TYPE(value, u32); /* slot */
} tasks SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u32);
} selected_pids SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, u32);
} selected_tids SEC(".maps");

#endif
