/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Regions that a thread marks in its own code, and functions that the user marks.
 *
 * The thread keeps a block in its own memory (headway.h). For each tag the block has a word, from which follows how long
 * the thread has been in the tag's regions until any moment. At the end of each span of user code the block is read, and
 * each tag gets the growth of its time since the span began. The block cannot change while the thread does not run its own
 * code, so the reading at the end of one span also holds at the beginning of the next. The program can write anything into
 * the block, so each value is limited to the possible.
 *
 * The time of a marked function lies between the probe at its entry and the probe at its return. A frame that was left in
 * another way (longjmp) is recognised by the stack pointer.
 */
#ifndef HEADWAY_REGIONS_H
#define HEADWAY_REGIONS_H

#include "threads/threads.h"

enum { N_READ_FIRST = 4 }; /* tags that are read together with the head of a block: few programs have more */
enum { CLOCK_SLACK = 1000 }; /* ns by which the two clocks may differ */

#if defined(__TARGET_ARCH_x86)
enum { CALL_PRCTL = 157, CALL_URETPROBE = 335, CALL_UPROBE = 336 };
#else
enum { CALL_PRCTL = 167, CALL_URETPROBE = -1, CALL_UPROBE = -2 };
#endif

/* Returns whether this is a call that the kernel makes for a probe (x86: commit ff474a78cef5, 6.11; ba2bfc97b462, 6.18). */
INLINE bool is_probe_call(long call)
{
	return OPTION(functions) && (call == CALL_URETPROBE || call == CALL_UPROBE);
}

enum { PROGRESS_TAG = 1 << 16 }; /* beside the state of a tag: the state is user.<tag>, or USER for want of room */

static const volatile char no_name[TAG_LENGTH] SEC(".rodata.no_name");

/* Returns the number of a tag's name. Tags of the same name share one state. 0: there is no room, which is counted. */
INLINE u32 number_of_tag(struct processor *p, struct tag_name *name)
{
	u32 number = 0;
	u32 *known = bpf_map_lookup_elem(&tag_numbers, name);
	if (known)
		return *known;
	struct tag_name *room = bpf_map_pop_elem(&free_tags, &number) ? NULL : bpf_map_lookup_elem(&tag_names, &number);
	if (!room) {
		count_loss(p, LOST_TAGS, 1);
		return 0;
	}
	bpf_probe_read_kernel(room->name, sizeof(room->name), name->name); /* before anyone can find its number */
	if (OPTION(publish))
		publish_kind_of_tag(number, name->name);
	if (bpf_map_update_elem(&tag_numbers, name, &number, IF_NEW)) { /* another processor was faster */
		bpf_probe_read_kernel(room->name, sizeof(room->name), (const void *)no_name);
		bpf_map_push_elem(&free_tags, &number, 0);
		known = bpf_map_lookup_elem(&tag_numbers, name);
		return known ? *known : 0;
	}
	return number;
}

/* Returns the state of a tag that a thread uses for the first time, with PROGRESS_TAG if that is progress. */
u64 state_of_tag(u64 names, u32 tag)
{
	struct tag_name name = {};
	struct processor *p = this_processor();
	if (!p || bpf_probe_read_user_str(name.name, TAG_LENGTH, (void *)(names + tag * TAG_LENGTH)) <= 1)
		return TAG;
	const char *n = name.name;
	bool progress = n[0] == 'u' && n[1] == 's' && n[2] == 'e' && n[3] == 'r' && n[4] == '.';
	u32 number = number_of_tag(p, &name);
	if (progress)
		return PROGRESS_TAG | (number ? TAG + number : USER);
	return TAG + number;
}

/* Charges a tag with its part of the span. This is a function of its own, so that the verifier goes through it once. */
GLOBAL u64 charge_tag(u32 number, u32 tag)
{
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	struct marks *m = bpf_task_storage_get(&marks, bpf_get_current_task_btf(), NULL, 0);
	if (!p || !record || !m)
		return 0;
	u64 i = MASKED(tag, N_BLOCK_TAGS);
	struct user_span *x = &m->span;
	struct mark *mark = &m->tags[i];
	u64 word = m->block.tags[i].word, entries = m->block.tags[i].entries;
	u64 on = word & 1, value = (u64)((s64)word >> 1) + (on ? x->now : 0);
	u64 entered = entries - mark->entries, all = x->now - x->since;
	u64 time = value - mark->value - (mark->on ? x->since - m->at : 0);
	bool first = !m->at;
	mark->value = value;
	mark->on = on;
	mark->entries = entries;
	mark->last = 0;
	if (first)
		return 0;
	/* A program can be interrupted after it has read the clock and before it writes that time into the block. The time
	 * that it writes then can be as old as its change before, which came after `changed_at`. */
	s64 slack = x->since - m->changed_at + CLOCK_SLACK;
	x->changed |= time != (on ? all : 0) || entered;
	/* All tags together have at most the whole span, and each entry takes at least a nanosecond. */
	bool too_many = entered > all + slack;
	if ((s64)time < -slack || (s64)time > (s64)x->unclaimed + slack || too_many)
		count_loss(p, LOST_LIES, 1);
	if (too_many)
		entered = 0;
	if ((s64)time < 0)
		time = 0;
	if (time > all)
		time = all;
	x->unclaimed -= time < x->unclaimed ? time : x->unclaimed;
	if (x->until != x->now && time) { /* a snapshot lies in the span: the part after it is charged next time */
		u64 before = x->until - x->since;
		u64 part = time == all ? before : time * (before >> 10) / ((all >> 10) + 1);
		mark->value -= time - part;
		time = part;
	}
	if (time > x->left)
		time = x->left;
	if (!time && !entered)
		return 0;
	if (!mark->state) {
		u64 named = state_of_tag(m->block.names, i);
		mark->state = named & (PROGRESS_TAG - 1);
		mark->progress = named & PROGRESS_TAG ? 1 : 0;
	}
	u64 state = mark->state;
	if (state == USER) /* it stays what it would be without the region */
		return 0;
	OPAQUE(state);
	if (state >= N_STATES)
		return 0;
	u64 marks = entered * control.mark_inside;
	x->around += entered * control.mark_around;
	x->n_tags++;
	if (settings.undivided && mark->progress && p->state == RUNNING) { /* the kernel's time in it is not known apart */
		x->around += marks;
		time = marks = 0;
	}
	marks >>= COST_BITS;
	if (marks > time)
		marks = time;
	x->marking += marks;
	x->left -= time;
	time -= marks;
	mark->last = time;
	if (settings.has_steal && time > p->longest && x->since >= p->floor) {
		p->longest = time;
		p->longest_state = state;
	}
	struct cell *cell = cell_of(p, state);
	cell->time += time;
	cell->count += entered;
	add_sum_to_cell_of(number, state, time, entered); /* only the sum of its regions is known: they have no durations */
	if (OPTION(record))
		record_amount(number, state, time, entered, x->since);
	return 0;
}

/* Returns the state of the running thread's own code now, by its block. A tag that was never charged has no state yet. */
INLINE u32 marked_state(u64 block, struct task_struct *task)
{
	struct marks *m = bpf_task_storage_get(&marks, task, NULL, 0);
	u32 open = 0; /* 1 + the tag that is charged */
	if (!m || bpf_probe_read_user(&open, sizeof(open), (void *)(block + __builtin_offsetof(struct block, open))) ||
		!open)
		return USER;
	u32 state = m->tags[MASKED(open - 1, N_BLOCK_TAGS)].state;
	return state ? state : TAG;
}

GLOBAL u64 publish_region(u32 number, u32 tag)
{
	struct thread_record *record = thread_record_at(number);
	struct marks *m = bpf_task_storage_get(&marks, bpf_get_current_task_btf(), NULL, 0);
	if (!record || !m)
		return 0;
	u64 i = MASKED(tag, N_BLOCK_TAGS);
	struct mark *mark = &m->tags[i];
	if (!mark->state) { /* the thread tells its tags apart, whether they were charged or not */
		u64 named = state_of_tag(m->block.names, i);
		mark->state = named & (PROGRESS_TAG - 1);
		mark->progress = named & PROGRESS_TAG ? 1 : 0;
	}
	u32 state = mark->state, progress = mark->progress, on = mark->on;
	publish_tag(number, i, state, mark->value, on);
	struct published_thread *to = published_thread_of(record->publication, number);
	if (!to || progress) /* its time is progress, as that of the code around it */
		return 0;
	u64 place = published_kind(state) == PUBLISHED_POLL;
	to->regions[MASKED(place, 2)] += mark->value;
	if (on)
		to->open_region = 1 + place;
	return 0;
}

/* The running thread's block was read: what it has in its regions until a moment is published. */
GLOBAL int publish_regions(u32 number, u64 until)
{
	struct thread_record *record = thread_record_at(number);
	struct marks *m = bpf_task_storage_get(&marks, bpf_get_current_task_btf(), NULL, 0);
	u32 publication = record ? record->publication : 0;
	struct published_thread *to = published_thread_of(publication, number);
	struct published_states *states = published_states_of(publication, number);
	if (!to || !states || !m)
		return 0;
	begin_publishing(to);
	to->marked = 1;
	to->since = until;
	to->open_region = 0;
	states->open_tag = 0;
	to->regions[0] = 0;
	to->regions[1] = 0;
	u32 n = m->block.n_tags;
	for (u32 i = 0; i < N_BLOCK_TAGS && i < n; i++)
		publish_region(number, i);
	return 0;
}

/*
 * Returns the state of the running thread's own code while time is not divided, for a sample: USER, or that of a region of
 * progress. STATE_NONE: it is in another region, whose time is known exactly (charge_regions).
 */
u64 undivided_user_state(u64 block)
{
	struct marks *m = bpf_task_storage_get(&marks, bpf_get_current_task_btf(), NULL, 0);
	struct {
		u64 names, since;
		u32 depth, open;
	} head = {};
	if (!m || !m->at ||
		bpf_probe_read_user(&head, sizeof(head), (void *)(block + __builtin_offsetof(struct block, names))) ||
		!head.open || m->since != head.since)
		return USER;
	u64 tag = MASKED(head.open - 1, N_BLOCK_TAGS);
	struct mark *mark = &m->tags[tag];
	if (mark->state)
		return mark->progress ? mark->state : STATE_NONE;
	u64 named = state_of_tag(head.names, tag); /* it was never charged */
	return named & PROGRESS_TAG ? named & (PROGRESS_TAG - 1) : STATE_NONE;
}

/*
 * Charges to OVERHEAD_MARKS what the marks of a span took, by the cost that calibration found for a pair. What they took
 * around regions is that of the code without a region if only one tag was entered. With several it is not known which of
 * them was around another, and that part stays where it is.
 */
INLINE void charge_marks(struct processor *p, u32 number, struct user_span *x)
{
	u64 around = x->n_tags == 1 ? x->around >> COST_BITS : 0;
	if (around > x->left)
		around = x->left;
	x->left -= around;
	u64 cost = x->marking + around;
	if (!cost)
		return;
	p->cells[OVERHEAD_MARKS].time += cost;
	add_sum_to_cell_of(number, OVERHEAD_MARKS, cost, 0);
	if (OPTION(record))
		record_amount(number, OVERHEAD_MARKS, cost, 0, x->since);
}

/*
 * A span of user code from `since` to `until` ends now; `time` of it is to be charged. Charges the part that marked regions
 * have, and what the marks took, and returns its length.
 */
u64 charge_regions(u32 number, u64 since, u64 until, u64 now, u64 time)
{
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	struct task_struct *task = bpf_get_current_task_btf();
	if (!p || !record || p->task != (u64)task)
		return 0;
	struct marks *m = bpf_task_storage_get(&marks, task, NULL, STORAGE_CREATE);
	u64 address = record->block;
	if (settings.undivided && !task->mm) { /* the thread ends: its memory is gone, and its time goes on undivided */
		record->block = 0;
		return 0;
	}
	if (!m) {
		count_loss(p, LOST_STORAGE, 1);
		record->block = 0;
		return 0;
	}
	if (bpf_probe_read_user(&m->block, __builtin_offsetof(struct block, tags[N_READ_FIRST]), (void *)address) ||
		m->block.magic != BLOCK_MAGIC) {
		count_loss(p, LOST_BLOCKS, 1);
		return 0;
	}
	u32 n = m->block.n_tags < N_BLOCK_TAGS ? m->block.n_tags : N_BLOCK_TAGS;
	if (n > N_READ_FIRST &&
		bpf_probe_read_user(&m->block.tags[N_READ_FIRST], (N_BLOCK_TAGS - N_READ_FIRST) * sizeof(struct block_tag),
			(void *)(address + __builtin_offsetof(struct block, tags[N_READ_FIRST])))) {
		count_loss(p, LOST_BLOCKS, 1);
		return 0;
	}
	if (m->since != m->block.since) { /* another block, or a child's copy: it begins anew */
		m->since = m->block.since;
		m->at = 0;
		m->changed_at = since;
	}
	m->span.since = since;
	m->span.until = until;
	m->span.now = now;
	m->span.time = time;
	m->span.left = time;
	m->span.unclaimed = now - since;
	m->span.changed = 0;
	m->span.marking = 0;
	m->span.around = 0;
	m->span.n_tags = 0;
	for (u32 i = 0; i < N_BLOCK_TAGS && i < m->block.n_tags; i++)
		charge_tag(number, i);
	if (m->span.changed || !m->at) /* the change came after the last reading, and its time may be written later */
		m->changed_at = m->at ? m->at : since;
	m->at = until;
	charge_marks(p, number, &m->span);
	if (OPTION(publish) && record->publication)
		publish_regions(number, until);
	return time - m->span.left;
}

/* The thread announces the address of its block. */
u64 register_block(u32 number, u64 address)
{
	struct {
		u64 magic;
		u32 tid;
		u32 n_tags;
	} head = {};
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	struct task_struct *task = bpf_get_current_task_btf();
	if (!p || !record)
		return 0;
	struct pid *ids = task->thread_pid;
	struct {
		s32 nr;
		u32 hole;
		u64 space;
	} innermost = {};
	if (ids)
		bpf_probe_read_kernel(&innermost, sizeof(innermost), (char *)&ids->numbers[0] + ids->level * sizeof(innermost));
	if (address >> 48 || address & 7 || bpf_probe_read_user(&head, sizeof(head), (void *)address) ||
		head.magic != BLOCK_MAGIC || head.tid != (u32)innermost.nr) {
		count_loss(p, LOST_BLOCKS, 1);
		return 0;
	}
	bpf_task_storage_delete(&marks, task);
	record->block = address;
	record->user = USER;
	charge_regions(number, p->since, p->since, p->since, 0); /* the present values are where it begins */
	return 0;
}

GLOBAL u64 move_tag_time(u32 number, u32 to, u32 tag)
{
	struct marks *m = bpf_task_storage_get(&marks, bpf_get_current_task_btf(), NULL, 0);
	if (!m)
		return 0;
	struct mark *mark = &m->tags[MASKED(tag, N_BLOCK_TAGS)];
	if (mark->last)
		move_time(number, mark->state, to, mark->last, 0);
	mark->last = 0;
	return 0;
}

/* Moves the span of user code that was charged last to another state, with the parts of marked regions. */
INLINE void move_user_span(struct thread_record *record, u32 number, u32 to, u64 time)
{
	if (record->block)
		for (u32 i = 0; i < N_BLOCK_TAGS; i++)
			move_tag_time(number, to, i);
	move_time(number, record->user, to, time, 0);
}

/* Notes the block of a child that gets a copy of its parent's memory, and so of the block. */
INLINE void inherit_block(struct task_struct *parent, struct task_struct *child, u32 number)
{
	u32 of_parent = thread_record_of(parent);
	struct thread_record *from = of_parent ? thread_record_at(of_parent) : NULL;
	struct thread_record *to = number ? thread_record_at(number) : NULL;
	if (!from || !to || !from->block || parent->mm == child->mm)
		return;
	struct marks *m = bpf_task_storage_get(&marks, parent, NULL, 0);
	if (m && bpf_task_storage_get(&marks, child, m, STORAGE_CREATE))
		to->block = from->block;
}

/* ---- marked functions ---- */

/* Whether the function of a frame has been left, as the stack at a call of the running thread and what is on it show. */
INLINE bool has_been_left(struct frame *frame, u64 stack)
{
	u64 address = 0;
	if (frame->stack != stack)
		return frame->stack < stack;
	/* Its caller has called another function since then, or it has no frame of its own. */
	return RETURN_ADDRESS > 0 && !bpf_probe_read_user(&address, sizeof(address), (void *)stack) &&
		address != frame->return_address;
}

/*
 * Drops the innermost frame if the stack no longer reaches it. Returns the state that it was called in; 0: it stays.
 * `calls`: the thread makes a system call, perhaps in that function; otherwise a function was called or has returned.
 */
u64 drop_marked_frame(u64 stack, u32 calls)
{
	struct marks *m = bpf_task_storage_get(&marks, bpf_get_current_task_btf(), NULL, 0);
	u32 n = m ? m->n_frames : 0;
	if (!m || !n || n > N_FRAMES)
		return 0;
	struct frame *frame = &m->frames[MASKED(n - 1, N_FRAMES)];
	if (calls ? !has_been_left(frame, stack) : frame->stack > stack)
		return 0;
	m->n_frames = n - 1;
	return frame->outer;
}

/*
 * A marked function was called (`state` is its state) or has returned (`state` is 0). Sets the state of user code, and
 * counts the functions that have been left. `returned`: so many bytes of the stack went with the return. `counted`: the span
 * that ended has counted the innermost function.
 */
u64 track_marked_function(u32 number, u32 state, u64 returned, u32 counted)
{
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	struct task_struct *task = bpf_get_current_task_btf();
	u64 stack = STACK(bpf_task_pt_regs(task)) - returned;
	if (!p || !record)
		return 0;
	struct marks *m = bpf_task_storage_get(&marks, task, NULL, STORAGE_CREATE);
	if (!m) {
		count_loss(p, LOST_STORAGE, 1);
		return 0;
	}
	u32 user = record->user;
	for (u32 i = 0; i < N_FRAMES; i++) {
		u32 outer = drop_marked_frame(stack, 0);
		if (!outer)
			break;
		if (i || !counted)
			count_interrupted(number, user);
		user = outer;
	}
	u32 n = m->n_frames;
	if (state && n >= N_FRAMES) {
		count_loss(p, LOST_FRAMES, 1);
		state = user;
	} else if (state) {
		struct frame *frame = &m->frames[MASKED(n, N_FRAMES)];
		frame->stack = stack;
		frame->outer = user;
		frame->return_address = 0;
		if (RETURN_ADDRESS > 0)
			bpf_probe_read_user(&frame->return_address, sizeof(frame->return_address), (void *)stack);
		m->n_frames = n + 1;
	} else {
		state = user;
	}
	record->user = state;
	return 0;
}

/* The running thread, which is in a marked function, makes a call. An exception or a long jump may have left functions. */
GLOBAL int leave_marked_functions(u32 number)
{
	struct thread_record *record = thread_record_at(number);
	u64 stack = STACK(bpf_task_pt_regs(bpf_get_current_task_btf()));
	if (!record)
		return 0;
	for (u32 i = 0; i < N_FRAMES; i++) {
		u32 outer = drop_marked_frame(stack, 1);
		if (!outer)
			break;
		count_interrupted(number, record->user);
		record->user = outer;
	}
	return 0;
}

#endif
