/* The threads: a fixed table, each with a stack. spawn takes a place in it, and joining the thread frees the place. */

#include "kernel.h"

void thread_begin(void);
int main(void);
extern uint8_t __global_pointer$[];

static struct thread threads[THREADS_MAX] __attribute__((aligned(64)));
static uint8_t stacks[THREADS_MAX][USER_STACK] __attribute__((aligned(16)));
static struct hw_waiters unused;

static uint32_t run_main(void *nothing)
{
    (void) nothing;
    return (uint32_t) main();
}

void threads_prepare(void)
{
    static const struct hw_start first = {"main", run_main, NULL, NULL};
    for (uint32_t slot = 0; slot < THREADS_MAX; slot++)
        append(&unused, &threads[slot]);
    spawn(&first);
}

/* Return the thread with that id, or NULL. An id gives the place in the table, and which thread in that place it is. A
 * joined thread is still found until its place is taken. */
struct thread *thread_of(uint32_t id)
{
    struct thread *thread = &threads[(id - 1) % THREADS_MAX];
    return id && thread->block.id == id ? thread : NULL;
}

struct thread *spawn(const struct hw_start *start)
{
    struct thread *thread = take(&unused);
    if (!thread)
        return NULL;
    uint32_t slot = (uint32_t)(thread - threads);
    uint32_t id = thread->block.id ? thread->block.id + THREADS_MAX : slot + 1;
    uint32_t top = start->stack ? (uint32_t) start->stack : (uint32_t) stacks[slot] + USER_STACK;

    for (uint32_t *word = (uint32_t *) thread; word < (uint32_t *) (thread + 1); word++)
        *word = 0;
    thread->block.id = id;
    for (uint32_t at = 0; at < sizeof thread->block.name - 1 && start->name[at]; at++)
        thread->block.name[at] = start->name[at];
    top -= 64; /* room for the nesting of its marked regions, to which tp points */
    for (uint32_t *word = (uint32_t *) top; word < (uint32_t *) (top + 64); word++)
        *word = 0;
    thread->x[0] = (uint32_t) thread_begin;
    thread->x[SP] = top;
    thread->x[TP] = top;
    thread->x[GP] = (uint32_t) __global_pointer$;
    thread->x[A0] = (uint32_t) start->body;
    thread->x[A1] = (uint32_t) start->argument;
    thread->mstatus = MSTATUS_USER;
    wake(thread);
    return thread;
}

#ifdef POLICIES
/* Return the thread at a place of the table, whatever its life; NULL beyond the last place that was ever taken. */
struct thread *thread_at(uint32_t slot) { return slot < THREADS_MAX && threads[slot].block.id ? &threads[slot] : NULL; }
#endif

static void forget(struct thread *thread)
{
    thread->life = UNUSED;
    append(&unused, thread);
}

void end(struct thread *self, uint32_t value)
{
    if (self == &threads[0]) /* main */
        halt(value);
    self->life = ENDED;
    self->leave = LEAVE_END;
    self->x[A0] = value;
    if (self->joiner) {
        self->joiner->x[A0] = value;
        wake(self->joiner);
        forget(self);
    }
}

void join(struct thread *self, uint32_t id)
{
    struct thread *other = thread_of(id);
    if (!other || other->life == UNUSED || other == self || other->joiner) {
        self->x[A0] = UINT32_MAX;
    } else if (other->life == ENDED) {
        self->x[A0] = other->x[A0];
        forget(other);
    } else {
        other->joiner = self;
        wait(self, NULL, LEAVE_JOIN);
    }
}
