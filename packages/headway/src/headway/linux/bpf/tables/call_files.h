/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The files that calls are about: which one it is, and, when it is first seen, its path or the two ends of a socket. */
#ifndef HEADWAY_CALL_FILES_H
#define HEADWAY_CALL_FILES_H

#include "tables/call_layout.h"
#include "waits/file_kinds.h"

/* Parts of the kernel that only these programs use. What follows three underscores is not part of a name there (CO-RE). */

struct super_block___device {
	u32 s_dev;
} CORE;

struct inode___generation {
	u32 i_generation;
} CORE;

struct vfsmount {
	struct dentry *mnt_root;
} CORE;

struct path___mounted {
	struct vfsmount *mnt;
	struct dentry *dentry;
} CORE;

struct file___mounted {
	struct path___mounted f_path;
} CORE;

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
} CORE;

struct dentry___parent {
	struct dentry *d_parent;
} CORE;

struct fs_struct {
	struct path___mounted root;
} CORE;

struct task_struct___rooted {
	struct fs_struct *fs;
} CORE;

struct sock_common___ends {
	u32 skc_rcv_saddr;
	u16 skc_num;
	struct in6_addr skc_v6_rcv_saddr;
} CORE;

struct sock___ends {
	struct sock_common___ends __sk_common;
} CORE;

struct sockaddr_un {
	u16 sun_family;
	char sun_path[UNIX_BYTES];
} CORE;

struct unix_address {
	int len; /* of the name with its family */
	struct sockaddr_un name[1];
} CORE;

struct unix_sock {
	struct unix_address *addr;
	struct sock *peer;
} CORE;

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, struct used_file_key);
	TYPE(value, struct file_info);
} file_infos SEC(".maps");

/* Of each processor: while a file is noted. The stack of the programs has no room for it. */
struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct file_info);
} scratch SEC(".maps");

enum { FAMILY_UNIX = 1, FAMILY_INET = 2, FAMILY_INET6 = 10 };

/* Notes the address of an end in the family AF_UNIX, if it has one. `place`: where in the path. */
INLINE void note_unix_end(struct file_info *info, struct socket_end *noted, struct sock *end, u32 place)
{
	struct unix_sock *own = (void *)end;
	struct unix_address *address = end ? FOLLOW(own, addr) : NULL;
	s32 length = address ? FOLLOW(address, len) - (s32)sizeof(u16) : 0; /* the family comes first */
	if (length <= 0 || length > UNIX_BYTES)
		return;
	char *from = (char *)address + OFFSET_OF(struct unix_address, name) + OFFSET_OF(struct sockaddr_un, sun_path);
	if (!bpf_probe_read_kernel(info->path + place, UNIX_BYTES, from))
		noted->port = length;
}

/* Notes both ends of a socket. */
INLINE void note_ends(struct file_info *info, struct file *file)
{
	struct socket *socket = FOLLOW(file, private_data);
	struct sock *end = FOLLOW(socket, sk);
	struct sock___ends *own = (void *)end;
	u32 family = FOLLOW(end, __sk_common.skc_family);
	info->family = family;
	if (family == FAMILY_UNIX) {
		struct pid *pid = FOLLOW(end, sk_peer_pid);
		info->peer_pid = pid ? FOLLOW(pid, numbers[0].nr) : 0;
		note_unix_end(info, &info->local, end, 0);
		note_unix_end(info, &info->remote, FOLLOW((struct unix_sock *)end, peer), UNIX_BYTES);
		return;
	}
	if (family != FAMILY_INET && family != FAMILY_INET6)
		return;
	u16 port = FOLLOW(end, __sk_common.skc_dport);
	info->remote.port = port >> 8 | port << 8;
	info->local.port = FOLLOW(own, __sk_common.skc_num);
	if (family == FAMILY_INET) {
		bpf_probe_read_kernel(info->remote.address, 4, __builtin_preserve_access_index(&end->__sk_common.skc_daddr));
		bpf_probe_read_kernel(info->local.address, 4, __builtin_preserve_access_index(&own->__sk_common.skc_rcv_saddr));
	} else {
		bpf_probe_read_kernel(
			info->remote.address, 16, __builtin_preserve_access_index(&end->__sk_common.skc_v6_daddr));
		bpf_probe_read_kernel(
			info->local.address, 16, __builtin_preserve_access_index(&own->__sk_common.skc_v6_rcv_saddr));
	}
}

/* Whether all is known of a file that will be. A socket gets its other end later than it is first used. */
INLINE bool is_complete(u32 kind, const struct file_info *info)
{
	return kind != FILE_SOCKET || info->remote.port || info->peer_pid;
}

/*
 * Notes the names of a file and of the directories above it, up to the root of the process, last name first. Where a file
 * system is mounted, its root has the name of the directory that it is mounted on (prepend_path in fs/d_path.c).
 */
GLOBAL int note_path(u64 address)
{
	u32 cpu = bpf_get_smp_processor_id(), at = 0;
	struct file_info *info = bpf_map_lookup_elem(&scratch, &cpu);
	struct file___mounted *file = (void *)address;
	struct task_struct___rooted *task = (void *)bpf_get_current_task_btf();
	struct fs_struct *fs = FOLLOW(task, fs);
	struct path___mounted root = FOLLOW(fs, root), here = FOLLOW(file, f_path);
	struct vfsmount *mounted = here.mnt;
	struct dentry *entry = here.dentry;
	if (!info)
		return 0;
	info->flags = PATH_CUT;
#pragma clang loop unroll(disable)
	for (u32 i = 0; i < N_NAMES; i++) {
		struct dentry___parent *child = (void *)entry;
		if (entry == root.dentry && mounted == root.mnt) {
			info->flags = 0;
			break;
		}
		struct dentry *parent = FOLLOW(child, d_parent);
		if (entry == FOLLOW(mounted, mnt_root) || entry == parent) {
			struct mount *mount = (void *)((char *)mounted - OFFSET_OF(struct mount, mnt));
			struct mount *above = FOLLOW(mount, mnt_parent);
			if (above == mount || !above) {
				info->flags = PATH_APART;
				break;
			}
			entry = FOLLOW(mount, mnt_mountpoint);
			mounted = (void *)((char *)above + OFFSET_OF(struct mount, mnt));
			continue;
		}
		long size =
			bpf_probe_read_kernel_str(info->path + MASKED(at, PATH_BYTES), NAME_BYTES, FOLLOW(entry, d_name.name));
		if (size <= 0 || at + size > PATH_BYTES - 1)
			break;
		at += size;
		entry = parent;
	}
	if (!at && info->flags == PATH_APART) { /* a file without a directory, such as an eventfd */
		long size = bpf_probe_read_kernel_str(info->path, NAME_BYTES, FOLLOW(here.dentry, d_name.name));
		at = size > 0 ? size : 0;
	}
	info->length = at;
	return 0;
}

/* Sets the key of a file; NULL: of none. */
INLINE void identify_file(struct used_file_key *key, struct file *file)
{
	struct inode *inode = FOLLOW(file, f_inode);
	struct super_block___device *of = (void *)FOLLOW(inode, i_sb);
	struct used_file_key fresh = {};
	if (file && inode) {
		fresh.inode = FOLLOW(inode, i_ino);
		fresh.device = FOLLOW(of, s_dev);
		fresh.generation = FOLLOW((struct inode___generation *)inode, i_generation);
		fresh.kind = kind_by_type(inode);
	}
	bool same = fresh.inode == key->inode && fresh.device == key->device && fresh.generation == key->generation;
	*key = fresh;
	if (!fresh.inode || (same && fresh.kind != FILE_SOCKET))
		return;
	struct file_info *info = bpf_map_lookup_elem(&file_infos, key);
	if (info && is_complete(fresh.kind, info))
		return;
	u32 cpu = bpf_get_smp_processor_id();
	info = bpf_map_lookup_elem(&scratch, &cpu);
	if (!info)
		return;
	__builtin_memset(info, 0, __builtin_offsetof(struct file_info, path));
	if (fresh.kind == FILE_SOCKET)
		note_ends(info, file);
	else if (fresh.kind != FILE_PIPE)
		note_path((u64)file);
	bpf_map_update_elem(&file_infos, key, info, 0);
}

#endif
