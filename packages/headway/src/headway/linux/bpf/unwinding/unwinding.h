/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Walks user stacks without frame pointers: by rules for each address, which user space makes of the call frame information
 * of every mapped file (tables.py). A step finds the mapping and then the row of an address by binary search, each in a
 * bounded loop, and keeps what it found for the next walk. The callers of a frame are read from the stack only where its
 * rule says that they are there: a stack that cannot be walked to its beginning ends with a word that says why.
 *
 * A register that a function has saved is not read at once. Its place is kept, and it is read when a rule needs it: most
 * frames need none but the stack pointer.
 *
 * One step is a global function, which the verifier goes through once.
 */
#ifndef HEADWAY_UNWINDING_H
#define HEADWAY_UNWINDING_H

#include "interpreters/python.h"
#include "unwinding/stack_words.h"

typedef short s16;

enum {
	N_REGISTER_WORDS = 32,
	N_SAVED = N_FOLLOWED,
	N_PLACES = 8,
	N_WINDOW = 64,
	MAPPING_STEPS = 17,
	ROW_STEPS = 26,
	N_FOUND = 1 << 12
};

/* What was found for an address: the number of a rule, or one of these. */
enum found {
	FOUND_END = 0x80000000, /* + why the stack ends */
	FOUND_FRAME_POINTER = 0x40000000,
	FOUND_TRUSTED = 1, /* added to it: whatever calls keeps frame pointers */
};

/* Before commit 34dd3bad1a6f ("bpf: Relax the requirement to use preallocated hash maps in tracing progs.", 6.1) programs of
 * perf events use hash maps only if these have all their memory from the beginning. */
struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, u32); /* the process, as the reader knows it */
	TYPE(value, struct code_space);
} code_spaces SEC(".maps");

struct {
	UINT(type, MAP_HASH);
	UINT(max_entries, 1);
	TYPE(key, u32); /* likewise */
	TYPE(value, struct recent_code);
} recent_code SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct code_mapping);
} code_mappings SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct frame_rule);
} frame_rules SEC(".maps");

/*
 * Of struct frame_row. It has no types. Before commit db559117828d ("bpf: Consolidate spin_lock, timer management into
 * btf_record", 6.2) the kernel does not take a map without types, as the reader makes it, for the same kind as one with them.
 */
struct frame_chunk {
	UINT(type, MAP_ARRAY);
	UINT(map_flags, F_MMAPABLE);
	UINT(max_entries, FRAME_CHUNK);
	UINT(key_size, 4);
	UINT(value_size, 8);
};

struct { /* the rows of all modules, one behind the other: as many chunks as they need */
	UINT(type, MAP_ARRAY_OF_MAPS);
	UINT(max_entries, 1);
	UINT(key_size, 4);
	struct frame_chunk *values[];
} frame_rows SEC(".maps");

/* A walk, of which each processor has two at most: that of a sample, and the one of a handler that the sample interrupts. */
struct walk {
	u64 registers[N_REGISTER_WORDS]; /* as in struct pt_regs */
	u64 at[N_PLACES]; /* where a followed register was saved that has not been read; 0: it is in `registers` */
	u64 window[N_WINDOW]; /* words of the stack, from `window_at` on */
	u64 window_at; /* 0: none are read */
	u64 pc, sp;
	u64 runtime; /* of Python */
	u32 known; /* the registers whose values are known, a bit each */
	u32 exact; /* 1: `pc` is the next instruction; 0: it is a return address */
	u32 first, count; /* of the process's mappings */
	u64 version;
	u32 pid, python;
};

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct walk);
} walks SEC(".maps");

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct stack);
} walked_stacks SEC(".maps");

/* What was found before. */
struct known_address {
	u64 address, version;
	u32 found, spare;
};

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct known_address);
} known_addresses SEC(".maps");

/* Returns the mapping that contains an address; NULL: none has code there. */
INLINE struct code_mapping *mapping_of(struct walk *w, u64 address)
{
	u32 low = w->first, high = w->first + w->count;
	for (u32 i = 0; i < MAPPING_STEPS; i++) {
		if (low >= high)
			return NULL;
		u32 middle = low + (high - low) / 2;
		struct code_mapping *mapping = bpf_map_lookup_elem(&code_mappings, &middle);
		if (!mapping)
			return NULL;
		if (address < mapping->start)
			high = middle;
		else if (address >= mapping->end)
			low = middle + 1;
		else
			return mapping;
	}
	return NULL;
}

/* Returns the rule of the last row that does not begin behind an address. */
INLINE u32 rule_at(u32 first, u32 count, u32 address)
{
	u32 low = first, high = first + count, rule = 0;
	for (u32 i = 0; i < ROW_STEPS; i++) {
		if (low >= high)
			break;
		u32 middle = low + (high - low) / 2, chunk = middle / FRAME_CHUNK, place = middle % FRAME_CHUNK;
		void *rows = bpf_map_lookup_elem(&frame_rows, &chunk);
		if (!rows)
			return 0;
		struct frame_row *row = bpf_map_lookup_elem(rows, &place);
		if (!row)
			return 0;
		if (row->address <= address) {
			rule = row->rule;
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return rule;
}

/* The same among those of which the reader may not know yet. */
INLINE struct code_mapping *recent_mapping_of(struct walk *w, u64 address)
{
	u32 pid = w->pid;
	struct recent_code *recent = bpf_map_lookup_elem(&recent_code, &pid);
	if (!recent)
		return NULL;
	for (u32 i = 0; i < N_LATE; i++) {
		struct code_mapping *mapping = &recent->mappings[i];
		if (i >= recent->n)
			return NULL;
		if (address >= mapping->start && address < mapping->end)
			return mapping;
	}
	return NULL;
}

/* Finds what find_rule does. `keep`: whether it holds as long as the version of the mappings does. */
INLINE u32 search_address(struct walk *w, u64 address, bool *keep)
{
	struct code_mapping *mapping = mapping_of(w, address);
	if (!mapping) {
		mapping = recent_mapping_of(w, address);
		*keep = !w->count;
	}
	if (!mapping) {
		*keep = false;
		return FOUND_END + END_NO_CODE;
	}
	u32 kind = mapping->kind;
	if (mapping->count) {
		u32 rule = rule_at(mapping->first, mapping->count, address - mapping->start + mapping->delta);
		if (rule)
			return rule;
	}
	if (kind & CODE_FRAME_POINTERS)
		return FOUND_FRAME_POINTER + (kind & CODE_TRUSTED ? FOUND_TRUSTED : 0);
	if (kind & CODE_MADE)
		return FOUND_END + END_MADE;
	return FOUND_END + (kind & CODE_NO_ROOM ? END_NO_ROOM : END_NO_INFORMATION);
}

/* Finds how the caller of the present frame is found: the number of a rule, or one of enum found. */
GLOBAL int find_rule(u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	if (!w)
		return FOUND_END;
	u64 address = w->pc - !w->exact;
	u32 place = slot * N_FOUND + ((address * 0x9e3779b97f4a7c15ull) >> 52);
	struct known_address *known = bpf_map_lookup_elem(&known_addresses, &place);
	if (known && known->address == address && known->version == w->version)
		return known->found;
	bool keep = true;
	u32 found = search_address(w, address, &keep);
	if (known && keep) {
		known->address = address;
		known->version = w->version;
		known->found = found;
	}
	return found;
}

#if defined(__TARGET_ARCH_x86)

enum register_word { WORD_BP = 4, WORD_CALL = 15, WORD_IP = 16, WORD_CS = 17, WORD_SP = 19, N_REGISTERS_SAVED = 21 };
enum { ALL_REGISTERS = (1 << 15) - 1 | 1 << WORD_SP, FOLLOWED_REGISTERS = (1 << N_SAVED) - 1 };
enum { CODE_32_BIT = 0x23, CALL_EXECVEAT = 322 }; /* __USER32_CS */

/* mov $15, %rax; syscall: rt_sigreturn, in every C library, to which signal handlers return. */
enum { SIGRETURN_SIZE = 9 };
static const volatile u8 sigreturn_code[SIGRETURN_SIZE] SEC(".rodata.sigreturn") = {
	0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
/* Where the kernel has put the registers above it, from the stack pointer on (struct ucontext, struct sigcontext). */
enum signal_word {
	SIGNAL_R8 = 40,
	SIGNAL_R12 = 72,
	SIGNAL_BP = 120,
	SIGNAL_BX = 128,
	SIGNAL_SP = 160,
	SIGNAL_IP = 168
};

/* Reads a word of the stack. Most frames are small, so the words that follow are read with it. Returns false if it cannot. */
INLINE bool read_word(struct walk *w, u64 *to, u64 at)
{
	u64 offset = at - w->window_at;
	if (offset >= sizeof(w->window) || offset & 7) {
		w->window_at = 0;
		if (at & 7 || bpf_probe_read_user(w->window, sizeof(w->window), (void *)at))
			return !bpf_probe_read_user(to, sizeof(*to), (void *)at);
		w->window_at = at;
		offset = 0;
	}
	u64 *word = &w->window[MASKED(offset / 8, N_WINDOW)];
	KEEP(word);
	*to = *word;
	return true;
}

/* Reads the value of a register of the present frame. Returns 0, or why the stack ends here. */
INLINE int register_value(struct walk *w, u32 word, u64 *value)
{
	word = MASKED(word, N_REGISTER_WORDS);
	if (word == WORD_SP) {
		*value = w->sp;
		return 0;
	}
	if (!(w->known >> word & 1))
		return END_NOT_SUPPORTED;
	u64 *place = &w->at[MASKED(word, N_PLACES)];
	KEEP(place);
	if (word < N_SAVED && *place) {
		u64 saved = 0;
		if (!read_word(w, &saved, *place))
			return END_NOT_READABLE;
		*place = 0;
		w->registers[word] = saved;
	}
	*value = w->registers[word];
	return 0;
}

/* Goes on with the frame that had this program counter and stack pointer. Returns 0, or why the stack ends. */
INLINE int go_on(struct walk *w, u64 pc, u64 sp, u32 exact)
{
	w->pc = pc;
	w->sp = sp;
	w->exact = exact;
	return pc ? 0 : END_OUTERMOST;
}

INLINE int step_by_frame_pointer(struct walk *w)
{
	u64 frame = 0, words[2] = {};
	int why = register_value(w, WORD_BP, &frame);
	if (why)
		return why;
	if (!frame)
		return END_OUTERMOST;
	if (frame < w->sp || frame & 7)
		return END_BACKWARDS;
	if (bpf_probe_read_user(words, sizeof(words), (void *)frame))
		return END_NOT_READABLE;
	w->registers[WORD_BP] = words[0];
	w->at[WORD_BP] = 0;
	w->known = 1 << WORD_BP;
	return go_on(w, words[1], frame + sizeof(words), 0);
}

/* The present frame is the kernel's, of a signal. */
INLINE int step_out_of_signal(struct walk *w)
{
	u64 pc = 0, sp = 0, frame = w->sp;
	if (!read_word(w, &pc, frame + SIGNAL_IP) || !read_word(w, &sp, frame + SIGNAL_SP))
		return END_NOT_READABLE;
	w->at[0] = frame + SIGNAL_R12 + 24; /* r15 */
	w->at[1] = frame + SIGNAL_R12 + 16;
	w->at[2] = frame + SIGNAL_R12 + 8;
	w->at[3] = frame + SIGNAL_R12;
	w->at[4] = frame + SIGNAL_BP;
	w->at[5] = frame + SIGNAL_BX;
	w->known = FOLLOWED_REGISTERS;
	return go_on(w, pc, sp, 1);
}

/*
 * Nothing tells how the caller is found, but the code itself may: what it does next, where that is to return. Returns as
 * step_by_rule does, and `otherwise` where the code does something else.
 */
INLINE int step_by_code(struct walk *w, int otherwise)
{
	u8 code[16] = {};
	u64 pc = 0, at = w->sp;
	if (bpf_probe_read_user(code, SIGRETURN_SIZE, (void *)w->pc))
		return otherwise;
	u32 same = 0;
	for (u32 i = 0; i < SIGRETURN_SIZE; i++)
		same += code[i] == sigreturn_code[i];
	if (same == SIGRETURN_SIZE)
		return step_out_of_signal(w);
	if (code[0] == 0x5d && code[1] == 0xc3) { /* pop %rbp; ret */
		w->at[WORD_BP] = at;
		w->known |= 1 << WORD_BP;
		at += 8;
	} else if (code[0] == 0x48 && code[1] == 0x83 && code[2] == 0xc4 && code[3] < 0x80 && code[4] == 0xc3) {
		at += code[3]; /* add $N, %rsp; ret */
	} else if (code[0] != 0xc3) {
		return otherwise;
	}
	if (!read_word(w, &pc, at))
		return END_NOT_READABLE;
	w->known &= FOLLOWED_REGISTERS;
	return go_on(w, pc, at + 8, 0);
}

/* Finds the canonical frame address: the caller's stack pointer. Returns 0, or why the stack ends here. */
INLINE int frame_address(struct walk *w, const struct frame_rule *rule, u64 *cfa)
{
	u64 value = 0;
	int why = register_value(w, rule->cfa_register, &value);
	if (why)
		return why;
	value += (s32)rule->offset;
	if (rule->cfa == CFA_DEREF) {
		u64 at = value;
		if (!read_word(w, &value, at))
			return END_NOT_READABLE;
		value += (s32)rule->more;
	} else if (rule->cfa == CFA_PLT) {
		value += (w->pc & 15) >= (u64)rule->more ? 8 : 0;
	}
	*cfa = value;
	return 0;
}

INLINE int step_by_rule(struct walk *w, const struct frame_rule *rule)
{
	u64 cfa = 0, base = 0, pc = 0;
	if (rule->cfa == CFA_NONE || rule->cfa == CFA_UNKNOWN)
		return END_NOT_SUPPORTED;
	if (rule->return_at == FRAME_OUTERMOST)
		return END_OUTERMOST;
	int why = frame_address(w, rule, &cfa);
	if (why)
		return why;
	if (rule->from_base) {
		why = register_value(w, rule->base, &base);
		if (why)
			return why;
	}
	if (!rule->signal && cfa <= w->sp && !(rule->return_register && cfa == w->sp))
		return END_BACKWARDS;
	if (rule->return_register) {
		why = register_value(w, rule->return_register - 1, &pc);
		if (why)
			return why;
	} else if (!read_word(w, &pc, (rule->from_base >> N_SAVED & 1 ? base : cfa) + (s16)rule->return_at))
		return END_NOT_READABLE;
	u32 known = w->known & FOLLOWED_REGISTERS;
#pragma clang loop unroll(full)
	for (u32 i = 0; i < N_SAVED; i++) {
		u16 offset = rule->saved[i];
		if (offset == FRAME_KEPT)
			continue;
		if (offset == FRAME_LOST) {
			known &= ~(1u << i);
			continue;
		}
		w->at[i] = (rule->from_base >> i & 1 ? base : cfa) + (s16)offset;
		known |= 1u << i;
	}
	w->known = known;
	return go_on(w, pc, cfa, rule->signal);
}

/* Adds the present frame, and goes on to its caller. Returns 1 if the stack has ended. */
GLOBAL int step_to_caller(u32 slot)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct stack *stack = bpf_map_lookup_elem(&walked_stacks, &slot);
	if (!w || !stack)
		return 1;
	u32 found = find_rule(slot), depth = stack->depth;
	u64 pc = w->pc, sp = w->sp;
	if (depth >= N_STACK_FRAMES)
		return end_stack(stack, pc, END_DEEP);
	int why = found >= FOUND_END ? found - FOUND_END : 0;
	if (why == END_NO_CODE && depth) /* what was read is no return address */
		return end_stack(stack, pc, why);
	if (why == END_NO_CODE)
		why = END_NO_MAPPINGS;
	if (why || found >= FOUND_FRAME_POINTER) {
		u64 unsure = found == FOUND_FRAME_POINTER + FOUND_TRUSTED && !w->exact ? 0 : (u64)STACK_UNSURE << 56;
		int by_code = step_by_code(w, -1);
		add_word(stack, pc | (why || by_code >= 0 ? 0 : unsure));
		why = by_code >= 0 ? by_code : why ? why : step_by_frame_pointer(w);
	} else {
		add_word(stack, pc);
		struct frame_rule *rule = bpf_map_lookup_elem(&frame_rules, &found);
		why = rule ? step_by_rule(w, rule) : END_NO_ROOM;
	}
	if (why)
		return end_stack(stack, pc, why);
	if (w->python && executes_python(slot, pc, sp, w->sp))
		mark_last_word(stack, (u64)STACK_RUNS << 56);
	return 0;
}

/* Whether the thread executes another program, and has the memory of that already, but not its registers. */
INLINE bool has_left_its_stack(struct walk *w)
{
	u64 call = w->registers[WORD_CALL], word = 0;
	return (call == CALL_EXECVE || call == CALL_EXECVEAT) && bpf_probe_read_user(&word, sizeof(word), (void *)w->sp);
}

/* Finds what a process has mapped. Returns 0, or why a walk ends. */
INLINE u32 find_mappings(struct walk *w, u32 pid)
{
	struct code_space *space = bpf_map_lookup_elem(&code_spaces, &pid);
	if (space) {
		w->first = space->first;
		w->count = space->count;
		w->version = space->version;
		w->runtime = space->runtime;
		w->python = space->python;
		return 0;
	}
	struct recent_code *recent = bpf_map_lookup_elem(&recent_code, &pid);
	if (!recent)
		return END_NO_MAPPINGS;
	w->first = 0;
	w->count = 0;
	w->version = recent->version;
	w->runtime = recent->runtime;
	w->python = recent->python;
	return 0;
}

/* Begins a walk of the running thread's user stack. Returns false if it has none. */
INLINE bool begin_walk(struct walk *w, struct stack *stack, u32 pid)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *registers = bpf_task_pt_regs(task);
	stack->depth = 0;
	w->python = 0;
	if (bpf_probe_read_kernel(w->registers, N_REGISTERS_SAVED * 8, registers))
		return false;
	w->pc = w->registers[WORD_IP];
	w->sp = w->registers[WORD_SP];
	if (!w->pc || !task->mm || has_left_its_stack(w))
		return false;
	__builtin_memset(w->at, 0, sizeof(w->at));
	w->window_at = 0;
	w->known = ALL_REGISTERS;
	w->exact = 1;
	stack->frames[0] = w->pc;
	if ((w->registers[WORD_CS] & 0xffff) == CODE_32_BIT) {
		stack->depth = 1;
		end_stack(stack, w->pc, END_32_BIT);
		return true;
	}
	w->pid = pid;
	u32 why = find_mappings(w, pid);
	if (why) {
		stack->depth = 1;
		end_stack(stack, w->pc, why);
	}
	return true;
}

/*
 * Walks the user stack of the running thread. Returns it in the memory of this slot (walk_slot); NULL: there is none. The
 * frames end with why the stack does. `python_stack` has the frames of Python that the native ones execute.
 */
INLINE struct stack *walk_user_stack(u32 slot, u32 pid)
{
	struct walk *w = bpf_map_lookup_elem(&walks, &slot);
	struct stack *stack = bpf_map_lookup_elem(&walked_stacks, &slot);
	if (!w || !stack || !begin_walk(w, stack, pid))
		return NULL;
	if (stack->depth) /* it has ended already */
		return stack;
	if (w->python)
		read_python_stack(slot, pid, w->runtime, w->python);
	for (u32 i = 0; i < N_STACK; i++)
		if (step_to_caller(slot))
			break;
	return stack;
}

#else

INLINE struct stack *walk_user_stack(u32 slot, u32 pid)
{
	(void)slot;
	(void)pid;
	return NULL;
}

#endif

#endif
