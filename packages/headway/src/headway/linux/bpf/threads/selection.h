/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a thread can be selected by: its ids in the reader's pid namespace, its name, its cgroup. Include this where
 * `settings` and `control` are declared.
 */
#ifndef HEADWAY_SELECTION_H
#define HEADWAY_SELECTION_H

#include "shared/kernel.h"

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

/* Returns whether a thread is in the reader's pid namespace, and its ids there. */
INLINE bool in_namespace(struct task_struct *task, u32 *tid, u32 *pid)
{
	u32 inum = settings.namespace_inum; /* 0: the initial one */
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
	u32 level = control.namespace_level;
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
INLINE bool name_matches(const char *comm)
{
	for (u32 i = 0; i < 16; i++) {
		if (i >= settings.name_length)
			return settings.name_prefix || comm[i] == 0;
		if (comm[i] != settings.name[i])
			return false;
	}
	return true;
}

/*
 * Returns whether the thread is in the selected cgroup or below it. The root of a cgroup namespace is some levels down, so
 * the reader sees fewer levels than there are. Therefore deeper levels are tried too.
 */
INLINE bool in_cgroup(struct task_struct *task)
{
	u64 cgroup = settings.cgroup;
	u32 level = settings.cgroup_level & 0xff;
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

INLINE bool is_selected(struct task_struct *task, u32 tid, u32 pid)
{
	if (settings.everything)
		return true;
	if (settings.cgroup && in_cgroup(task))
		return true;
	if (settings.name_length) {
		char comm[16];
		bpf_probe_read_kernel(comm, sizeof(comm), &task->comm);
		if (name_matches(comm))
			return true;
	}
	return bpf_map_lookup_elem(&selected_pids, &pid) || bpf_map_lookup_elem(&selected_tids, &tid);
}

#endif
