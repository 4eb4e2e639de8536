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

enum gap {
	GAP_SHORT, /* the row goes on */
	GAP_ALIKE, /* so it does: the gap is long, and like the one before */
	GAP_UNLIKE, /* the row ends; a gap that is not over may still become like the one before */
	GAP_LONG, /* the row ends */
};

/*
 * Judges a gap. `before`: the last long one of the row; 0: there is none. `slack`: the time in the gap that may be the
 * kernel's, around switches.
 */
GAP_INLINE enum gap judge_gap(const volatile struct check *c, __u64 gap, __u64 before, __u64 slack)
{
	__u64 part = before / UNLIKE;
	if (!c->gap || gap <= c->gap + slack)
		return GAP_SHORT;
	if (!c->alike || gap > c->alike + slack)
		return GAP_LONG;
	return before && gap + part >= before && gap <= before + part + slack ? GAP_ALIKE : GAP_UNLIKE;
}

#endif
