/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a thread can be selected by: its ids in the reader's pid namespace, its name, its cgroup. */
#ifndef HEADWAY_SELECTION_H
#define HEADWAY_SELECTION_H

#include "shared/kernel.h"

/* Returns the ids of a thread in the pid namespace with this inode number, at this level; 0: the initial one. */
INLINE bool ids_in_namespace(struct task_struct *task, u32 inum, const volatile u32 *at_level, u32 *tid, u32 *pid)
{
	struct {
		s32 nr;
		u32 hole;
		struct pid_namespace *ns;
	} number = {};
	if (!inum) {
		*tid = task->pid;
		*pid = task->tgid;
		return true;
	}
	struct pid *ids = task->thread_pid;
	u32 level = *at_level;
	if (!ids || !level || ids->level < level)
		return false;
	bpf_probe_read_kernel(&number, sizeof(number), (char *)&ids->numbers[0] + level * sizeof(number));
	struct pid_namespace *space = number.ns;
	if (FOLLOW(space, ns.inum) != inum)
		return false;
	*tid = number.nr;
	struct task_struct *leader = task->group_leader;
	ids = leader->thread_pid;
	if (!ids)
		return false;
	bpf_probe_read_kernel(&number, sizeof(number), (char *)&ids->numbers[0] + level * sizeof(number));
	*pid = number.nr;
	return true;
}

/* Returns whether a thread's name is the selected one, or begins with it. */
INLINE bool is_name(const char *comm, const volatile char *name, u32 length, bool prefix)
{
	for (u32 i = 0; i < 16; i++) {
		if (i >= length)
			return prefix || comm[i] == 0;
		if (comm[i] != name[i])
			return false;
	}
	return true;
}

/*
 * Returns whether the thread is in a cgroup of this level or below it. The root of a cgroup namespace is some levels down, so
 * the reader sees fewer levels than there are. Therefore deeper levels are tried too.
 */
INLINE bool is_in_cgroup(struct task_struct *task, u64 cgroup, u32 level)
{
	struct css_set *set = task->cgroups;
	struct cgroup *group = set->dfl_cgrp, *ancestor = NULL;
	if (!group)
		return false;
	if (FIELD_EXISTS(group->ancestors)) {
		for (u32 i = 0; i < 16 && (u32)group->level >= level + i; i++) {
			bpf_probe_read_kernel(
				&ancestor, sizeof(ancestor), (char *)&group->ancestors[0] + (level + i) * sizeof(ancestor));
			struct kernfs_node *node = FOLLOW(ancestor, kn);
			if (FOLLOW(node, id) == cgroup)
				return true;
		}
		return false;
	}
	struct cgroup___ids *old = (void *)group;
	for (u32 i = 0; i < 16 && (u32)group->level >= level + i; i++) {
		u64 id = 0;
		bpf_probe_read_kernel(&id, sizeof(id), (char *)&old->ancestor_ids[0] + (level + i) * sizeof(id));
		if (id == cgroup)
			return true;
	}
	return false;
}

#endif
