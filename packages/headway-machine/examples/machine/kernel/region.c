/* Marked regions, one inside the other, in threads that are preempted in them: while a region is open the progress
 * counter stands still, whoever runs in between, and it goes on when the outermost is closed. */

#include "headway_guest.h"

HW_TAG(3, parse);
HW_TAG(4, collect);
HW_POLL(2, wait);

#define THREADS 8
#define ROUNDS 20

static void work(uint32_t times)
{
    for (volatile uint32_t left = times; left; left--)
        ;
}

static uint32_t regions(void *nothing)
{
    (void) nothing;
    uint32_t wrong = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        hw_noneffective_set(3);
        uint64_t before = hw_counter(COUNTER_EPC), in_kernel = hw_counter(COUNTER_KPC);
        work(200);
        hw_noneffective_set(4);
        work(200);
        hw_poll_set(2);
        work(50);
        hw_poll_clear();
        hw_noneffective_clear();
        work(200);
        wrong += hw_counter(COUNTER_EPC) != before;
        wrong += hw_counter(COUNTER_KPC) <= in_kernel;
        hw_noneffective_clear();
        work(100);
        wrong += hw_counter(COUNTER_EPC) <= before;
    }
    return wrong;
}

int main(void)
{
    uint32_t id[THREADS], wrong = 0;
    for (uint32_t thread = 0; thread < THREADS; thread++)
        id[thread] = hw_spawn("regions", regions, NULL);
    for (uint32_t thread = 0; thread < THREADS; thread++)
        wrong += hw_join(id[thread]);
    hw_print("region: %u rounds, %u wrong\n", THREADS * ROUNDS, wrong);
    return wrong != 0;
}
