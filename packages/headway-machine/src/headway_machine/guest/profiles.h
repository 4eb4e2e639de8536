/* Profile buffers and the state monitor's totals for each thread, in the guest kernel (docs/machine.md, section 7).
 *
 * A program that includes this gets a kernel that gives each thread's buffer and table to the hart that runs the thread. */
#ifndef HEADWAY_PROFILES_H
#define HEADWAY_PROFILES_H

#include "headway_guest.h"

#define CALL_PROFILE 17
#define CALL_PROFILED 18

#define CSR_HWAUTH 0x801
#define CSR_PBCTL 0x7C8
#define CSR_PBBASE 0x7C9
#define CSR_PBSIZE 0x7CA
#define CSR_PBHEAD 0x7CB
#define CSR_PBPERIOD 0x7CC

#define HW_EACH_CYCLES 1
#define HW_EACH_INSTRUCTIONS 2
#define HW_EACH_BRANCHES 3

struct hw_record {
    uint32_t pc, state;
    uint64_t tick;
};

/* What a state of the thread has gathered (section 6). */
struct hw_state {
    uint64_t cycles, instructions, occurrences, stalls;
};

#define HW_STATES 256

/* `records`: the buffer, 8-aligned; NULL: none. `size`: its bytes, a multiple of 16. A record each `period` cycles,
 * instructions or taken branches (`each`); a period begins anew whenever the thread gets a hart. `states`: HW_STATES
 * structures, 8-aligned, to which the thread's states are added; NULL: none. A switch of threads is some dozens of cycles
 * long, which are added to the thread that leaves. */
struct hw_profile {
    struct hw_record *records;
    uint32_t size, each, period;
    struct hw_state *states;
};

/* Give the calling thread a buffer and a table, instead of those that it has. Return 0, or 0xFFFFFFFF, with nothing
 * changed, if something of it cannot be. */
static inline uint32_t hw_profile(const struct hw_profile *profile)
{
    return hw_call(CALL_PROFILE, (uint32_t) profile, 0, 0);
}

/* Begin or stop making records. The thread must have a buffer. */
static inline void hw_profile_begin(void) { CSR_WRITE(CSR_HWAUTH, 1); }
static inline void hw_profile_end(void) { CSR_WRITE(CSR_HWAUTH, 0); }

/* Bring the thread's table up to date, and return how many bytes of its buffer are filled. */
static inline uint32_t hw_profiled(void) { return hw_call(CALL_PROFILED, 0, 0, 0); }

#endif
