/* Five threads and one mutex: those that wait are off the processor, and whoever waits longest is next. */

#include "headway_guest.h"

#define THREADS 5
#define EACH 60

static struct hw_mutex mutex;
static volatile uint32_t counter, inside;

static uint32_t work(void *nothing)
{
    (void) nothing;
    uint32_t wrong = 0;
    for (uint32_t time = 0; time < EACH; time++) {
        hw_lock(&mutex);
        wrong += inside++ != 0;
        for (uint32_t left = 30; left; left--)
            counter++;
        if (time % 8 == 0)
            hw_yield(); /* so that others come and must wait */
        inside--;
        hw_unlock(&mutex);
    }
    return wrong;
}

int main(void)
{
    uint32_t id[THREADS], wrong = 0;
    for (uint32_t thread = 0; thread < THREADS; thread++)
        id[thread] = hw_spawn("worker", work, NULL);
    for (uint32_t thread = 0; thread < THREADS; thread++)
        wrong += hw_join(id[thread]);
    hw_print("mutex: %u, must be %u; %u times two inside\n", counter, THREADS * EACH * 30, wrong);
    return wrong || counter != THREADS * EACH * 30;
}
