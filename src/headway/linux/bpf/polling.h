/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Polling: asking again and again for what is not there.
 *
 * A status check is a system call that asks whether something is ready without waiting for it; which calls are, and by
 * which arguments and answers, the settings say. One that found nothing, and the time after it, are polling if the next
 * call is a check of the same thing; or of another one that finds nothing either; and from then on whatever is checked,
 * until something is ready, or a call that is no check ends it. What that turns out to be is known later than it is
 * charged, so it is moved. A check that finds something is progress of the kernel's kind, and so is a single one that
 * finds nothing before a wait: that is how an event loop empties a socket.
 */
#ifndef HEADWAY_POLLING_H
#define HEADWAY_POLLING_H

#include "counts.h"
#include "files.h"
#include "regions.h"

enum { /* thread_record.polling: the last check was not the first in a row to find nothing */
	OTHERS = 1, /* others were of other things */
	REPEATED, /* one was of the same thing */
};

INLINE bool has_no_time(u64 address) /* a timespec or a timeval */
{
	u64 time[2] = {};
	return address && !bpf_probe_read_user(time, sizeof(time), (void *)address) && !time[0] && !time[1];
}

INLINE bool does_not_wait(const volatile struct check *c, struct pt_regs *regs, struct file *file)
{
	if (c->always)
		return true;
	if (c->if_zero && !(u32)argument(regs, c->if_zero))
		return true;
	if (c->if_flag && argument(regs, c->if_flag) & c->flag)
		return true;
	if (c->if_no_time && has_no_time(argument(regs, c->if_no_time)))
		return true;
	return c->if_nonblocking && FOLLOW(file, f_flags) & OPEN_NONBLOCK;
}

/*
 * Whether a reader has taken a snapshot since the last check began or returned. Then part of the time whose state is known
 * only now has been read, and counted once, as the state that it was taken for. That stays as it was read.
 */
INLINE bool was_read(struct thread_record *s)
{
	bool read = s->checked_snapshot != s->snapshot;
	s->checked_snapshot = s->snapshot;
	return read;
}

/* The time since the last check, but for what taking samples took of it: that must not make it look like something else. */
INLINE u64 undisturbed(struct thread_record *s, u64 now)
{
	u64 time = now - s->asked_at;
	if (!settings.stacks)
		return time;
	return time > s->disturbed ? time - s->disturbed : 0;
}

/* It was polling: the last check, if that is not known yet, and the time since. `user`: 1 + that; 0: it stays. */
INLINE void confirm(struct processor *p, struct thread_record *s, u32 number, u64 user, u32 counts, bool read)
{
	if (settings.stacks && s->sampled && user)
		tell_polling(s, bpf_ktime_get_ns());
	if (user) {
		move_user(s, number, s->asked, user - 1);
		move_counts(number, s->user, s->asked, counts);
		if (s->user == USER && !read) { /* nor was it an occurrence of user code */
			p->cells[USER].count--;
			add(s, USER, 0, -1);
			if (settings.record)
				record_amount(number, USER, 0, -1, p->since);
		}
	}
	if (p->pending_state) {
		move(number, p->pending_state, s->asked, p->pending_call, 1);
		move_counts(number, p->pending_state, s->asked, COUNTS_PENDING_CALL);
	}
	p->pending_state = 0;
	p->pending_user = 0;
}

/* A system call begins: `check` says which one it may be. The state that it is in, or 0: what the call says. */
u64 ask(u32 number, u32 check, u64 now)
{
	struct processor *p = here();
	struct thread_record *s = thread_record_at(number);
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = bpf_task_pt_regs(task);
	if (!p || !s)
		return 0;
	u32 which = (check - 1) & (N_CHECKS - 1), base = POLL + which * N_FILES;
	const volatile struct check *c = &settings.checks[which];
	u64 about = check && c->about ? argument(regs, c->about) : 0, asked = s->asked;
	bool again = asked >= base && asked < base + N_FILES && s->about == about;
	u64 user = p->state == s->user ? 1 + p->span : 0; /* not so after a fault that a debugger has kept from ending */
	bool read = was_read(s);
	struct file *file = NULL;
	if (check && c->about_file && (!again || c->if_nonblocking)) {
		file = file_of(task, about);
		p->tax += control.after[AT_LOOK];
	}
	if (!check || !does_not_wait(c, regs, file)) {
		c = &settings.checks[MASKED((asked - POLL) / N_FILES, N_CHECKS)];
		if (s->polling == REPEATED && (!c->gap || undisturbed(s, now) <= c->gap))
			confirm(p, s, number, user, COUNTS_SPAN, read);
		s->asked = 0;
		s->polling = 0;
		p->pending_state = 0;
		return 0;
	}
	u32 state = again ? asked : base + file_kind(file);
	s->asking = check;
	s->asks = state;
	s->about = about;
	if (asked && c->gap && undisturbed(s, now) > c->gap)
		s->asked = asked = 0;
	if (!asked) {
		s->polling = 0;
		p->pending_state = 0;
		return 0;
	}
	if (again || s->polling) {
		confirm(p, s, number, user, COUNTS_SPAN, read);
		if (again)
			s->polling = REPEATED;
		return state;
	}
	p->pending_user = read ? 0 : user;
	keep_counts(COUNTS_PENDING_USER);
	return 0;
}

/* Outside a row of checks it matters only if nothing is found: whether it was a check is asked then, of the same arguments.
 * Not of a length of time, of which the kernel writes back what is left. */
INLINE void ask_later(struct thread_record *s, u32 check)
{
	s->asking = check;
	s->asks = 0;
	was_read(s);
}

/* A status check returns, or what may have been one and has found nothing. */
u64 answer(u32 number, u64 now, s64 result)
{
	struct processor *p = here();
	struct thread_record *s = thread_record_at(number);
	if (!p || !s)
		return 0;
	u32 which = (s->asking - 1) & (N_CHECKS - 1), state = p->state;
	const volatile struct check *c = &settings.checks[which];
	u32 call = KERNEL_CALL + (c->call & (N_CALLS - 1));
	bool ready = result ? true : !c->zero;
	if (result < 0 && result >= -4095) {
		u16 error = -result;
		ready = error != c->errors[0] && error != c->errors[1] && error != c->errors[2] && error != c->errors[3];
	}
	bool read = was_read(s);
	s->asking = 0;
	if (!ready && !s->asks) {
		struct task_struct *task = bpf_get_current_task_btf();
		struct pt_regs *regs = bpf_task_pt_regs(task);
		u64 about = c->about ? argument(regs, c->about) : 0;
		struct file *file = c->about_file ? file_of(task, about) : NULL;
		if (!does_not_wait(c, regs, file))
			return 0;
		s->asks = POLL + which * N_FILES + file_kind(file);
		s->about = about;
		s->polling = 0;
		p->pending_state = 0;
	}
	if (ready) {
		if (state == s->asks) {
			move(number, state, call, p->span, !read);
			move_counts(number, state, call, COUNTS_SPAN);
		}
		s->asked = 0;
		s->polling = 0;
		p->pending_state = 0;
		return 0;
	}
	if (state == s->asks) {
		if (!s->polling)
			s->polling = OTHERS;
	} else if (s->asked) { /* another thing, which was not ready either */
		u64 span = p->span;
		confirm(p, s, number, p->pending_user, COUNTS_PENDING_USER, false);
		move(number, call, s->asks, span, !read);
		move_counts(number, call, s->asks, COUNTS_SPAN);
		s->polling = OTHERS;
	} else if (!read) {
		p->pending_state = call;
		p->pending_call = p->span;
		keep_counts(COUNTS_PENDING_CALL);
	}
	s->asked = s->asks;
	s->asked_at = now;
	s->sampled = 0;
	s->disturbed = 0;
	return 0;
}

#endif
