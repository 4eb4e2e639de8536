/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The files of a thread by their numbers, and their kinds. */
#ifndef HEADWAY_FILE_KINDS_H
#define HEADWAY_FILE_KINDS_H

#include "shared/kernel.h"

INLINE struct file *file_of(struct task_struct *task, u32 number)
{
	struct files_struct *files = task->files;
	if (!files)
		return NULL;
	struct fdtable *table = files->fdt;
	struct file *file = NULL;
	if (!table || number >= table->max_fds)
		return NULL;
	struct file **entries = table->fd;
	bpf_probe_read_kernel(&file, sizeof(file), (char *)entries + (u64)number * sizeof(file));
	return file;
}

INLINE const unsigned char *file_name(struct file *file)
{
	struct dentry *entry = FOLLOW(file, f_path.dentry);
	return FOLLOW(entry, d_name.name);
}

/* Returns the kind of a file by the type of its inode. Anonymous inodes have no type. */
INLINE u32 kind_by_type(struct inode *inode)
{
	switch (FOLLOW(inode, i_mode) & MODE_TYPE) {
	case MODE_FIFO:
		return FILE_PIPE;
	case MODE_SOCKET:
		return FILE_SOCKET;
	case MODE_REGULAR:
	case MODE_BLOCK:
		return FILE_DISK;
	case MODE_DEVICE:
		return FILE_DEVICE;
	}
	return FILE_OTHER;
}

/* Returns the kind of a file by its inode. */
INLINE u32 kind_by_inode(struct file *file)
{
	struct inode *inode = FOLLOW(file, f_inode);
	if (!inode)
		return FILE_NONE;
	u32 kind = kind_by_type(inode);
	if (kind != FILE_OTHER)
		return kind;
	char name[8] = {}; /* anonymous inodes have no type, but a name (fs/anon_inodes.c) */
	bpf_probe_read_kernel_str(name, sizeof(name), file_name(file));
	if (name[0] != '[' && name[0] != 'i')
		return FILE_OTHER;
	switch (name[1] << 16 | name[2] << 8 | name[6]) {
	case 'e' << 16 | 'v' << 8 | 'p': /* [eventpoll] */
		return FILE_EPOLL;
	case 'e' << 16 | 'v' << 8 | 'f': /* [eventfd] */
	case 't' << 16 | 'i' << 8 | 'f': /* [timerfd] */
	case 's' << 16 | 'i' << 8 | 'l': /* [signalfd] */
	case 'n' << 16 | 'o' << 8 | 'y': /* inotify */
		return FILE_EVENT;
	}
	return FILE_OTHER;
}

#endif
