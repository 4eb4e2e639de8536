/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The frames of CPython of the running thread. Its state is searched for in the lists that begin at _PyRuntime, by the
 * thread pointer, which is what pthread_self(3) returns; the next time it is known. From there on a frame tells the one
 * before it. Where all that is in a version of Python, the reader says (python.py, python_layouts.toml).
 *
 * A native frame of the interpreter executes a run of frames: in some versions one, in others also those that they call.
 * Something in the native frame tells where a run ends, so the two kinds of frames are put together by the addresses of
 * the stack, and no symbols are needed.
 *
 * A code object gets a number when it is seen first, and what it is goes to the reader at once, because it may be freed
 * a moment later. It is known by its address and by what it points to: another one at the same place gets another number.
 *
 * All that is read is the program's, and may be anything.
 */
#ifndef HEADWAY_PYTHON_H
#define HEADWAY_PYTHON_H

#include "unwinding/stack_words.h"

#define PYTHON_THREAD (1ull << 63) /* no address of code */
#define PYTHON_SEARCH_AGAIN 50000000ull /* ns */

enum {
	N_PYTHON_RUNS = 128,
	PYTHON_WINDOW = 1024, /* bytes that are read with a frame: those of its callers */
	PYTHON_MEMORY = 2 * PYTHON_WINDOW,
	PYTHON_NEAR = 4096,
	PYTHON_SEARCHED = 512, /* interpreters and threads that are looked at, at most */
	N_PYTHON_SEEN = 1 << 10, /* code objects that a walk remembers */
	TYPE_OF_OBJECT = 2, /* ob_type, in words */
	PAGE_OF_OBJECTS = 4096,
	SLOT_BITS = 12,
};

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct python_layout);
} python_layouts SEC(".maps");

/* What was found before: the state of a thread, or the number of a code object. */
struct python_key {
	u64 what; /* PYTHON_THREAD + the process, or the address of the code */
	u64 which; /* the thread's pointer, or the identity of the code: of its process, and of what it points to */
};

struct python_known {
	u64 is; /* a thread's state, 0: it has none; or a number */
	u64 newest; /* of the threads among which it was searched for */
	u64 searched_at;
};

struct {
	UINT(type, MAP_LRU_HASH);
	UINT(max_entries, 1);
	TYPE(key, struct python_key);
	TYPE(value, struct python_known);
} python_known SEC(".maps");

/* A code object that was seen lately. */
struct python_seen {
	struct python_key key;
	u64 number;
};

/* The memory of a walk. There is one map for all of it: a program may use 64. */
struct python_walk {
	u32 memory[PYTHON_MEMORY / 4]; /* a window with frames, and behind it one that lies elsewhere */
	u64 window_at; /* where it is in the program; 0: nothing is read */
	u32 frame; /* where the present one is in the memory */
	u32 elsewhere; /* how many were, one after the other */
	u32 code[PYTHON_CODE / 4]; /* the memory of its code */
	u64 at[N_PYTHON_RUNS]; /* an address in the native frame of each run */
	u64 runtime, state;
	u64 next; /* frame */
	u64 c_frame;
	u32 runs, taken; /* how many there are, and how many the native frames have taken */
	u32 in_run; /* words since the last one ended */
	u32 python, pid;
	u32 numbers; /* that were given */
	u32 spare;
	struct stack stack; /* the frames, and why they end */
	struct python_seen seen[N_PYTHON_SEEN];
	struct python_code record; /* for the reader */
};

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct python_walk);
} python_walks SEC(".maps");

struct {
	UINT(type, MAP_RINGBUF);
	UINT(max_entries, 4096);
} python_codes SEC(".maps");

INLINE u64 user_word(u64 at)
{
	u64 value = 0;
	bpf_probe_read_user(&value, sizeof(value), (void *)at);
	return value;
}

INLINE struct python_layout *layout_of(struct python_walk *p)
{
	u32 place = p->python - 1;
	return bpf_map_lookup_elem(&python_layouts, &place);
}

/* ---- the thread ---- */

/* Searches for the state of the running thread. Returns 0 if it has none. */
GLOBAL u64 search_python_thread(u32 slot)
{
	struct python_walk *p = bpf_map_lookup_elem(&python_walks, &slot);
	struct python_layout *layout = p ? layout_of(p) : NULL;
	if (!p || !layout)
		return 0;
	u64 pointer = THREAD_POINTER(bpf_get_current_task_btf()), state = 0;
	u64 interpreter = user_word(p->runtime + layout->runtime_interpreters);
	for (u32 i = 0; i < PYTHON_SEARCHED; i++) {
		if (state) {
			if (user_word(state + layout->thread_id) == pointer)
				return state;
			state = user_word(state + layout->thread_next);
		} else {
			if (!interpreter)
				return 0;
			state = user_word(interpreter + layout->interpreter_threads);
			interpreter = user_word(interpreter + layout->interpreter_next);
		}
	}
	return 0;
}

/* Whether a state is still the thread's: it is in its list, with the thread's pointer. */
INLINE bool is_in_list(const struct python_layout *layout, u64 state, u64 pointer)
{
	if (user_word(state + layout->thread_id) != pointer)
		return false;
	u64 before = user_word(state + layout->thread_previous);
	u64 interpreter = before ? 0 : user_word(state + layout->thread_interpreter);
	return user_word(before ? before + layout->thread_next : interpreter + layout->interpreter_threads) == state;
}

/* Finds the state of the running thread. Returns whether it has one. */
INLINE bool find_python_thread(u32 slot, struct python_walk *p, const struct python_layout *layout)
{
	u64 pointer = THREAD_POINTER(bpf_get_current_task_btf());
	struct python_key key = {.what = PYTHON_THREAD + p->pid, .which = pointer};
	struct python_known *known = bpf_map_lookup_elem(&python_known, &key), found = {};
	if (known && known->is && is_in_list(layout, known->is, pointer)) {
		p->state = known->is;
		return true;
	}
	u64 interpreter = user_word(p->runtime + layout->runtime_interpreters);
	found.newest = interpreter ? user_word(interpreter + layout->interpreter_threads) : 0;
	found.searched_at = bpf_ktime_get_ns();
	/* A new one would come first. But it is in the list before it has the thread's pointer. */
	if (known && !known->is && known->newest == found.newest &&
		found.searched_at - known->searched_at < PYTHON_SEARCH_AGAIN)
		return false;
	found.is = search_python_thread(slot);
	bpf_map_update_elem(&python_known, &key, &found, 0);
	p->state = found.is;
	return p->state != 0;
}

/* ---- code ---- */

INLINE u64 mixed(u64 hash, u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}

INLINE u32 half_at(const u32 *memory, u32 size, u32 offset)
{
	return memory[MASKED(offset / 4, size / 4)];
}

INLINE u64 word_at(const u32 *memory, u32 size, u32 offset)
{
	return half_at(memory, size, offset) | (u64)half_at(memory, size, offset + 4) << 32;
}

/* Reads the beginning of an object, as far as it can be read. Returns how many bytes that are. */
INLINE u32 read_object(u8 *to, u32 size, u64 at)
{
	u64 rest = PAGE_OF_OBJECTS - (at & (PAGE_OF_OBJECTS - 1));
	if (!bpf_probe_read_user(to, size, (void *)at))
		return size;
	OPAQUE(rest);
	if (rest < size && !bpf_probe_read_user(to, MASKED(rest, size), (void *)at))
		return rest;
	return 0;
}

/* Tells the reader what a code object is. Returns whether there was room. */
GLOBAL int tell_python_code(u32 slot, u64 code, u32 number)
{
	struct python_walk *p = bpf_map_lookup_elem(&python_walks, &slot);
	struct python_layout *layout = p ? layout_of(p) : NULL;
	if (!p || !layout)
		return 0;
	struct python_code *record = &p->record;
	record->code = code;
	record->number = number;
	record->pid = p->pid;
	record->python = p->python - 1;
	record->first_line = half_at(p->code, PYTHON_CODE, layout->code_first_line);
	record->name_at = word_at(p->code, PYTHON_CODE, layout->code_name);
	record->file_at = word_at(p->code, PYTHON_CODE, layout->code_file);
	record->lines_at = word_at(p->code, PYTHON_CODE, layout->code_lines);
	record->name_size = read_object(record->name, PYTHON_NAME, record->name_at);
	record->file_size = read_object(record->file, PYTHON_FILE, record->file_at);
	u64 size = user_word(record->lines_at + layout->bytes_size);
	record->lines_size = size > 0xffffffff ? 0 : size;
	record->lines_at += layout->bytes_data;
	record->lines_read = 0;
	if (size > PYTHON_LINES - 1)
		size = PYTHON_LINES - 1;
	size = MASKED(size, PYTHON_LINES);
	if (!bpf_probe_read_user(record->lines, size, (void *)record->lines_at))
		record->lines_read = size;
	if (!bpf_ringbuf_output(&python_codes, record, sizeof(*record) - PYTHON_LINES + size, RING_NO_WAKEUP))
		return 1;
	return 0;
}

/* Returns the number of the code object whose memory was read; 0: there is no room to say what it is. */
GLOBAL u64 python_number(u32 slot, u64 code, u64 identity)
{
	struct python_walk *p = bpf_map_lookup_elem(&python_walks, &slot);
	struct python_key key = {.what = code, .which = identity};
	if (!p)
		return 0;
	struct python_known *known = bpf_map_lookup_elem(&python_known, &key), found = {};
	if (known)
		return known->is;
	u32 number = ++p->numbers << SLOT_BITS | (slot & ((1 << SLOT_BITS) - 1));
	found.is = number;
	if (tell_python_code(slot, code, number) && !bpf_map_update_elem(&python_known, &key, &found, 0))
		return number;
	count_stack_loss(LOST_CODE);
	return 0;
}

/* ---- frames ---- */

/* The native frame that executes the present run has something at this address. */
INLINE void end_python_run(struct python_walk *p, struct stack *stack, u64 at)
{
	u64 runs = p->runs;
	OPAQUE(runs);
	if (!p->in_run || runs >= N_PYTHON_RUNS)
		return;
	mark_last_word(stack, PYTHON_RUN_ENDS);
	p->at[MASKED(runs, N_PYTHON_RUNS)] = at;
	p->runs = runs + 1;
	p->in_run = 0;
}

/*
 * Reads the memory of a frame. A function's frame lies right above its caller's, from 3.11 on, so most come with the one
 * before. Those of generators, and those that mark the end of a run, lie elsewhere.
 */
INLINE bool read_frame(struct python_walk *p, const struct python_layout *layout, u64 at)
{
	u64 inside = at - p->window_at, above = PYTHON_WINDOW - PYTHON_FRAME;
	bool near = p->window_at - at < PYTHON_NEAR, stacked = layout->runs >= RUN_BY_FLAG;
	if (p->window_at && inside <= above) {
		p->frame = inside;
		p->elsewhere = 0;
		return true;
	}
	if (stacked && (near || !p->window_at || p->elsewhere) &&
		!bpf_probe_read_user(p->memory, PYTHON_WINDOW, (void *)(at - above))) {
		p->window_at = at - above;
		p->frame = above;
		p->elsewhere = 0;
		return true;
	}
	p->frame = PYTHON_WINDOW;
	p->elsewhere++;
	return !bpf_probe_read_user(p->memory + PYTHON_WINDOW / 4, MASKED(layout->frame_size, PYTHON_FRAME), (void *)at);
}

INLINE u64 frame_word(struct python_walk *p, u32 offset)
{
	return word_at(p->memory, PYTHON_MEMORY, p->frame + offset);
}

/* Returns the number of the instruction that the frame is at. */
INLINE u64 python_instruction(struct python_walk *p, const struct python_layout *layout, u64 code)
{
	u64 at;
	if (layout->code_instructions)
		at = (frame_word(p, layout->frame_instruction) - code - layout->code_instructions) / 2;
	else
		at = (u32)frame_word(p, layout->frame_instruction) * layout->instruction_size / 2;
	return at < PYTHON_NO_INSTRUCTION ? at : PYTHON_NO_INSTRUCTION;
}

/* Adds the present frame to the stack. Returns 0, or why the stack ends. */
INLINE int add_python_frame(u32 slot, struct python_walk *p, const struct python_layout *layout, struct stack *stack)
{
	u64 code = frame_word(p, layout->frame_code) & ~7ull;
	if (bpf_probe_read_user(p->code, MASKED(layout->code_size, PYTHON_CODE), (void *)code))
		return END_PYTHON_NOT_READABLE;
	if (word_at(p->code, PYTHON_CODE, 4 * TYPE_OF_OBJECT) != p->runtime + layout->code_type)
		return END_PYTHON_NO_CODE;
	u64 identity = mixed(p->pid, word_at(p->code, PYTHON_CODE, layout->code_name));
	identity = mixed(identity, word_at(p->code, PYTHON_CODE, layout->code_file));
	identity = mixed(identity, word_at(p->code, PYTHON_CODE, layout->code_lines));
	identity = mixed(identity, half_at(p->code, PYTHON_CODE, layout->code_first_line));
	struct python_seen *seen = &p->seen[MASKED(mixed(identity, code), N_PYTHON_SEEN)];
	KEEP(seen);
	if (seen->key.what != code || seen->key.which != identity || !seen->number) {
		seen->number = python_number(slot, code, identity);
		seen->key.what = code;
		seen->key.which = identity;
	}
	u64 instruction = python_instruction(p, layout, code);
	add_word(stack, seen->number << PYTHON_NUMBER_SHIFT | instruction << PYTHON_INSTRUCTION_SHIFT);
	p->in_run++;
	return 0;
}

/* Adds the present frame, and goes on to the one that called it. Returns 1 if there is none. */
GLOBAL int step_to_python_caller(u32 slot)
{
	struct python_walk *p = bpf_map_lookup_elem(&python_walks, &slot);
	struct python_layout *layout = p ? layout_of(p) : NULL;
	if (!p || !layout || !p->next)
		return 1;
	struct stack *stack = &p->stack;
	if (stack->depth >= N_STACK_FRAMES)
		return end_stack(stack, 0, END_PYTHON_DEEP);
	u64 at = p->next;
	if (!read_frame(p, layout, at))
		return end_stack(stack, 0, END_PYTHON_NOT_READABLE);
	u32 runs = layout->runs, entry = frame_word(p, layout->frame_entry & ~3u) >> (layout->frame_entry & 3) * 8 & 255;
	p->next = frame_word(p, layout->frame_previous);
	if (runs == RUN_BY_OWNER && entry >= layout->entry_owner) {
		end_python_run(p, stack, at);
		return 0;
	}
	int why = add_python_frame(slot, p, layout, stack);
	if (why)
		return end_stack(stack, 0, why);
	if (runs == RUN_BY_ADDRESS || runs == RUN_BY_C_FRAME || (runs == RUN_BY_FLAG && entry)) {
		end_python_run(p, stack, p->c_frame);
		p->c_frame = p->c_frame ? user_word(p->c_frame + layout->c_frame_previous) : 0;
	}
	return 0;
}

/* Reads the frames of Python that the running thread has. They are in the memory of the slot then, and their runs. Returns
 * how many runs there are. */
GLOBAL int read_python_stack(u32 slot, u32 pid, u64 runtime, u32 python)
{
	struct python_walk *p = bpf_map_lookup_elem(&python_walks, &slot);
	if (!p)
		return 0;
	p->stack.depth = 0;
	p->runs = p->taken = p->in_run = p->elsewhere = 0;
	p->window_at = 0;
	p->runtime = runtime;
	p->python = python;
	p->pid = pid;
	struct python_layout *layout = python ? layout_of(p) : NULL;
	if (!layout || !find_python_thread(slot, p, layout))
		return 0;
	p->c_frame = layout->thread_c_frame ? user_word(p->state + layout->thread_c_frame) : 0;
	p->next = layout->c_frame_current ? user_word(p->c_frame + layout->c_frame_current - 1)
									  : user_word(p->state + layout->thread_frame);
	for (u32 i = 0; i < 2 * N_STACK; i++) /* frames, and the ends of runs */
		if (step_to_python_caller(slot))
			break;
	return p->runs;
}

/* ---- native frames ---- */

/* Whether the native frame from `from` to `to` on the stack, with the program counter `pc`, executes the next run. */
INLINE bool executes_python(u32 slot, u64 pc, u64 from, u64 to)
{
	struct python_walk *p = bpf_map_lookup_elem(&python_walks, &slot);
	struct python_layout *layout = p && p->runs ? layout_of(p) : NULL;
	if (!layout || p->taken >= p->runs)
		return false;
	u64 at = p->at[MASKED(p->taken, N_PYTHON_RUNS)];
	if (layout->runs == RUN_BY_ADDRESS ? pc - p->runtime - layout->evaluating >= layout->evaluating_size
									   : at < from || at >= to)
		return false;
	p->taken++;
	return true;
}

#endif
