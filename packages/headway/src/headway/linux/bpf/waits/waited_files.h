/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Files that threads wait for: the other end of a socket, and the file that ended a wait for an epoll's. An epoll has a list of
 * the files that are ready. Who makes one ready adds it there, at the end, and then wakes a thread (ep_poll_callback in
 * fs/eventpoll.c, which has the list's lock meanwhile). So the last one is the file that ended the wait. It may be a later
 * one where several threads wait for the files of one epoll, and a file is ready again before its thread has taken it.
 */
#ifndef HEADWAY_WAITED_FILES_H
#define HEADWAY_WAITED_FILES_H

#include "waits/files.h"

enum { FAMILY_UNIX = 1, FAMILY_INET = 2, FAMILY_INET6 = 10 };

/* Notes the other end of a socket. */
INLINE void note_peer(struct socket_peer *peer, struct file *file)
{
	struct socket *socket = FOLLOW(file, private_data);
	struct sock *end = FOLLOW(socket, sk);
	u32 family = FOLLOW(end, __sk_common.skc_family);
	__builtin_memset(peer, 0, sizeof(*peer));
	if (family == FAMILY_UNIX) {
		struct pid *pid = FOLLOW(end, sk_peer_pid);
		peer->pid = pid ? FOLLOW(pid, numbers[0].nr) : 0;
		peer->family = pid ? family : 0;
		return;
	}
	if (family != FAMILY_INET && family != FAMILY_INET6)
		return;
	peer->port = FOLLOW(end, __sk_common.skc_dport);
	peer->family = peer->port ? family : 0;
	if (family == FAMILY_INET)
		bpf_probe_read_kernel(peer->address, 4, __builtin_preserve_access_index(&end->__sk_common.skc_daddr));
	else
		bpf_probe_read_kernel(peer->address, 16, __builtin_preserve_access_index(&end->__sk_common.skc_v6_daddr));
}

/* Returns the file that was last ready of an epoll; NULL: none is, or this is no epoll. */
INLINE struct file *ready_file_of(struct file *file)
{
	struct eventpoll *epoll = FOLLOW(file, private_data);
	void *list = __builtin_preserve_access_index(&epoll->rdllist), *last = FOLLOW(epoll, rdllist.prev);
	struct epitem *item = (void *)((char *)last - OFFSET_OF(struct epitem, rdllink));
	return epoll && last && last != list ? FOLLOW(item, ffd.file) : NULL;
}

#endif
