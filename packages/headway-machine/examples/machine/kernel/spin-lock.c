/* Four threads and a lock that is waited for by trying again. A thread's progress is NOT the same beside others here:
 * how often it tries depends on them, and trying looks like work unless the program says that it is none, as the second
 * half of this program does (poll.spin). */

#include "headway_guest.h"

HW_POLL(1, spin);

#define THREADS 4
#define EACH 200

static uint32_t locked;
static volatile uint32_t counter;

static uint32_t taken(void) { return __atomic_exchange_n(&locked, 1, __ATOMIC_ACQUIRE); }

static void work(void)
{
    for (uint32_t left = 10; left; left--)
        counter += left;
    __atomic_store_n(&locked, 0, __ATOMIC_RELEASE);
}

static uint32_t spin(void *nothing)
{
    (void) nothing;
    for (uint32_t time = 0; time < EACH; time++) {
        while (taken())
            ;
        work();
    }
    return 0;
}

static uint32_t marked(void *nothing)
{
    (void) nothing;
    for (uint32_t time = 0; time < EACH; time++) {
        if (taken()) {
            hw_poll_set(1);
            while (taken())
                ;
            hw_poll_clear();
        }
        work();
    }
    return 0;
}

int main(void)
{
    uint32_t id[THREADS];
    for (uint32_t thread = 0; thread < THREADS; thread++)
        id[thread] = hw_spawn(thread % 2 ? "marked" : "spin", thread % 2 ? marked : spin, NULL);
    for (uint32_t thread = 0; thread < THREADS; thread++)
        hw_join(id[thread]);
    hw_print("spin-lock: %u, must be %u\n", counter, THREADS * EACH * 55);
    return counter != THREADS * EACH * 55;
}
