/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What processes have mapped lately. The reader follows the mappings of processes, but some milliseconds late, and much is
 * over by then: a compiler's parts, the commands of a script. So the programs note themselves what a process maps when it
 * executes a program, and when mmap returns, as far as the reader knows the file already.
 *
 * A walk asks these mappings where the reader's have nothing. They are forgotten when the process executes another program.
 */
#ifndef HEADWAY_RECENT_CODE_H
#define HEADWAY_RECENT_CODE_H

#include "unwinding/unwinding.h"
#include "waits/files.h"

enum { AUXILIARY_PAIRS = 28, AT_BASE = 7, AT_ENTRY = 9, AT_SYSINFO_EHDR = 33, AT_NULL = 0 }; /* linux/auxvec.h */
enum { EXECUTABLE = 4 /* PROT_EXEC */, PAGE_BITS = 12 };

static const struct recent_code no_recent_code SEC(".rodata.none");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, struct file_key);
	TYPE(value, struct code_file);
} code_files SEC(".maps");

/* Tells the versions of processes' mappings apart, also from those of the reader. */
INLINE u64 recent_version(void)
{
	return 1ull << 63 | bpf_ktime_get_ns() << 8 | (bpf_get_smp_processor_id() & 255);
}

INLINE void add_recent(struct recent_code *recent, const struct code_file *file, u64 start, u64 size, u64 linked)
{
	u64 n = recent->n;
	OPAQUE(n);
	if (n >= N_LATE)
		return;
	struct code_mapping *mapping = &recent->mappings[n];
	KEEP(mapping);
	mapping->start = start;
	mapping->end = start + size;
	mapping->delta = linked - file->base;
	mapping->first = file->first;
	mapping->count = file->count;
	mapping->kind = file->kind;
	if (file->python) {
		recent->runtime = start - mapping->delta + file->runtime;
		recent->python = file->python;
	}
	ORDER();
	recent->n = n + 1;
}

/* Adds the code of a file that was mapped as a whole, `bias` away from where it is linked. */
INLINE void add_whole(struct recent_code *recent, const struct file_key *key, u64 bias, u64 base)
{
	struct code_file *file = bpf_map_lookup_elem(&code_files, key);
	if (!file)
		return;
#pragma clang loop unroll(full)
	for (u32 i = 0; i < N_SEGMENTS; i++) {
		struct code_segment *segment = &file->segments[i];
		u64 inside = segment->address & ((1 << PAGE_BITS) - 1), linked = segment->address - inside;
		if (segment->size)
			add_recent(recent, file, (base ? base - file->base : bias) + linked, segment->size + inside, linked);
	}
}

INLINE bool key_of(struct file *file, struct file_key *key)
{
	struct inode *inode = file ? FOLLOW(file, f_inode) : NULL;
	if (!inode)
		return false;
	key->inode = FOLLOW(inode, i_ino);
	key->size = FOLLOW(inode, i_size);
	return key->inode != 0;
}

/* The running process has executed a program: notes it, what loads its libraries, and the vdso. */
NOINLINE int begin_recent_code(struct task_struct *task, u32 pid)
{
	u32 slot = walk_slot(0);
	struct walk *scratch = bpf_map_lookup_elem(&walks, &slot);
	struct mm_struct *mm = task->mm;
	struct file_key key = {}, none = {};
	bpf_map_delete_elem(&code_spaces, &pid);
	if (!scratch || !mm || bpf_map_update_elem(&recent_code, &pid, &no_recent_code, 0))
		return 0;
	struct recent_code *recent = bpf_map_lookup_elem(&recent_code, &pid);
	if (!recent)
		return 0;
	recent->version = recent_version();
	if (bpf_probe_read_kernel(scratch->window, AUXILIARY_PAIRS * 16, mm->saved_auxv))
		return 0;
	u64 base = 0, entry = 0, vdso = 0;
	for (u32 i = 0; i < AUXILIARY_PAIRS; i++) {
		u64 kind = scratch->window[2 * i], value = scratch->window[2 * i + 1];
		if (kind == AT_NULL)
			break;
		if (kind == AT_BASE)
			base = value;
		else if (kind == AT_ENTRY)
			entry = value;
		else if (kind == AT_SYSINFO_EHDR)
			vdso = value;
	}
	if (vdso)
		add_whole(recent, &none, 0, vdso);
	if (!key_of(mm->exe_file, &key))
		return 0;
	struct code_file *file = bpf_map_lookup_elem(&code_files, &key);
	if (!file)
		return 0;
	struct file_key interpreter = file->interpreter;
	add_whole(recent, &key, entry - file->entry, 0);
	if (base && interpreter.inode)
		add_whole(recent, &interpreter, 0, base);
	return 0;
}

/* A call of mmap has returned: notes code of a file that is known. */
NOINLINE int note_mapped(struct task_struct *task, u32 pid, u64 start)
{
	struct pt_regs *registers = bpf_task_pt_regs(task);
	struct file_key key = {};
	u64 size = argument(registers, 2), offset = argument(registers, 6);
	if (!(argument(registers, 3) & EXECUTABLE) || start >> 47 ||
		!key_of((void *)own_file(argument(registers, 5)), &key))
		return 0;
	struct code_file *file = bpf_map_lookup_elem(&code_files, &key);
	struct recent_code *recent = bpf_map_lookup_elem(&recent_code, &pid);
	if (!recent) {
		bpf_map_update_elem(&recent_code, &pid, &no_recent_code, ONLY_NEW);
		recent = bpf_map_lookup_elem(&recent_code, &pid);
		if (recent)
			recent->version = recent_version();
	}
	if (!file || !recent)
		return 0;
#pragma clang loop unroll(full)
	for (u32 i = 0; i < N_SEGMENTS; i++) {
		struct code_segment *segment = &file->segments[i];
		u64 first = segment->offset >> PAGE_BITS << PAGE_BITS;
		if (segment->size && offset >= first && offset < segment->offset + segment->size)
			add_recent(recent, file, start, size, segment->address - segment->offset + offset);
	}
	return 0;
}

/* A process was forked: its child has the same mappings, and maps others from now on. */
NOINLINE int inherit_code(u32 parent, u32 child)
{
	if (parent == child)
		return 0;
	struct code_space *space = bpf_map_lookup_elem(&code_spaces, &parent);
	if (space) {
		struct code_space copy = *space;
		bpf_map_update_elem(&code_spaces, &child, &copy, 0);
	} else {
		bpf_map_delete_elem(&code_spaces, &child); /* of a process that had its number */
	}
	struct recent_code *recent = bpf_map_lookup_elem(&recent_code, &parent);
	if (!recent || bpf_map_update_elem(&recent_code, &child, recent, 0)) {
		bpf_map_delete_elem(&recent_code, &child);
		return 0;
	}
	recent = bpf_map_lookup_elem(&recent_code, &child);
	if (recent)
		recent->version = recent_version();
	return 0;
}

#endif
