/* Four threads allocate, fill, check and free pieces of many sizes; in the end the memory is whole again. */

#include "headway_guest.h"
#include "jobs.h"

#define THREADS 4
#define PIECES 24
#define STEPS 300

static uint32_t churn(void *argument)
{
    uint32_t *pieces[PIECES] = {0}, lengths[PIECES], state = (uint32_t) argument, wrong = 0;
    for (uint32_t step = 0; step < STEPS + PIECES; step++) {
        uint32_t place = step < STEPS ? (next_number(&state) >> 16) % PIECES : step - STEPS;
        if (pieces[place]) {
            for (uint32_t at = 0; at < lengths[place]; at++)
                wrong += pieces[place][at] != (place ^ (uint32_t) argument) + at;
            free(pieces[place]);
            pieces[place] = NULL;
        } else if (step < STEPS) {
            lengths[place] = 1 + (next_number(&state) >> 16) % 60;
            pieces[place] = malloc(lengths[place] * sizeof(uint32_t));
            if (!pieces[place])
                return 1;
            for (uint32_t at = 0; at < lengths[place]; at++)
                pieces[place][at] = (place ^ (uint32_t) argument) + at;
        }
    }
    return wrong;
}

/* The largest piece that there is, to a page. */
static size_t largest(void)
{
    for (size_t size = 1024 * 4096;; size -= 4096) {
        void *piece = malloc(size);
        if (piece) {
            free(piece);
            return size;
        }
    }
}

int main(void)
{
    size_t before = largest();
    uint32_t id[THREADS], wrong = 0;
    for (uint32_t thread = 0; thread < THREADS; thread++)
        id[thread] = hw_spawn("churn", churn, (void *) (thread + 10));
    for (uint32_t thread = 0; thread < THREADS; thread++)
        wrong += hw_join(id[thread]);
    size_t after = largest();
    hw_print("malloc-heavy: %u wrong, largest piece %u bytes before and %u after\n", wrong, before, after);
    return wrong || before != after;
}
