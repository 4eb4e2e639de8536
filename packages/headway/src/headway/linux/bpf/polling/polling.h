/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Polling: a thread asks again and again for something that is not there.
 *
 * A status check is a system call that asks whether something is ready and does not wait for it. The settings define
 * which calls are checks, by their arguments, and which return values mean that nothing was ready. A check that finds
 * nothing, and the user code after it, are polling if the next call is
 *
 * - a check of the same object, whatever it finds, or
 * - a check of another object that finds nothing either; but not of a file by another name.
 *
 * From then on all checks are polling, whatever their object, until a check finds something or a call that is not a check
 * ends the row. Only the next call shows whether a check was polling. The check's time is charged by then, so it is moved.
 * A check that finds something is kernel work, and so is a single check that finds nothing before a wait: an event loop
 * empties a socket in this way.
 *
 * A neutral call does nothing for the thread: it reads a clock, or lets time pass. It neither begins nor ends a row. In a
 * row its time is polling too, and does not count towards the longest time allowed between two checks (gaps.h). Nor does
 * time in which the thread did not run, was interrupted, or the hypervisor ran something else.
 *
 * What a reader has read is never moved: a snapshot divides the open span before a handler charges it, and the processor
 * forgets what was pending (snapshots.h).
 */
#ifndef HEADWAY_POLLING_H
#define HEADWAY_POLLING_H

#include "events/event_counts.h"
#include "polling/gaps.h"
#include "waits/files.h"
#include "regions/regions.h"

enum { /* thread_record.polling: the row has more than one check */
	OTHERS = 1, /* no two in succession are of the same object */
	REPEATED, /* two in succession are of the same object */
};

INLINE bool is_zero_timeout(u64 address) /* a timespec or a timeval */
{
	u64 time[2] = {};
	return address && !bpf_probe_read_user(time, sizeof(time), (void *)address) && !time[0] && !time[1];
}

/* Returns whether the call that the running thread makes is this check. `address`: of the file that it is about. */
GLOBAL u32 is_status_check(u32 which, u64 address)
{
	const volatile struct check *c = &settings.checks[MASKED(which, N_CHECKS)];
	struct file *file = (struct file *)address;
	if (c->always)
		return true;
	if (c->if_zero && !(u32)any_argument(c->if_zero))
		return true;
	if (c->if_flag && any_argument(c->if_flag) & c->flag)
		return true;
	if (c->if_equal && (u32)any_argument(c->if_equal) == c->equal)
		return true;
	if (c->if_no_time && is_zero_timeout(any_argument(c->if_no_time)))
		return true;
	return c->if_nonblocking && FOLLOW(file, f_flags) & OPEN_NONBLOCK;
}

/* Returns a hash of the name of a file, which is this argument, and of the directory that it is in, the argument before. */
GLOBAL u64 hash_of_name(u32 number)
{
	struct processor *p = this_processor();
	if (!p)
		return 0;
	u64 hash = number > 1 ? (u32)any_argument(number - 1) : 0;
	u64 size = bpf_probe_read_user_str(p->asked_name, sizeof(p->asked_name), (void *)any_argument(number));
	if (!size || size >= sizeof(p->asked_name)) /* it cannot be compared */
		return bpf_ktime_get_ns();
	for (u32 i = 0; i < NAME_WORDS; i++) {
		s64 left = size - i * 8;
		u64 word = p->asked_name[i];
		if (left <= 0)
			break;
		if (left < 8)
			word &= (1ull << left * 8) - 1;
		hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
	}
	return hash;
}

/* Returns the object that a check asks about. */
INLINE u64 asked_about(const volatile struct check *c)
{
	if (c->about_name)
		return hash_of_name(c->about);
	return c->about ? any_argument(c->about) : 0;
}

/* Returns whether there is something by the number that this argument points to, which the call has written. */
GLOBAL u32 is_answered(u32 number)
{
	u32 answer = 0;
	return bpf_probe_read_user(&answer, sizeof(answer), (void *)any_argument(number)) || answer;
}

/* Returns the thread's own time since the last check. Neutral calls are not part of it. */
INLINE u64 time_since_check(struct thread_record *record, u64 now)
{
	u64 time = now - record->asked_at;
	return time > record->outside_gap ? time - record->outside_gap : 0;
}

/* Judges the gap since the last check of the row, which may go on with this one. `over`: it ends now, with a check. */
GLOBAL u32 gap_since_check(u32 number, u32 which, u64 now, u32 over)
{
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	if (!p || !record)
		return GAP_LONG;
	/* A row has to poll before a switch in it may take time. */
	u64 slack = record->polling && p->switched > record->asked_at ? GAP_OF_SWITCH : 0;
	u64 time = time_since_check(record, now);
	enum gap gap = judge_gap(&settings.checks[MASKED(which, N_CHECKS)], time, record->long_gap, slack);
	if (over && gap != GAP_SHORT && !slack) /* with a switch it is longer than the others */
		record->long_gap = time;
	return gap;
}

/*
 * Remembers the span that was just charged: the next check shows whether it was polling. If there is no room for another
 * state, the span stays what it was charged as. `checks` says how many of the occurrences are checks that found nothing.
 */
INLINE void keep_pending(struct processor *p, u32 state, u64 time, u32 count, u32 checks)
{
	for (u32 i = 0; i < N_PENDING; i++) {
		struct pending *pending = &p->pending[i];
		bool more = i < p->n_pending;
		if (more && pending->state != state)
			continue;
		pending->time = (more ? pending->time : 0) + time;
		pending->count = (more ? pending->count : 0) + count;
		pending->checks = (more ? pending->checks : 0) + checks;
		pending->state = state;
		if (!more)
			p->n_pending = i + 1;
		if (OPTION(n_counted))
			keep_counts_pending(i, more);
		return;
	}
}

GLOBAL u64 confirm_pending(u32 number, u32 which)
{
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	if (!p || !record)
		return 0;
	struct pending *pending = &p->pending[MASKED(which, N_PENDING)];
	u32 state = pending->state;
	u64 checks = pending->checks, others = pending->count - checks;
	move_time(number, state, record->last_poll_state, pending->time, checks);
	move_counted(number, state, record->last_poll_state, COUNTS_PENDING + which);
	if (others)
		drop_occurrences(p, record, number, state, others);
	return 0;
}

/*
 * Moves pending time to polling: the last check, if it is pending, and the time since. `user` is 1 + the user time charged
 * last, which moves too; 0: it stays.
 */
GLOBAL_IN_PLAIN u64 confirm_polling(u32 number, u64 user, u32 counts)
{
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	OPAQUE(counts); /* the compiler would pass nothing where it is not needed, and the verifier wants a number */
	if (!p || !record)
		return 0;
	if (OPTION(samples) && record->sampled && user)
		submit_polling(record, bpf_ktime_get_ns());
	if (user) {
		move_user_span(record, number, record->last_poll_state, user - 1);
		move_counted(number, record->user, record->last_poll_state, counts);
		if (record->user == USER) /* the occurrence of user code was not one either */
			drop_occurrences(p, record, number, USER, 1);
	}
	for (u32 i = 0; i < N_PENDING && i < p->n_pending; i++)
		confirm_pending(number, i);
	forget_pending(p);
	return 0;
}

/* Returns 1 + the number of the neutral call that is in progress; 0: the call is not neutral. */
INLINE u32 neutral_call(struct pt_regs *regs)
{
	u64 call = CALL_IN_PROGRESS(regs);
	u32 which = call < N_CALLS && !COMPAT_CALL(regs) ? settings.neutral_of[MASKED(call, N_CALLS)] : 0;
	const volatile struct neutral *n = &settings.neutrals[MASKED(which - 1, N_NEUTRAL)];
	return which && n->if_zero && (u32)any_argument(n->if_zero) ? 0 : which;
}

/*
 * A neutral call begins in a row. Returns the call's state: the row's state of polling, or 0, which means the state of an
 * ordinary call (kernel.NAME). It is polling at once only if the row is known to poll (REPEATED) and the call is neutral
 * whatever it returns. In all other cases its return value decides, and end_neutral moves the time then.
 */
INLINE u64 begin_neutral(struct processor *p, struct thread_record *record, u32 number, u32 which, u64 user, u64 now)
{
	record->current_check = NEUTRAL + which;
	record->current_poll_state = 0;
	record->neutral_since = now;
	if (record->polling == REPEATED) {
		confirm_polling(number, user, COUNTS_SPAN);
		return settings.neutrals[MASKED(which, N_NEUTRAL)].any ? record->last_poll_state : 0;
	}
	if (user)
		keep_pending(p, record->user, user - 1, record->user == USER, 0);
	return 0;
}

/* The next check begins another row. */
INLINE void break_row(struct processor *p, struct thread_record *record)
{
	record->last_poll_state = 0;
	record->polling = 0;
	forget_pending(p);
}

/* A row ends with something else than a gap. */
INLINE void end_row(struct processor *p, struct thread_record *record)
{
	break_row(p, record);
	record->long_gap = 0;
}

/*
 * A system call begins that may be a check, or that follows a check. `check` is 1 + the check that it may be, 0 for any
 * other call. Returns the call's state of polling, or 0, which means the state of an ordinary call (kernel.NAME).
 */
u64 begin_check(u32 number, u32 check, u64 now)
{
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	struct task_struct *task = bpf_get_current_task_btf();
	struct pt_regs *regs = bpf_task_pt_regs(task);
	if (!p || !record)
		return 0;
	u32 which = (check - 1) & (N_CHECKS - 1), base = POLL + which * N_FILES;
	const volatile struct check *c = &settings.checks[which];
	u64 about = check ? asked_about(c) : 0, last = record->last_poll_state;
	bool again = last >= base && last < base + N_FILES && record->about == about;
	u64 user = p->state == record->user ? 1 + p->span : 0; /* differs after a fault whose end a debugger prevented */
	u64 file = 0;
	if (check && c->about_file && (!again || c->if_nonblocking)) {
		file = own_file(about);
		add_cost(p, AT_LOOK);
	}
	if (!check || !is_status_check(which, file)) {
		u32 gap = last ? gap_since_check(number, (last - POLL) / N_FILES, now, false) : GAP_LONG;
		u32 neutral = gap < GAP_LONG ? neutral_call(regs) : 0;
		if (neutral) {
			if (gap && record->polling) /* only the next check can show that this gap is like the others */
				record->polling = OTHERS;
			return begin_neutral(p, record, number, neutral - 1, user, now);
		}
		if (record->polling == REPEATED && gap <= GAP_ALIKE)
			confirm_polling(number, user, COUNTS_SPAN);
		end_row(p, record);
		return 0;
	}
	u32 state = again ? last : base + file_kind((struct file *)file);
	record->current_check = check;
	record->current_poll_state = state;
	record->about = about;
	/* Other names are other questions: whoever looks for a file in several places does not poll. */
	bool alone = !again && (c->about_name | settings.checks[MASKED((last - POLL) / N_FILES, N_CHECKS)].about_name);
	if (!last || alone || gap_since_check(number, which, now, true) > GAP_ALIKE) {
		break_row(p, record);
		return 0;
	}
	if (again || record->polling) {
		confirm_polling(number, user, COUNTS_SPAN);
		if (again)
			record->polling = REPEATED;
		return state;
	}
	p->pending_user = user;
	keep_counts_of_user_span();
	return 0;
}

/*
 * A call that may be a check begins outside a row. It matters only if it finds nothing, so end_check looks at its
 * arguments when it has returned. A check with arguments that the kernel overwrites, such as a length of time with the
 * remaining time, cannot be deferred (at_once).
 */
INLINE void defer_check(struct thread_record *record, u32 check)
{
	record->current_check = check;
	record->current_poll_state = 0;
}

/* Returns whether a call returned one of these errors, or 0 if `zero` is set. */
INLINE bool is_one_of(s64 result, bool zero, const volatile u16 *errors)
{
	u16 error = -result;
	if (result >= 0 || result < -4095)
		return !result && zero;
	return error == errors[0] || error == errors[1] || error == errors[2] || error == errors[3];
}

/* A status check returns, or a deferred call that may have been one and has found nothing. */
u64 end_check(u32 number, u64 now, s64 result)
{
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	if (!p || !record)
		return 0;
	u32 which = (record->current_check - 1) & (N_CHECKS - 1), state = p->state;
	const volatile struct check *c = &settings.checks[which];
	u32 call = KERNEL_CALL + (c->call & (N_CALLS - 1));
	bool ready = !is_one_of(result, c->zero, c->errors);
	record->current_check = 0;
	if (!ready && !record->current_poll_state) {
		u64 file = c->if_nonblocking ? own_file(any_argument(c->about)) : 0;
		if (!is_status_check(which, file) || (c->answer && is_answered(c->answer)))
			return 0;
		u64 about = asked_about(c);
		if (c->about_file && !file)
			file = own_file(about);
		record->current_poll_state = POLL + which * N_FILES + file_kind((struct file *)file);
		record->about = about;
		record->polling = 0;
		forget_pending(p);
	}
	if (!ready && c->answer && is_answered(c->answer))
		ready = true;
	if (ready) {
		if (state == record->current_poll_state) {
			move_time(number, state, call, p->span, 1);
			move_counted(number, state, call, COUNTS_SPAN);
		}
		end_row(p, record);
		return 0;
	}
	if (state == record->current_poll_state) {
		if (!record->polling)
			record->polling = OTHERS;
	} else if (record->last_poll_state) { /* the row's second object is not ready either */
		u64 span = p->span;
		confirm_polling(number, p->pending_user, COUNTS_PENDING_USER);
		move_time(number, call, record->current_poll_state, span, 1);
		move_counted(number, call, record->current_poll_state, COUNTS_SPAN);
		record->polling = OTHERS;
	} else
		keep_pending(p, call, p->span, 1, 1);
	record->last_poll_state = record->current_poll_state;
	record->asked_at = now;
	record->outside_gap = 0;
	record->sampled = 0;
	return 0;
}

/* A call that may be neutral returns. */
u64 end_neutral(u32 number, u64 now, s64 result)
{
	struct processor *p = this_processor();
	struct thread_record *record = thread_record_at(number);
	if (!p || !record)
		return 0;
	const volatile struct neutral *n = &settings.neutrals[MASKED(record->current_check - NEUTRAL, N_NEUTRAL)];
	u32 call = KERNEL_CALL + (n->call & (N_CALLS - 1)), state = p->state, last = record->last_poll_state;
	u64 time = now - record->neutral_since;
	record->current_check = 0;
	if (!last)
		return 0;
	if ((!n->any && !is_one_of(result, n->zero, n->errors)) || (n->at_most && time > n->at_most)) {
		if (state == last) {
			move_time(number, state, call, p->span, 1);
			move_counted(number, state, call, COUNTS_SPAN);
		}
		end_row(p, record);
		return 0;
	}
	record->outside_gap += time;
	if (state == last) { /* the state counts fruitless checks only, not neutral calls */
		drop_occurrences(p, record, number, state, 1);
	} else if (state == call) {
		/* If the thread was off the processor during the call, the time before that stays kernel time, and is counted. */
		bool whole = p->switched <= record->neutral_since;
		keep_pending(p, call, p->span, whole, 0);
		if (record->polling == REPEATED)
			confirm_polling(number, 0, COUNTS_SPAN);
	}
	return 0;
}

#endif
