/* The system calls: numbers (in a7; arguments in a0 to a3, result in a0), and structures that caller and kernel share. */
#ifndef HEADWAY_CALLS_H
#define HEADWAY_CALLS_H

#define CALL_NULL 0
#define CALL_EXIT 1
#define CALL_YIELD 2
#define CALL_SPAWN 3
#define CALL_JOIN 4
#define CALL_SLEEP 5
#define CALL_LOCK 6
#define CALL_UNLOCK 7
#define CALL_WAIT 8
#define CALL_SIGNAL 9
#define CALL_SEND 10
#define CALL_RECEIVE 11
#define CALL_WRITE 12
#define CALL_READ 13
#define CALL_BLOCK_READ 14
#define CALL_BLOCK_WRITE 15
#define CALL_BLOCK_OF 16
#define CALL_START 30 /* machine mode only: take a thread after the hart has booted */

#define TAG_MALLOC 1
#define TAG_IDLE 31 /* tag of what a hart without a thread runs around its WFI */

#ifndef __ASSEMBLER__

#include <stdint.h>

/* A counter block (docs/machine.md, section 5), which the copying and the loading unit store and load. */
struct hw_block {
    uint64_t counter[8];
    uint32_t id;
    uint32_t hwsw;
    uint32_t latch;
    uint32_t reserved;
    char name[32];
    /* The parts of caches and bus that the thread may use (section 10); 0: the hart's. */
    uint32_t l1i_ways, l1d_ways, l2_ways, bus_share;
} __attribute__((aligned(8)));

/* Waiting threads, first come first served. All zero: none. */
struct hw_waiters {
    struct thread *first, *last;
};

/* All zero: free. */
struct hw_mutex {
    struct thread *owner;
    struct hw_waiters waiters;
};

/* All zero: no thread waits. */
struct hw_condition {
    struct hw_waiters waiters;
};

/* A bounded queue of words in a ring of the owner's memory. */
struct hw_queue {
    uint32_t *ring, capacity, head, count;
    struct hw_waiters senders, receivers;
};

/* The description of a new thread. `stack` is the highest address of its stack, 16-aligned; 0: the kernel gives it one. */
struct hw_start {
    const char *name;
    uint32_t (*body)(void *);
    void *argument;
    void *stack;
};

#endif
#endif
