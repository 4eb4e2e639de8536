/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The files that system calls act on: their names and kinds. */
#ifndef HEADWAY_FILES_H
#define HEADWAY_FILES_H

#include "shared/maps.h"
#include "waits/file_kinds.h"

/* Returns an argument of the running thread's call, for a number that is not known before. */
GLOBAL u64 any_argument(u32 number)
{
	return argument(bpf_task_pt_regs(bpf_get_current_task_btf()), number);
}

/* The same of the running thread. */
GLOBAL u64 own_file(u32 number)
{
	return (u64)file_of(bpf_get_current_task_btf(), number);
}

/*
 * Returns the kind of a file. Waits for pipes and sockets are frequent, and all files of these kinds share one
 * file_operations each (pipefifo_fops, socket_file_ops), which no other file has: it tells the kind with one read less.
 */
INLINE u32 file_kind(struct file *file)
{
	u64 operations = (u64)FOLLOW(file, f_op);
	if (LIKELY(operations && operations == pipe_operations))
		return FILE_PIPE;
	if (LIKELY(operations && operations == socket_operations))
		return FILE_SOCKET;
	u32 kind = kind_by_inode(file);
	if (kind == FILE_PIPE)
		pipe_operations = operations;
	else if (kind == FILE_SOCKET)
		socket_operations = operations;
	return kind;
}

#endif
