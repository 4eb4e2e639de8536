/* Six threads, each of which spends its time in another way. */

#include "headway_guest.h"
#include "jobs.h"

HW_TAG(2, parse);

/* Progress and nothing else. */
static uint32_t compute(void *nothing)
{
    (void) nothing;
    return integer_run() == INTEGER_RIGHT;
}

/* Waits for memory. */
static uint32_t memory(void *nothing)
{
    (void) nothing;
    chase_fill();
    return chase_walk(0) == CHASE_RIGHT;
}

/* Is in malloc most of the time. */
static uint32_t allocate(void *nothing)
{
    (void) nothing;
    uint8_t *pieces[16] = {0};
    uint32_t state = 6, wrong = 0;
    for (uint32_t step = 0; step < 200; step++) {
        uint32_t number = next_number(&state), place = number >> 28, size = 8 + (number >> 16 & 255);
        if (pieces[place])
            wrong += *pieces[place] != place;
        free(pieces[place]);
        pieces[place] = malloc(size);
        if (!pieces[place])
            return 0;
        *pieces[place] = (uint8_t) place;
    }
    for (uint32_t place = 0; place < 16; place++)
        free(pieces[place]);
    return wrong == 0;
}

/* Asks the block device again and again whether it is ready. */
static uint32_t poll(void *nothing)
{
    static uint32_t out[128], in[128];
    (void) nothing;
    uint32_t wrong = 0;
    for (uint32_t sector = 0; sector < 32; sector++) {
        out[sector] = in[sector] + sector;
        wrong += hw_polled_block(BLOCK_WRITE, sector, out, 1) != 0;
        wrong += hw_polled_block(BLOCK_READ, sector, in, 1) != 0;
        wrong += in[sector] != out[sector];
    }
    return wrong == 0;
}

/* Is off the processor most of the time. */
static uint32_t sleeper(void *nothing)
{
    (void) nothing;
    uint32_t early = 0;
    for (uint32_t time = 0; time < 20; time++) {
        uint64_t until = hw_time() + 5000;
        hw_sleep_until(until);
        early += hw_time() < until;
    }
    return early == 0;
}

/* Half of it is marked as no progress. */
static uint32_t parser(void *nothing)
{
    (void) nothing;
    uint32_t right = 0;
    for (uint32_t time = 0; time < 2; time++) {
        hw_noneffective_set(2);
        crc32_fill();
        hw_noneffective_clear();
        crc32_blocks(0, 1);
        right += crc32_sum() == CRC32_RIGHT;
    }
    return right == 2;
}

static const struct {
    const char *name;
    uint32_t (*body)(void *);
} threads[] = {{"compute", compute}, {"memory", memory}, {"allocate", allocate},
               {"poll", poll},       {"sleep", sleeper}, {"parse", parser}};
#define THREADS (sizeof threads / sizeof *threads)

int main(void)
{
    uint32_t id[THREADS], right = 0;
    for (uint32_t thread = 0; thread < THREADS; thread++)
        id[thread] = hw_spawn(threads[thread].name, threads[thread].body, NULL);
    for (uint32_t thread = 0; thread < THREADS; thread++)
        right += hw_join(id[thread]) == 1;
    hw_print("six-threads: %u of %u right\n", right, (uint32_t) THREADS);
    return right != THREADS;
}
