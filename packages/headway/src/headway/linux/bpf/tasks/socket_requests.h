/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Requests that come over sockets, as tasks: recognised by their first bytes, of a program that knows nothing of headway.
 *
 * A thread begins a request when it has read bytes that are the beginning of one. The request is over when the thread has
 * sent something to the same descriptor, and then asks for more: reads from there, or waits for events. A thread that waits
 * for events (epoll) without having answered goes on with other requests meanwhile, and which, nobody knows: the request is
 * over for it, too. A process of PostgreSQL has one client, and waits so for locks.
 *
 * What was read is hostile, and only looked at: the first bytes must be right, and the length where the protocol has one.
 */
#ifndef HEADWAY_SOCKET_REQUESTS_H
#define HEADWAY_SOCKET_REQUESTS_H

#include "tasks/task_probes.h"

enum { REQUEST_TASK = 0xffff }; /* as in struct task_probe, where there is none of that number */

enum call_role { NO_ROLE, RECEIVES, SENDS, WAITS, WAITS_FOR_ANYTHING };

/* Returns what a system call means for requests. */
INLINE u32 role_of_call(u64 call)
{
	switch (call) {
#if defined(__TARGET_ARCH_x86)
	case 0: /* read */
	case 45: /* recvfrom */
		return RECEIVES;
	case 1: /* write */
	case 20: /* writev */
	case 40: /* sendfile */
	case 44: /* sendto */
	case 46: /* sendmsg */
	case 307: /* sendmmsg */
		return SENDS;
	case 7: /* poll */
	case 23: /* select */
	case 43: /* accept */
	case 270: /* pselect6 */
	case 271: /* ppoll */
	case 288: /* accept4 */
		return WAITS;
	case 232: /* epoll_wait */
	case 281: /* epoll_pwait */
	case 441: /* epoll_pwait2 */
		return WAITS_FOR_ANYTHING;
#else
	case 63:
	case 207:
		return RECEIVES;
	case 64:
	case 66:
	case 71:
	case 206:
	case 211:
	case 269:
		return SENDS;
	case 72:
	case 73:
	case 202:
	case 242:
		return WAITS;
	case 22:
	case 441:
		return WAITS_FOR_ANYTHING;
#endif
	}
	return NO_ROLE;
}

/* ---- the first bytes ---- */

INLINE u32 word_of(char a, char b, char c, char d)
{
	return (u8)a | (u8)b << 8 | (u8)c << 16 | (u32)(u8)d << 24;
}

/* Takes a character of the method of HTTP. Returns whether more may follow. */
GLOBAL u64 put_method(u32 at)
{
	struct probed_thread *t = this_probed_thread(0);
	if (!OPTION(tasks) || !t)
		return 0;
	struct folding *f = &t->folding;
	u8 c = f->text[MASKED(at, ARGUMENT_BYTES)];
	if (c != ' ' && (c < 'A' || c > 'Z'))
		return 0;
	put_character(f, c);
	return c != ' ';
}

/* HTTP/1: a method, and the path without its query. */
INLINE bool is_http(struct folding *f)
{
	u32 method = word_of(f->text[0], f->text[1], f->text[2], f->text[3]);
	if (method != word_of('G', 'E', 'T', ' ') && method != word_of('P', 'O', 'S', 'T') &&
		method != word_of('P', 'U', 'T', ' ') && method != word_of('H', 'E', 'A', 'D') &&
		method != word_of('D', 'E', 'L', 'E') && method != word_of('P', 'A', 'T', 'C') &&
		method != word_of('O', 'P', 'T', 'I'))
		return false;
	for (u32 i = 0; i < 8; i++)
		if (!put_method(i))
			break;
	if (character_before(f, 1) != ' ' || f->text[MASKED(f->length, ARGUMENT_BYTES)] != '/')
		return false;
	fold_text(f->length);
	return true;
}

/* Takes a character of a command of Redis, which follows the second line. Returns whether more may follow. */
GLOBAL u64 put_redis(u32 at)
{
	struct probed_thread *t = this_probed_thread(0);
	if (!OPTION(tasks) || !t)
		return 0;
	struct folding *f = &t->folding;
	u8 c = f->text[MASKED(at, ARGUMENT_BYTES)], lower = c | 0x20;
	if (f->state < 2) { /* *<arguments>\r\n$<length>\r\n: here the lines are counted */
		f->state += c == '\n';
		return c == '\n' || c == '\r' || c == '*' || c == '$' || (c >= '0' && c <= '9');
	}
	if (lower < 'a' || lower > 'z')
		return 0;
	put_character(f, c & ~0x20);
	return 1;
}

/* Redis: an array of texts, of which the first one is the command. */
INLINE bool is_redis(struct folding *f)
{
	if (f->text[0] != '*' || f->text[1] < '0' || f->text[1] > '9')
		return false;
	f->state = 0;
	for (u32 i = 0; i < 32; i++)
		if (!put_redis(i))
			break;
	return f->state == 2 && f->length;
}

INLINE u32 length_at(const char *text)
{
	return (u32)(u8)text[0] << 24 | (u32)(u8)text[1] << 16 | (u32)(u8)text[2] << 8 | (u8)text[3];
}

/* Returns where the text behind the one that begins in a place begins. */
INLINE u32 behind_text(struct folding *f, u32 from)
{
	u32 found = 0;
	for (u32 i = 0; i < TASK_NAME_LENGTH; i++)
		if (!found && !f->text[MASKED(from + i, ARGUMENT_BYTES)])
			found = from + i + 1;
	return found;
}

/* PostgreSQL: a query, or one that is prepared, has its statement; the use of a prepared one has its name. */
INLINE bool is_postgres(struct folding *f)
{
	char kind = f->text[0];
	u32 at = 5, length = length_at(&f->text[1]);
	if (length < 5 || length >= 1 << 24 || (kind != 'Q' && kind != 'P' && kind != 'B'))
		return false;
	if (kind != 'Q')
		at = behind_text(f, 5);
	if (!at)
		return false;
	if (kind == 'B' && f->text[MASKED(at, ARGUMENT_BYTES)]) {
		f->name[0] = '$'; /* no word of a statement */
		f->length = 1;
	}
	fold_text(at);
	return f->length;
}

/* Makes the name of the request that begins with what the thread has read. Returns it as task_record_of takes it; 0: it is
 * no request. */
GLOBAL u64 name_of_request(u32 number, u64 address, u64 size)
{
	struct probed_thread *t = this_probed_thread(0);
	if (!OPTION(tasks) || !t || size < 4)
		return 0;
	struct folding *f = &t->folding;
	u64 most = size < ARGUMENT_BYTES - 1 ? size : ARGUMENT_BYTES - 1;
	OPAQUE(most);
	begin_name(f);
	__builtin_memset(f->text, 0, sizeof(f->text));
	if (bpf_probe_read_user(f->text, MASKED(most, ARGUMENT_BYTES), (void *)address))
		return 0; /* another thread may have unmapped it */
	bool found = settings.requests & PROTOCOL_HTTP && is_http(f);
	if (!found && settings.requests & PROTOCOL_REDIS) {
		begin_name(f);
		found = is_redis(f);
	}
	bool alone = false;
	if (!found && settings.requests & PROTOCOL_POSTGRES) {
		begin_name(f);
		found = alone = is_postgres(f);
	}
	t->alone = alone;
	return found ? number_of_folded_name(number) : 0;
}

/* ---- calls ---- */

/* The thread has read so many bytes. Returns whether a request begins with them. */
GLOBAL u64 receive_request(u32 number, u64 size, u64 now)
{
	struct thread_record *record = thread_record_at(number);
	struct processor *p = this_processor();
	struct pt_regs *regs = bpf_task_pt_regs(bpf_get_current_task_btf());
	if (!OPTION(tasks) || !p || !record || record->task_log || record->context.known)
		return 0;
	struct probed_thread *t = probed_thread_of(p, record, true);
	if (!t)
		return 0;
	u32 name = name_of_request(number, argument(regs, 2), size);
	if (!name)
		return 0;
	close_probed_task(number, REQUEST_TASK);
	t->socket = (u32)argument(regs, 1) + 1;
	t->answered = 0;
	change_task(p, record, t, number, REQUEST_TASK, name, now);
	return 1;
}

/* The thread begins a call that sends, receives, or waits for events. */
GLOBAL u64 look_at_call(u32 number, u32 role, u64 now)
{
	struct thread_record *record = thread_record_at(number);
	struct probed_thread *t = this_probed_thread(0);
	struct processor *p = this_processor();
	struct pt_regs *regs = bpf_task_pt_regs(bpf_get_current_task_btf());
	if (!OPTION(tasks) || !p || !record || !t || !t->socket)
		return 0;
	bool there = (u32)argument(regs, 1) + 1 == t->socket;
	if (role == SENDS) {
		t->answered |= there;
		return 0;
	}
	bool goes_on = !t->answered && (role != WAITS_FOR_ANYTHING || t->alone);
	if (goes_on || (role == RECEIVES && !there))
		return 0;
	t->socket = 0;
	if (!close_probed_task(number, REQUEST_TASK))
		return 0;
	change_task(p, record, t, number, REQUEST_TASK, 0, now);
	return 1;
}

#endif
