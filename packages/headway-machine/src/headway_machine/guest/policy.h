/* The policy of the kernel over the threads' indices, and the order of threads by progress.
 *
 * Programs that are built with -DPOLICIES have both; without a call of these functions neither does anything. */
#ifndef HEADWAY_POLICY_H
#define HEADWAY_POLICY_H

#include "headway_guest.h"
#include "kernel.h"

/* Whether the scheduler's order is by progress, instead of round robin. */
extern bool by_progress;

/* What a thread loses, in percent, above which something is done (as docs/advice.md has them). */
struct policy_references {
    uint32_t td; /* of RPI */
    uint32_t mpi, kpi, iopi; /* of Td */
};
extern const struct policy_references policy_defaults;

enum policy_action {
    POLICY_WAYS, /* it has so many ways of the data cache for itself */
    POLICY_BUS, /* the others have so many sixteenths of the bus each; 0: no limit */
    POLICY_TURNS, /* its turns are so many quanta */
    POLICY_INTERRUPT, /* 1: it is to wait for devices by interrupt; 0: as it likes */
};

/* What the policy did, in the order in which it did it. */
struct policy_deed {
    uint64_t tick;
    uint32_t thread; /* its id */
    uint32_t action, amount;
    uint32_t share; /* the index that was the reason, in percent of Td; POLICY_ENDED: the thread has ended */
};
#define POLICY_ENDED UINT32_MAX
#define POLICY_DEEDS 64
extern struct policy_deed policy_deeds[POLICY_DEEDS];
extern uint32_t policy_done; /* how many there were; the first POLICY_DEEDS are kept */

/* Start the policy's thread, which looks every `period` ticks, up to policy_stop. */
void policy_start(const struct policy_references *references, uint32_t period);

/* Give back everything, and end the policy's thread. */
void policy_stop(void);

/* Let the policy watch a thread, up to 8. It sets `by_interrupt` (if not NULL) while the thread is to wait for devices by
 * interrupt. Return 0, or 0xFFFFFFFF if there are too many. */
uint32_t policy_watch(uint32_t id, volatile uint32_t *by_interrupt);

#endif
