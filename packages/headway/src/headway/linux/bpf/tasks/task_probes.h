/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tasks that begin and end at static probes (USDT) of a program that knows nothing of headway.
 *
 * User space finds the probes in the program's file (linux/probes), and tells for each what it means (struct task_probe):
 * which task begins or ends there, and what its name is made of. That may be texts that the probe has as arguments: the
 * statement of a database, the path of a request. They are folded, so that there are few names: what differs from one
 * request to the next is left out of them.
 *
 * A thread may have tasks within tasks, as statements within a transaction. The one that began last has its time. A task
 * that begins anew while it is open has ended without reaching its end, as statements that fail do. One that has no end
 * goes on where it begins anew with the same name: a server tells more than once what it does.
 */
#ifndef HEADWAY_TASK_PROBES_H
#define HEADWAY_TASK_PROBES_H

#include "tasks/tasks.h"

struct {
	UINT(type, MAP_ARRAY);
	UINT(max_entries, N_TASK_PROBES);
	TYPE(key, u32);
	TYPE(value, struct task_probe);
} task_probes SEC(".maps");

struct open_task {
	u64 outer_id;
	u32 task; /* as in struct task_probe */
	u32 name; /* as task_record_of takes it */
	u32 outer; /* the record of the task that goes on when it ends; 0: none */
	u32 spare;
};

enum { FOLDED_AT_ONCE = 16 };
enum fold_state { BETWEEN_WORDS, IN_WORD, IN_NUMBER, IN_QUOTES, BEHIND_QUOTES };

/* A name while it is made. */
struct folding {
	u32 length; /* of `name` */
	u32 state;
	u32 space; /* 1: a space comes before the next character */
	u32 path; /* 1: the text is a path */
	u32 part; /* where the part of the path begins in `name`, */
	u32 characters, digits, others; /* and how many it has; `others` are no hexadecimal digits and no dashes */
	char name[TASK_NAME_LENGTH];
	char text[ARGUMENT_BYTES];
};

/* What a thread that has come to a probe works on. */
struct probed_thread {
	u64 memory; /* its address space: a new one knows nothing of these tasks */
	u64 birth; /* of its thread record */
	u64 id; /* of its task; 0: none */
	u32 begun; /* tasks so far */
	u32 n_open;
	u32 socket; /* 1 + the descriptor from which its request came (socket_requests.h); 0: it has none */
	u16 answered; /* 1: something was sent there since */
	u16 alone; /* 1: the thread has no other client */
	struct open_task open[N_OPEN_TASKS];
	struct folding folding;
};

struct {
	UINT(type, MAP_TASK_STORAGE);
	UINT(map_flags, F_NO_PREALLOC);
	TYPE(key, int);
	TYPE(value, struct probed_thread);
} probed_threads SEC(".maps");

INLINE struct probed_thread *this_probed_thread(u64 flags)
{
	return bpf_task_storage_get(&probed_threads, bpf_get_current_task_btf(), NULL, flags);
}

/* ---- names ---- */

INLINE void put_character(struct folding *f, char c)
{
	u32 length = f->length;
	if (length < TASK_NAME_LENGTH - 1) {
		f->name[MASKED(length, TASK_NAME_LENGTH)] = c;
		f->length = length + 1;
	}
}

INLINE char character_before(struct folding *f, u32 back)
{
	return f->length < back ? 0 : f->name[MASKED(f->length - back, TASK_NAME_LENGTH)];
}

/* Returns whether a character stands before an operand, so that a dash behind it is a sign. */
INLINE bool is_before_operand(char c)
{
	return c == ' ' || c == '(' || c == ',' || c == '=' || c == '+' || c == '<' || c == '>';
}

/* Puts a question mark for a literal and its sign. Of a list of them one is enough. */
INLINE void put_literal(struct folding *f)
{
	if (character_before(f, 1) == '-' && is_before_operand(character_before(f, 2)))
		f->length -= 1;
	if (character_before(f, 1) == ',' && character_before(f, 2) == '?')
		f->length -= 1;
	else if (character_before(f, 1) == ' ' && character_before(f, 2) == ',' && character_before(f, 3) == '?')
		f->length -= 2;
	else
		put_character(f, '?');
}

/* A part of a path ends: if it is a number or an identifier, that is left out. */
INLINE void end_path_part(struct folding *f)
{
	u32 n = f->characters;
	if (n && (f->digits == n || (f->digits && !f->others && n >= 8))) {
		f->length = f->part;
		put_character(f, '{');
		put_character(f, 'n');
		put_character(f, '}');
	}
	f->characters = f->digits = f->others = 0;
}

/* Takes the next character of a path. Returns false at its end, where the query begins. */
INLINE bool fold_path(struct folding *f, u8 c)
{
	if (c == '?' || c == '#' || c == ' ')
		return false;
	if (c == '/')
		end_path_part(f);
	put_character(f, c);
	if (c == '/') {
		f->part = f->length;
		return true;
	}
	u8 lower = c | 0x20;
	f->characters++;
	if (c >= '0' && c <= '9')
		f->digits++;
	else if (c != '-' && (lower < 'a' || lower > 'f'))
		f->others++;
	return true;
}

/* Takes the next character of a statement, without numbers and texts, and with one space for several. */
INLINE bool fold_statement(struct folding *f, u8 c)
{
	u8 lower = c | 0x20;
	bool digit = c >= '0' && c <= '9', letter = (lower >= 'a' && lower <= 'z') || c == '_' || c == '$' || c >= 0x80;
	if (f->state == IN_QUOTES) {
		if (c == '\'')
			f->state = BEHIND_QUOTES;
		return true;
	}
	if (f->state == BEHIND_QUOTES && c == '\'') { /* two of them stand for one */
		f->state = IN_QUOTES;
		return true;
	}
	if (f->state == IN_NUMBER && (digit || letter || c == '.'))
		return true;
	if (c <= ' ' || c == 0x7f) {
		f->space = f->length ? 1 : 0;
		f->state = BETWEEN_WORDS;
		return true;
	}
	if (f->space)
		put_character(f, ' ');
	f->space = 0;
	if (c == '\'' || (digit && f->state != IN_WORD)) {
		put_literal(f);
		f->state = digit ? IN_NUMBER : IN_QUOTES;
		return true;
	}
	put_character(f, c);
	f->state = digit || letter ? IN_WORD : BETWEEN_WORDS;
	return f->length < TASK_NAME_LENGTH - 1;
}

/* Takes some characters of the text. Returns whether more may follow. */
GLOBAL u64 fold_characters(u32 from)
{
	struct probed_thread *t = this_probed_thread(0);
	if (!OPTION(tasks) || !t)
		return 0;
	struct folding *f = &t->folding;
	for (u32 i = 0; i < FOLDED_AT_ONCE; i++) {
		u8 c = f->text[MASKED(from + i, ARGUMENT_BYTES)];
		if (!c || !(f->path ? fold_path(f, c) : fold_statement(f, c)))
			return 0;
	}
	return 1;
}

/* Adds the text from a place on to the name. */
GLOBAL u64 fold_text(u32 from)
{
	struct probed_thread *t = this_probed_thread(0);
	if (!OPTION(tasks) || !t)
		return 0;
	struct folding *f = &t->folding;
	f->path = f->text[MASKED(from, ARGUMENT_BYTES)] == '/';
	f->state = BETWEEN_WORDS;
	f->part = f->length;
	f->characters = f->digits = f->others = 0;
	for (u32 i = from; i < ARGUMENT_BYTES; i += FOLDED_AT_ONCE)
		if (!fold_characters(i))
			break;
	if (f->path)
		end_path_part(f);
	else if (character_before(f, 1) == ';')
		f->length -= 1;
	f->space = 0;
	return 0;
}

/* Returns an argument of the probe that the thread has come to; it is the address of a text. -1: it cannot be read. */
GLOBAL u64 probe_argument(u32 place, u32 which)
{
	struct task_probe *probe = bpf_map_lookup_elem(&task_probes, &place);
	if (!OPTION(tasks) || !probe)
		return 0;
	struct operand *argument = &probe->arguments[MASKED(which, N_ARGUMENTS)];
	u64 registers = (u64)bpf_task_pt_regs(bpf_get_current_task_btf()), value = argument->value, word = 0;
	if (argument->flags & OPERAND_BASE) {
		bpf_probe_read_kernel(&word, sizeof(word), (void *)(registers + argument->base));
		value += word;
	}
	if (argument->flags & OPERAND_INDEX) {
		bpf_probe_read_kernel(&word, sizeof(word), (void *)(registers + argument->index));
		value += word * argument->scale;
	}
	if (argument->flags & OPERAND_MEMORY) {
		if (bpf_probe_read_user(&word, sizeof(word), (void *)value))
			return -1;
		value = word;
	}
	return value;
}

/* Adds the text of an argument to the name. */
GLOBAL u64 fold_argument(u32 place, u32 which)
{
	struct probed_thread *t = this_probed_thread(0);
	struct processor *p = this_processor();
	if (!OPTION(tasks) || !t || !p)
		return 0;
	struct folding *f = &t->folding;
	u64 address = probe_argument(place, which);
	if (!address)
		return 0;
	if (address >> 56 || bpf_probe_read_user_str(f->text, ARGUMENT_BYTES, (void *)address) < 0) {
		count_loss(p, LOST_ARGUMENTS, 1);
		put_character(f, '?');
		return 0;
	}
	fold_text(0);
	return 0;
}

/* Adds a character of the name as the user wrote it. Returns whether more may follow. */
GLOBAL u64 put_part_of_name(u32 place, u32 at)
{
	struct probed_thread *t = this_probed_thread(0);
	struct task_probe *probe = bpf_map_lookup_elem(&task_probes, &place);
	if (!OPTION(tasks) || !t || !probe)
		return 0;
	u8 c = probe->name[MASKED(at, TASK_NAME_LENGTH)];
	if (!c)
		return 0;
	if (c <= N_ARGUMENTS)
		fold_argument(place, c - 1);
	else
		put_character(&t->folding, c);
	return 1;
}

INLINE void begin_name(struct folding *f)
{
	f->length = f->space = 0;
	__builtin_memset(f->name, 0, sizeof(f->name));
}

/* Returns the name that was made, as task_record_of takes it; 0: it is empty. */
GLOBAL u64 number_of_folded_name(u32 number)
{
	struct thread_record *record = thread_record_at(number);
	struct probed_thread *t = this_probed_thread(0);
	if (!OPTION(tasks) || !record || !t)
		return 0;
	struct folding *f = &t->folding;
	u64 length = f->length;
	if (!length || f->name[0] == ' ')
		return 0;
	__builtin_memset(&record->task_name, 0, sizeof(record->task_name));
	if (length > TASK_NAME_LENGTH)
		length = TASK_NAME_LENGTH;
	bpf_probe_read_kernel(record->task_name.name, MASKED(length, TASK_NAME_LENGTH), f->name);
	u64 shared = number_of_task_name(number, NAME_IN_RECORD);
	return shared == TASK_NAME_NONE ? OTHER_TASKS : SHARED_NAMES + shared;
}

/* Makes the name of the task that begins at a probe, and returns it likewise. */
GLOBAL u64 name_of_probed_task(u32 number, u32 place)
{
	struct probed_thread *t = this_probed_thread(0);
	if (!OPTION(tasks) || !t)
		return 0;
	begin_name(&t->folding);
	for (u32 i = 0; i < TASK_NAME_LENGTH; i++)
		if (!put_part_of_name(place, i))
			break;
	return number_of_folded_name(number);
}

/* ---- tasks ---- */

/* Returns what the running thread works on; NULL: there is no memory for that, which is counted. */
INLINE struct probed_thread *probed_thread_of(struct processor *p, struct thread_record *record, bool begins)
{
	struct probed_thread *t = this_probed_thread(begins ? STORAGE_CREATE : 0);
	u64 memory = (u64)bpf_get_current_task_btf()->mm;
	if (!t) {
		if (begins)
			count_loss(p, LOST_STORAGE, 1);
		return NULL;
	}
	if (t->memory != memory || t->birth != record->birth) {
		t->memory = memory;
		t->birth = record->birth;
		t->n_open = 0;
		t->id = 0;
		t->socket = 0;
	}
	return t;
}

/* Takes a task, and those that have begun in it, from the open ones. Returns whether it was open. */
GLOBAL u64 close_probed_task(u32 number, u32 task)
{
	struct thread_record *record = thread_record_at(number);
	struct probed_thread *t = this_probed_thread(0);
	if (!OPTION(tasks) || !record || !t)
		return 0;
	u32 n = t->n_open;
	for (u32 i = 0; i < N_OPEN_TASKS; i++) {
		struct open_task *open = &t->open[i];
		if (i >= n || open->task != task)
			continue;
		t->n_open = i;
		t->id = open->outer_id;
		record->task_record = open->outer;
		return 1;
	}
	return 0;
}

/* Returns whether the innermost open task is this one, with this name. */
INLINE bool is_open_already(struct probed_thread *t, u32 task, u32 name)
{
	struct open_task *last = &t->open[MASKED(t->n_open - 1, N_OPEN_TASKS)];
	return t->n_open && last->task == task && last->name == name;
}

/* The thread begins a task. */
INLINE void open_probed_task(
	struct processor *p, struct thread_record *record, struct probed_thread *t, u32 number, u32 task, u32 name)
{
	u32 n = t->n_open;
	if (!record->other_tasks)
		record->other_tasks = task_record_of(number, 0, OTHER_TASKS);
	if (!record->other_tasks || n >= N_OPEN_TASKS) { /* there is no room: what it is in goes on */
		count_loss(p, LOST_TASKS, 1);
		go_on_with_task(p, record, number, record->task_record, t->id);
		return;
	}
	struct open_task *open = &t->open[MASKED(n, N_OPEN_TASKS)];
	open->task = task;
	open->name = name;
	open->outer = record->task_record;
	open->outer_id = t->id;
	t->n_open = n + 1;
	t->id = (u64)record->tid << 32 | ++t->begun;
	begin_task(p, record, number, t->id, name);
}

/* The thread works on another task from now on. `name`: of one that begins; 0: on that in which the last one was. */
INLINE void change_task(
	struct processor *p, struct thread_record *record, struct probed_thread *t, u32 number, u32 task, u32 name, u64 now)
{
	record->task_since = now;
	if (name)
		open_probed_task(p, record, t, number, task, name);
	else
		go_on_with_task(p, record, number, record->task_record, t->id);
	record->last_poll_state = 0; /* another task asks for other things: a row of status checks ends */
	record->polling = 0;
	forget_pending(p);
}

/* The thread has come to a probe, and its span until now is charged. Returns whether it works on another task from here on. */
GLOBAL u64 reach_task_probe(u32 number, u32 place, u64 now)
{
	struct thread_record *record = thread_record_at(number);
	struct task_probe *probe = bpf_map_lookup_elem(&task_probes, &place);
	struct processor *p = this_processor();
	if (!OPTION(tasks) || !p || !record || !probe || record->task_log || record->context.known)
		return 0;
	struct probed_thread *t = probed_thread_of(p, record, probe->begins);
	if (!t)
		return 0;
	u32 name = probe->begins ? name_of_probed_task(number, place) : 0;
	if (probe->goes_on && name && is_open_already(t, probe->task, name))
		return 0;
	if (!close_probed_task(number, probe->task) && !name)
		return 0;
	change_task(p, record, t, number, probe->task, name, now);
	return 1;
}

#endif
