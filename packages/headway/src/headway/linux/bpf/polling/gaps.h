/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * How long a thread may do something of its own between two status checks of a row. Times are in ns, of the thread's own
 * processor time, less that of neutral calls.
 *
 * A row goes on after a short gap; and after a longer one that is like the long one before it, where the user allows such
 * gaps: a loop that does the same between two checks each time does nothing but ask. What has no gap before it to be
 * compared with ends the row, and is compared with what comes then.
 */
#ifndef HEADWAY_GAPS_H
#define HEADWAY_GAPS_H

#include "shared/layout.h"

#define GAP_INLINE static inline __attribute__((always_inline))

enum {
	/* Of the kernel's work around a switch no event tells. It is in the thread's own time: so much at most, in guests. */
	GAP_OF_SWITCH = 50000,
	UNLIKE = 4, /* gaps are alike if they differ by no more than this part of the one before */
};

/* Whether a gap is short. `slack`: the time in it that may be the kernel's, around switches. */
GAP_INLINE _Bool is_short_gap(const volatile struct check *c, __u64 gap, __u64 slack)
{
	return !c->gap || gap <= c->gap + slack;
}

/* Whether a gap that has lasted so long, and goes on, may be one of a row. */
GAP_INLINE _Bool may_be_gap(const volatile struct check *c, __u64 gap, __u64 slack)
{
	return is_short_gap(c, gap, slack) || (c->alike && gap <= c->alike + slack);
}

/* Whether a row goes on after this gap. `before`: the last gap that was not short; 0: there was none since another call. */
GAP_INLINE _Bool goes_on_after(const volatile struct check *c, __u64 gap, __u64 before, __u64 slack)
{
	__u64 part = before / UNLIKE;
	if (is_short_gap(c, gap, slack))
		return 1;
	return c->alike && before && gap <= c->alike + slack && gap + part >= before && gap <= before + part + slack;
}

#endif
