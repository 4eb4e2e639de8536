/* A first program with threads: two of them count primes, and the first one adds up what they have found.
 *
 * Everything that is not standard C is declared in headway_guest.h. */

#include "headway_guest.h"

#define LAST 2000
#define WORKERS 2
#ifndef BATCH
#define BATCH 1 /* numbers that a thread takes at a time */
#endif

static struct hw_mutex mutex;
static uint32_t next = 2, primes;

static uint32_t is_prime(uint32_t number)
{
    for (uint32_t divisor = 2; divisor * divisor <= number; divisor++)
        if (number % divisor == 0)
            return 0;
    return 1;
}

/* Take numbers until none is left. */
static uint32_t count(void *nothing)
{
    (void) nothing;
    uint32_t found = 0;
    for (;;) {
        hw_lock(&mutex);
        uint32_t first = next;
        next += BATCH;
        hw_unlock(&mutex);
        if (first > LAST)
            return found;
        for (uint32_t number = first; number < first + BATCH && number <= LAST; number++)
            found += is_prime(number);
    }
}

int main(void)
{
    uint32_t worker[WORKERS];
    for (uint32_t i = 0; i < WORKERS; i++)
        worker[i] = hw_spawn("count", count, NULL);
    for (uint32_t i = 0; i < WORKERS; i++)
        primes += hw_join(worker[i]);
    hw_print("%u primes up to %u\n", primes, LAST);
    return primes != 303;
}
