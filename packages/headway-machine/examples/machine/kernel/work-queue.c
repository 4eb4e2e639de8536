/* Pieces of work that whoever is free takes from one list, guarded by a mutex and a condition. What is done in all is
 * the same each time; who does how much of it is not, so neither is a thread's progress. */

#include "headway_guest.h"
#include "jobs.h"

#define WORKERS 5
#define PIECES 60

static struct hw_mutex mutex;
static struct hw_condition changed;
static uint32_t offered, taken, sum;

static uint32_t piece(uint32_t number)
{
    uint32_t state = number;
    for (uint32_t left = 50 + 20 * (number % 7); left; left--)
        next_number(&state);
    return state;
}

static uint32_t serve(void *nothing)
{
    (void) nothing;
    uint32_t done = 0;
    for (;;) {
        hw_lock(&mutex);
        while (taken == offered && taken < PIECES)
            hw_wait(&changed, &mutex);
        if (taken == PIECES) {
            hw_unlock(&mutex);
            return done;
        }
        uint32_t mine = taken++;
        hw_unlock(&mutex);
        uint32_t result = piece(mine);
        hw_lock(&mutex);
        sum += result;
        hw_unlock(&mutex);
        done++;
    }
}

int main(void)
{
    uint32_t id[WORKERS], done = 0, must = 0;
    for (uint32_t number = 0; number < PIECES; number++)
        must += piece(number);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        id[worker] = hw_spawn("worker", serve, NULL);
    for (uint32_t number = 0; number < PIECES; number++) {
        hw_lock(&mutex);
        offered++;
        hw_signal(&changed);
        hw_unlock(&mutex);
    }
    hw_lock(&mutex);
    hw_broadcast(&changed);
    hw_unlock(&mutex);
    for (uint32_t worker = 0; worker < WORKERS; worker++)
        done += hw_join(id[worker]);
    hw_print("work-queue: %u pieces, sum %x, must be %x\n", done, sum, must);
    return done != PIECES || sum != must;
}
