/* Threads that read their own counters while they run. The last that each reads of EPC and what its block says after
 * its end are apart by exactly the three instructions in between. */

#include "headway_guest.h"
#include "jobs.h"

#define THREADS 3

/* Reads EPC and ends with it: the read itself, the number of the call, the call. */
__attribute__((noinline, noreturn)) static void end_with_progress(void)
{
    __asm__ volatile(".balign 32\n.option push\n.option norvc\n"
                     "csrr a0, 0xCC0\nli a7, 1\necall\n.option pop" ::: "a0", "a7");
    __builtin_unreachable();
}

static uint32_t work(void *number)
{
    uint32_t wrong = (uint32_t) number ? sort_run() != SORT_RIGHT : integer_run() != INTEGER_RIGHT;
    hw_print("stats: %s: EPC %U, RPC %U\n", (uint32_t) number ? "sort" : "integer", hw_counter(COUNTER_EPC),
             hw_counter(COUNTER_RPC));
    if (wrong)
        return 0;
    end_with_progress();
}

static uint32_t nothing(void *none)
{
    (void) none;
    return 0;
}

int main(void)
{
    uint32_t wrong = 0, each = REGISTER(MACHINE_STRICT) ? REGISTER(MACHINE_THREADS) : 1;
    uint32_t id[THREADS] = {hw_spawn("integer", work, (void *) 0), hw_spawn("sort", work, (void *) 1),
                            hw_spawn("nothing", nothing, NULL)};
    for (uint32_t thread = 0; thread < THREADS; thread++) {
        uint32_t live = hw_join(id[thread]);
        const volatile struct hw_block *block = hw_block_of(id[thread]);
        uint64_t sum = 0;
        for (uint32_t counter = COUNTER_EPC; counter <= COUNTER_SPC; counter++)
            if (counter != COUNTER_RPC)
                sum += block->counter[counter];
        wrong += sum != block->counter[COUNTER_RPC];
        wrong += block->id != id[thread];
        if (thread < 2)
            wrong += live + 3 * each != (uint32_t) block->counter[COUNTER_EPC];
    }
    hw_print("stats: %u threads, %u wrong\n", THREADS, wrong);
    return wrong != 0;
}
