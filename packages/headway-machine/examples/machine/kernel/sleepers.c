/* Ten threads that sleep for different times, many times; none wakes early, and each as often as it must. */

#include "headway_guest.h"

#define THREADS 10
#define TIMES 12

static uint32_t sleeper(void *number)
{
    uint32_t early = 0;
    uint64_t until = hw_time();
    for (uint32_t time = 0; time < TIMES; time++) {
        until += 2000 + 777 * (uint32_t) number;
        hw_sleep_until(until);
        early += hw_time() < until;
    }
    return early << 16 | TIMES;
}

int main(void)
{
    uint32_t id[THREADS], sum = 0;
    for (uint32_t thread = 0; thread < THREADS; thread++)
        id[thread] = hw_spawn("sleeper", sleeper, (void *) thread);
    for (uint32_t thread = 0; thread < THREADS; thread++)
        sum += hw_join(id[thread]);
    hw_print("sleepers: woke %u times, must be %u; %u early\n", sum & 0xFFFF, THREADS * TIMES, sum >> 16);
    return sum != THREADS * TIMES;
}
