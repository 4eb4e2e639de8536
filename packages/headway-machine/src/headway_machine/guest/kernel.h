/* The kernel's internal interface: threads, harts, and what each of its files provides to the others.
 *
 * One lock protects all of it. It is taken when a trap has been entered, and released when the next thread has been
 * chosen and given to the progress unit. A thread that is leaving a hart cannot therefore be taken by another too early. */
#ifndef HEADWAY_KERNEL_H
#define HEADWAY_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calls.h"
#include "layout.h"
#include "machine.h"

#define THREADS_MAX 192
#define USER_STACK 4096
#define QUANTUM 4000 /* least ticks of processor time of a turn, times the harts that share the core */
#define TURN_MEAN 8  /* over how many turns, about, the mean of that time goes */
#define TURN_COSTS 4 /* a turn lasts at least as many times as long as the kernel takes to begin one */

#define MSTATUS_USER 0x0080u           /* MPP = user, MPIE */
#define MSTATUS_MACHINE 0x1880u        /* MPP = machine, MPIE */
#define MIE_SOFTWARE 0x008u
#define MIE_TIMER 0x080u
#define MIE_EXTERNAL 0x800u

enum register_name { RA = 1, SP = 2, GP = 3, TP = 4, A0 = 10, A1, A2, A3, A7 = 17 };

enum life { UNUSED, READY, RUNNING, WAITING, ENDED };

struct thread {
    uint32_t x[32]; /* x[0] is the program counter */
    struct hw_block block;
    uint32_t *kernel_stack; /* stack of the hart that runs it */
    uint32_t mstatus;
    uint32_t entered; /* when it last entered the kernel, and left it: the time, low word */
    uint32_t left;
    struct hart *hart;
    enum life life;
    uint32_t leave; /* the reason why it waits */
    struct thread *next; /* the next thread in the one list that it is in */
    struct thread *joiner;
    uint64_t wake; /* when to wake it, in ticks */
    struct hw_mutex *mutex; /* the mutex to take again after a condition */
    uint8_t *bytes; /* the rest of a transfer */
    uint32_t length;
    uint32_t sector;
    uint32_t value; /* a value sent and not yet taken */
#ifdef POLICIES
    uint64_t ahead; /* progress that counts as made when it came: what those that were there had made */
    uint32_t longer; /* its turns are 2^longer quanta */
#endif
};
_Static_assert(offsetof(struct thread, block) == THREAD_BLOCK, "layout.h");
_Static_assert(offsetof(struct thread, kernel_stack) == THREAD_KERNEL_STACK, "layout.h");
_Static_assert(offsetof(struct thread, mstatus) == THREAD_MSTATUS, "layout.h");
_Static_assert(offsetof(struct thread, entered) == THREAD_ENTERED, "layout.h");
_Static_assert(offsetof(struct thread, left) == THREAD_LEFT, "layout.h");
_Static_assert(sizeof(struct hw_block) == 128, "docs/machine.md, section 5");

struct hart {
    struct thread idle;
    struct thread *running;
    bool resting; /* it has nothing to run */
    bool listed; /* it is in the list of resting harts */
    bool turn; /* it is another thread's turn, if one is ready */
    struct hart *next;
    uint64_t slice; /* when its thread's turn ends, in ticks */
    uint32_t entered; /* when the kernel was entered to begin the turn: the time, low word */
    uint32_t cost; /* what beginning a turn costs here, in ticks: a running mean, times TURN_MEAN */
    bool began; /* a turn has begun, and what that cost is not in the mean yet */
    uint64_t armed; /* when its timer expires */
};

extern struct hart harts[HARTS_MAX];
extern uint32_t harts_count;

/* harts.c */
uint64_t now(void);
void lock(void);
void unlock(void);
void interrupt(struct hart *hart);
void clear_interrupt(struct hart *hart);
void arm(struct hart *hart, uint64_t deadline);
void halt(uint32_t status) __attribute__((noreturn));
void panic(const char *what, const struct thread *self) __attribute__((noreturn));

/* schedule.c */
void append(struct hw_waiters *waiters, struct thread *thread);
struct thread *take(struct hw_waiters *waiters);
void wait(struct thread *self, struct hw_waiters *waiters, uint32_t reason);
void wake(struct thread *thread);
void sleep(struct thread *self, uint64_t until);
void wake_sleepers(void);
struct thread *choose(struct hart *hart, struct thread *self);
void note_cost(struct hart *hart, const struct thread *self);
extern uint32_t least_quantum;

/* order.c: which ready thread is next, and for how long, where a policy may change it (-DPOLICIES) */
#ifdef POLICIES
struct thread *take_next(struct hw_waiters *ready, const struct thread *self, bool stays);
void catch_up(struct thread *thread);
uint64_t turn_of(const struct thread *thread, uint64_t quantum);
struct thread *thread_at(uint32_t slot);
#else
#define take_next(ready, self, stays) take(ready)
#define catch_up(thread)
#define turn_of(thread, quantum) (quantum)
#endif

/* threads.c */
void threads_prepare(void);
struct thread *spawn(const struct hw_start *start);
struct thread *thread_of(uint32_t id);
void end(struct thread *self, uint32_t value);
void join(struct thread *self, uint32_t id);

/* locks.c */
void mutex_lock(struct thread *self, struct hw_mutex *mutex);
void mutex_unlock(struct thread *self, struct hw_mutex *mutex);
void condition_wait(struct thread *self, struct hw_condition *condition, struct hw_mutex *mutex);
void condition_signal(struct thread *self, struct hw_condition *condition, uint32_t most);
void queue_send(struct thread *self, struct hw_queue *queue, uint32_t value);
void queue_receive(struct thread *self, struct hw_queue *queue);

/* devices.c */
void devices_prepare(void);
void external_interrupt(void);
void uart_write(struct thread *self, uint8_t *bytes, uint32_t length);
void uart_read(struct thread *self, uint8_t *bytes, uint32_t length);
void block_transfer(struct thread *self, uint32_t command, uint32_t sector, uint8_t *bytes, uint32_t count);

#endif
