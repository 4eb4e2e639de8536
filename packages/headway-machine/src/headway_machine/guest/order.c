/* The order of ready threads by progress, beside round robin: the thread with the least effective progress (EPC) is next,
 * so that each makes the same progress, not that each gets the same time.
 *
 * A thread that comes, or comes back from a wait, counts as having made as much as the least of those that are there. So
 * it neither catches up what it did not want, nor waits for others to catch up with it. */

#include "policy.h"

bool by_progress;
static uint64_t least; /* the progress of those that have made least, as of the last turns; it never goes back */

static uint64_t made(const struct thread *thread) { return thread->block.counter[COUNTER_EPC] + thread->ahead; }

/* Take the next of the ready threads; NULL if there is none, or none that is to run before `self`, which could stay. */
struct thread *take_next(struct hw_waiters *ready, const struct thread *self, bool stays)
{
    struct thread *best = NULL, *before = NULL, *before_best = NULL;
    if (!by_progress)
        return take(ready);
    for (struct thread *thread = ready->first; thread; before = thread, thread = thread->next)
        if (!best || made(thread) < made(best)) {
            best = thread;
            before_best = before;
        }
    /* The counters of the thread that ran are still in the hart, which is in its interrupt latch: they stand still. */
    uint64_t own = stays ? COUNTER_READ(CSR_COUNTER, CSR_COUNTER_HIGH) + self->ahead : UINT64_MAX;
    uint64_t next = best && made(best) <= own ? made(best) : own;
    if (next > least && next != UINT64_MAX)
        least = next;
    if (!best || own < made(best))
        return NULL;
    if (before_best)
        before_best->next = best->next;
    else
        ready->first = best->next;
    if (ready->last == best)
        ready->last = before_best;
    return best;
}

void catch_up(struct thread *thread)
{
    if (made(thread) < least)
        thread->ahead += least - made(thread);
}

uint64_t turn_of(const struct thread *thread, uint64_t quantum) { return quantum << thread->longer; }
