/* The scheduler: one list of ready threads, which are preempted at the end of their turn. The order is round robin, or
 * that of order.c.
 *
 * A turn lasts a quantum, or longer where beginning one takes the kernel long, as with slow memory: each hart measures the
 * time from the entry to the exit of the traps in which turns begin. Otherwise a turn could end before its thread runs.
 *
 * It tells the progress unit when a thread becomes ready (hwwake), why the running one leaves (hwleave), and which one
 * the hart runs from now on (hwblock). hwblock also switches the counters, the marked region and the poll latch, so that
 * a thread that was switched out inside a region comes back inside it. */

#include "kernel.h"

void idle(void);

uint32_t least_quantum;
static struct hw_waiters ready;
static struct hart *resting;
static struct thread *sleepers; /* sleeping threads, ordered by the time to wake */
/* The hart whose timer wakes the earliest sleeper. One hart is enough; all harts at once would only collide. */
static struct hart *watchman;

void append(struct hw_waiters *waiters, struct thread *thread)
{
    thread->next = NULL;
    if (waiters->first)
        waiters->last->next = thread;
    else
        waiters->first = thread;
    waiters->last = thread;
}

struct thread *take(struct hw_waiters *waiters)
{
    struct thread *thread = waiters->first;
    if (thread)
        waiters->first = thread->next;
    return thread;
}

void wait(struct thread *self, struct hw_waiters *waiters, uint32_t reason)
{
    self->life = WAITING;
    self->leave = reason;
    if (waiters)
        append(waiters, self);
}

static void make_ready(struct thread *thread)
{
    thread->life = READY;
    append(&ready, thread);
    while (resting) {
        struct hart *hart = resting;
        resting = hart->next;
        hart->listed = false;
        if (hart->resting) {
            hart->resting = false;
            interrupt(hart);
            return;
        }
    }
}

void wake(struct thread *thread)
{
    CSR_WRITE(CSR_HWWAKE, &thread->block);
    catch_up(thread);
    make_ready(thread);
}

void sleep(struct thread *self, uint64_t until)
{
    struct thread **place = &sleepers;
    wait(self, NULL, LEAVE_SLEEP);
    self->wake = until;
    while (*place && (*place)->wake <= until)
        place = &(*place)->next;
    self->next = *place;
    *place = self;
    if (sleepers == self)
        watchman = self->hart;
}

void wake_sleepers(void)
{
    while (sleepers && sleepers->wake <= now()) {
        struct thread *thread = sleepers;
        sleepers = thread->next;
        watchman = NULL;
        wake(thread);
    }
}

static void set_timer(struct hart *hart)
{
    uint64_t deadline = hart->running == &hart->idle ? UINT64_MAX : hart->slice;
    if (watchman == hart && !sleepers)
        watchman = NULL;
    if (sleepers && (watchman == NULL || watchman == hart)) {
        watchman = hart;
        if (sleepers->wake < deadline)
            deadline = sleepers->wake;
    }
    arm(hart, deadline);
}

static void rest(struct hart *hart)
{
    hart->resting = true;
    if (!hart->listed) {
        hart->listed = true;
        hart->next = resting;
        resting = hart;
    }
}

/* Take what it cost to begin the turn of `self`, which is known once it has been given the hart. */
void note_cost(struct hart *hart, const struct thread *self)
{
    hart->began = false;
    hart->cost += self->left - hart->entered - hart->cost / TURN_MEAN;
}

static uint32_t quantum_of(const struct hart *hart)
{
    uint32_t enough = hart->cost / TURN_MEAN * TURN_COSTS;
    return enough > least_quantum ? enough : least_quantum;
}

/* Choose the thread that the hart runs next. `self` is the one that it ran. */
struct thread *choose(struct hart *hart, struct thread *self)
{
    struct thread *next = self;
    bool stays = self->life == RUNNING && self != &hart->idle;

    if (!stays || hart->turn) {
        struct thread *other = take_next(&ready, self, stays);
        if (other) {
            if (stays)
                make_ready(self);
            next = other;
        } else if (!stays)
            next = &hart->idle;
        hart->slice = now() + turn_of(next, quantum_of(hart));
        hart->entered = self->entered;
        hart->began = true;
    }
    hart->turn = false;
    hart->resting = false;
    if (next == &hart->idle) {
        next->x[0] = (uint32_t) idle;
        rest(hart);
    }
    if (next != self || self->life != RUNNING) {
        CSR_WRITE(CSR_HWLEAVE, self->life == READY || self == &hart->idle ? LEAVE_READY : self->leave);
        CSR_WRITE(CSR_HWBLOCK, next == &hart->idle ? 0 : (uint32_t) &next->block);
        if (next == &hart->idle)
            CSR_WRITE(CSR_HWSW, HWSW_SWNE | HWSW_KPSW | TAG_IDLE << 8);
    }
    next->life = RUNNING;
    next->hart = hart;
    next->kernel_stack = hart->idle.kernel_stack;
    hart->running = next;
    set_timer(hart);
    return next;
}
