/* headway_polling.h: when to look into a buffer that fills by itself, for runtimes and JITs that collect profile buffers.

   One header, no library, C11 and C++11 and later. It allocates nothing and makes no system call. It is the policy
   `cpu-time` of headway (docs/profile-buffers.md): a thread that has used little processor time has produced little to
   collect, so the next look is due when the thread has used the time in which it half fills its buffer.

       #include <headway_polling.h>

       static struct headway_polling_usual usual;                    // one for all buffers of a collector
       struct headway_polling polling;                               // one for each buffer
       headway_polling_init(&polling, capacity, &usual, 10000000);   // first look after 10 ms, while rates are unknown

       int64_t now = CLOCK, used = PROCESSOR TIME OF THE THREAD;     // when the moment of the buffer has come
       if (headway_polling_due(&polling, now, used) <= now) {
           if (headway_polling_looked(&polling, now, used, FILLED BYTES, BYTES LOST SINCE))
               DRAIN;
       }
       MOMENT = headway_polling_due(&polling, now, used);            // do not even read the thread's clock before it

   examples/polling/collector.c is a whole collector. Times of the clock and of the processor are in the same unit, ns or
   cycles, and from 0 to 2^53 - 1; so are sizes. Nothing here is safe to call from two threads at once on the same
   structures: a collector is one thread. Several collectors have a `headway_polling_usual` each.

   The policy in Python (headway.buffers.policies.cpu_time) gives the same moments and the same drains, as long as the
   compiler does not contract floating-point operations (gcc and clang: -ffp-contract=off). With contraction a moment may
   differ by rounding, which no program can notice.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef HEADWAY_POLLING_H
#define HEADWAY_POLLING_H

#include <math.h> /* for INFINITY; nothing of the library is called */
#include <stdbool.h>
#include <stdint.h>

#ifdef HEADWAY_IMPLEMENTATION
#define HEADWAY_POLLING_API_ __attribute__((visibility("default")))
#elif defined(__GNUC__)
#define HEADWAY_POLLING_API_ static inline __attribute__((unused))
#else
#define HEADWAY_POLLING_API_ static inline
#endif

/* A moment that never comes. */
#define HEADWAY_POLLING_NEVER INT64_MAX

/* The rate at which the fastest of several buffers filled lately: the first estimate for a new buffer. All zero at first;
   `rate` may be set to what is expected, in bytes per unit of processor time. */
struct headway_polling_usual {
    double rate;
    bool found; /* by a drain */
};

/* What is known of one buffer. To be read only. */
struct headway_polling {
    struct headway_polling_usual *usual;
    double capacity;   /* bytes */
    double useful;     /* the part of the buffer that makes a look worthwhile: a half */
    double part;       /* the same at present; less while too much is lost */
    double budget;     /* the share of the records that may be lost */
    double loss;       /* the mean share that was lost lately */
    double rate;       /* at which the buffer fills, in bytes per unit of processor time; 0: unknown */
    double held;       /* the rate of bursts, while they cost more than the budget */
    double interval;   /* processor time from a drain to the next look */
    double next;       /* the thread's processor time at the next look */
    int64_t since;     /* the thread's processor time at the last drain; -1: not known */
    int64_t asked;     /* the thread's processor time when last asked, */
    int64_t asked_at;  /* and the moment; -1: never */
    int32_t backing_off;
    bool own;          /* the rate comes from looks of its own */
};

#ifdef __cplusplus
extern "C" {
#endif

/* Begin with an empty buffer of `capacity` bytes (above 0). While `usual` is unknown, the first look is after `first` units
   of processor time (above 0). A drain is useful from half a buffer on, and 5 % of the records may be lost; set `useful`,
   `part` (to the same) and `budget` after this call to change that. */
HEADWAY_POLLING_API_ void headway_polling_init(struct headway_polling *polling, int64_t capacity,
                                               struct headway_polling_usual *usual, int64_t first);
/* Return the earliest moment at which a look can be useful; `now` or earlier means: look at once. `used` is the processor
   time that the thread has used up to `now`. */
HEADWAY_POLLING_API_ int64_t headway_polling_due(struct headway_polling *polling, int64_t now, int64_t used);
/* Learn from a look that found `filled` bytes. Return whether to drain the buffer now. `lost`: bytes that found no room
   since the last look; 0 if there were none, or if nobody counts them. */
HEADWAY_POLLING_API_ bool headway_polling_looked(struct headway_polling *polling, int64_t now, int64_t used,
                                                 int64_t filled, int64_t lost);

/* ---- How ---------------------------------------------------------------------------------------------------------------- */

#define HEADWAY_POLLING_AIM_ 1.1           /* looks aim at this multiple of the useful part, so that they find enough */
#define HEADWAY_POLLING_IDLE_ 0.75         /* an idle thread is asked again when it could have filled this part */
#define HEADWAY_POLLING_MAX_BACKOFF_ 64    /* while the rate is unknown, the wait doubles up to so many intervals */
#define HEADWAY_POLLING_WEIGHT_ 0.5        /* of the latest look in the mean rate */
#define HEADWAY_POLLING_MEMORY_ (1.0 / 16) /* the weight of the latest look in the mean loss */
#define HEADWAY_POLLING_MIN_PART_ (1.0 / 16)
#define HEADWAY_POLLING_AT_ONCE_ (1.0 / 8)  /* the shortest wait for the rest of the useful part, in intervals */
#define HEADWAY_POLLING_TOO_SOON_ (1.0 / 16) /* the shortest time between two readings of the clock, in intervals */
#define HEADWAY_POLLING_FADING_ (1.0 / 256) /* the weight of a slower drain in the usual rate */
#define HEADWAY_POLLING_GIVING_BACK_ (1.0 / 256) /* of the rate of bursts, by each look that finds room in the buffer */

static inline double headway_polling_less_(double a, double b)
{
    return b < a ? b : a;
}

static inline double headway_polling_more_(double a, double b)
{
    return b > a ? b : a;
}

/* The rate that looks are made for: the mean, or that of bursts. */
static inline double headway_polling_rate_(const struct headway_polling *polling)
{
    return headway_polling_more_(polling->rate, polling->held);
}

/* The processor time in which the buffer fills to the wanted part; infinite while the rate is unknown. */
static inline double headway_polling_wanted_(const struct headway_polling *polling)
{
    double part = headway_polling_less_(HEADWAY_POLLING_AIM_ * polling->part, (1 + polling->part) / 2);

    if (!(headway_polling_rate_(polling) > 0))
        return INFINITY;
    return headway_polling_more_(1.0, part * polling->capacity / headway_polling_rate_(polling));
}

HEADWAY_POLLING_API_ void headway_polling_init(struct headway_polling *polling, int64_t capacity,
                                               struct headway_polling_usual *usual, int64_t first)
{
    polling->usual = usual;
    polling->capacity = (double)capacity;
    polling->useful = polling->part = 0.5;
    polling->budget = 0.05;
    polling->loss = polling->rate = polling->held = polling->next = 0.0;
    polling->interval = (double)first;
    polling->since = polling->asked = polling->asked_at = -1;
    polling->backing_off = 1;
    polling->own = false;
}

HEADWAY_POLLING_API_ int64_t headway_polling_due(struct headway_polling *polling, int64_t now, int64_t used)
{
    double left;
    bool idle;

    if (polling->since < 0) {
        polling->since = used;
        polling->next = (double)used + polling->interval;
    }
    if (!polling->own && polling->usual->rate != polling->rate) {
        polling->rate = polling->usual->rate;
        polling->interval = headway_polling_wanted_(polling);
        polling->next = (double)polling->since + polling->interval;
    }
    idle = polling->asked_at >= 0 && 2 * (used - polling->asked) < now - polling->asked_at;
    polling->asked = used;
    polling->asked_at = now;
    left = polling->next - (double)used;
    if (left <= 0)
        return now;
    left = headway_polling_more_(left, polling->interval * HEADWAY_POLLING_TOO_SOON_);
    if (idle && headway_polling_rate_(polling) > 0) {
        left = headway_polling_more_(left, HEADWAY_POLLING_IDLE_ * polling->capacity / headway_polling_rate_(polling) -
                                               (double)(used - polling->since));
    } else if (idle) {
        polling->backing_off *= polling->backing_off < HEADWAY_POLLING_MAX_BACKOFF_ ? 2 : 1;
        left *= polling->backing_off;
    }
    if (left >= (double)(HEADWAY_POLLING_NEVER - now)) /* more than a clock will ever show */
        return HEADWAY_POLLING_NEVER;
    return now + (left < 1 ? 1 : (int64_t)left);
}

HEADWAY_POLLING_API_ bool headway_polling_looked(struct headway_polling *polling, int64_t now, int64_t used,
                                                 int64_t filled, int64_t lost)
{
    int64_t time = polling->since < 0 ? 0 : used - polling->since;
    double spent = (double)(time < 1 ? 1 : time), there = (double)filled, before = polling->interval, found, expected, rest;
    bool full = lost > 0 || there >= polling->capacity, drained;

    (void)now;
    found = (double)(filled + lost) / spent;
    if (full)
        /* If losses are not counted, the true rate may be any amount higher than this. */
        polling->rate = headway_polling_more_(found, lost ? polling->rate : 2 * polling->rate);
    else if (found > polling->rate || !polling->own)
        polling->rate = found;
    else
        polling->rate += HEADWAY_POLLING_WEIGHT_ * (found - polling->rate);
    polling->own = true;

    drained = full || there >= polling->part * polling->capacity;
    if (drained) {
        struct headway_polling_usual *usual = polling->usual;

        if (found > usual->rate || !usual->found)
            usual->rate = found;
        else
            usual->rate += HEADWAY_POLLING_FADING_ * (found - usual->rate);
        usual->found = true;
        /* If losses are not counted, assume that a full buffer lost as much again. */
        expected = lost || !full ? (double)(filled + lost) : headway_polling_more_(2 * there, polling->rate * spent);
        polling->loss +=
            HEADWAY_POLLING_MEMORY_ * (1 - there / headway_polling_more_(1.0, expected) - polling->loss);
        if (full && polling->loss > polling->budget)
            polling->part = headway_polling_more_(headway_polling_less_(HEADWAY_POLLING_MIN_PART_, polling->useful),
                                                  polling->part / 2);
        else if (polling->loss < polling->budget / 2 && polling->part < polling->useful)
            polling->part = headway_polling_less_(polling->useful, polling->part * 2);
    }
    /* Bursts that cost more than the budget are looked for until they have not come for long. */
    if (!full)
        polling->held *= 1 - HEADWAY_POLLING_GIVING_BACK_;
    else if (polling->loss > polling->budget)
        polling->held = headway_polling_more_(polling->held, polling->rate);

    polling->interval = headway_polling_less_(headway_polling_wanted_(polling), full ? before / 2 : before * 2);
    if (drained) {
        polling->since = used;
        polling->next = (double)used + polling->interval;
    } else {
        /* Wait for the rest, at the rate at which the buffer was filling, but at most twice the time so far. */
        rest = headway_polling_more_(0.0, HEADWAY_POLLING_AIM_ * polling->part * polling->capacity - there);
        found = headway_polling_more_(found, polling->held);
        rest = found > 0 ? headway_polling_less_(rest / found, 2 * spent) : 2 * spent;
        polling->next = (double)used + headway_polling_more_(rest, polling->interval * HEADWAY_POLLING_AT_ONCE_);
    }
    return drained;
}

#ifdef __cplusplus
}
#endif

#endif
