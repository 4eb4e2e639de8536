/* One thread that a policy watches, beside neighbours that take the data cache, the bus, or nothing from it.
 *
 * Arguments: victim, neighbours, count (of neighbours), policy, period (ticks between two looks of the policy). */

#include "arguments.h"
#include "jobs.h"
#include "policy.h"

static const char *const victims[] = {"lookup", "matmul", "crc32", "chase", "transfer", NULL};
static const char *const kinds[] = {"stream", "copy", "scatter", "mixed", "compute", NULL};
static const char *const switches[] = {"off", "on", NULL};
static const char *const actions[] = {"ways of its own", "sixteenths of the bus for each other", "quanta a turn",
                                      "(wait by interrupt)"};

static uint32_t victim, kind, count = 4, policy = 1, period = 40000;
static const struct argument known[] = {{"victim", &victim, victims},
                                        {"neighbours", &kind, kinds},
                                        {"count", &count, NULL},
                                        {"policy", &policy, switches},
                                        {"period", &period, NULL}};

/* ---- what is watched ---- */

#define TABLE 2048 /* words: half of a data cache of 16 KiB */
#define LOOKUPS 30000
#define SECTORS 200

static uint32_t table[TABLE] __attribute__((aligned(64)));
static volatile uint32_t by_interrupt;

/* Looks up words at places that no cache foresees. */
static uint32_t lookup(void *nothing)
{
    (void) nothing;
    uint32_t state = 9, sum = 0, right = 0;
    for (uint32_t at = 0; at < TABLE; at++)
        table[at] = at * 2654435761u;
    for (uint32_t time = 0; time < LOOKUPS; time++) {
        uint32_t at = next_number(&state) >> 21;
        sum += table[at];
        right += at * 2654435761u;
    }
    return sum == right;
}

static uint32_t matmul(void *nothing)
{
    (void) nothing;
    matmul_fill();
    matmul_rows(0, 1);
    return matmul_sum() == MATMUL_RIGHT;
}

static uint32_t crc32(void *nothing)
{
    (void) nothing;
    crc32_fill();
    crc32_blocks(0, 1);
    return crc32_sum() == CRC32_RIGHT;
}

/* Walks through 64 KiB, which no part of the data cache holds. */
static uint32_t chase(void *nothing)
{
    (void) nothing;
    chase_fill();
    return chase_walk(0) == CHASE_RIGHT;
}

/* Reads sectors, by polling or by interrupt, as the policy wishes. */
static uint32_t transfer(void *nothing)
{
    static uint32_t in[128];
    (void) nothing;
    uint32_t wrong = 0;
    for (uint32_t sector = 0; sector < SECTORS; sector++)
        wrong += (by_interrupt ? hw_block_read(sector, in, 1) : hw_polled_block(BLOCK_READ, sector, in, 1)) != 0;
    return wrong == 0;
}

static uint32_t (*const watched[])(void *) = {lookup, matmul, crc32, chase, transfer};

/* ---- neighbours, which go on until it has ended ---- */

#define NEIGHBOURS_MAX 16
#define FAR 16384 /* words for each: four data caches */

static uint32_t memory[NEIGHBOURS_MAX][FAR] __attribute__((aligned(64)));
static volatile uint32_t over;

static uint32_t stream(void *own)
{
    const volatile uint32_t *words = own;
    while (!over)
        for (uint32_t at = 0; at < FAR && !over; at += 8)
            (void) words[at];
    return 1;
}

static uint32_t copy(void *own)
{
    volatile uint32_t *words = own;
    while (!over)
        for (uint32_t at = 0; at < FAR / 2 && !over; at += 8)
            words[at + FAR / 2] = words[at];
    return 1;
}

static uint32_t scatter(void *own)
{
    const volatile uint32_t *words = own;
    uint32_t state = (uint32_t) own;
    while (!over)
        (void) words[next_number(&state) >> 18];
    return 1;
}

static uint32_t compute(void *own)
{
    uint32_t state = (uint32_t) own;
    while (!over)
        next_number(&state);
    return state != 0;
}

static const struct {
    const char *name;
    uint32_t (*body)(void *);
} neighbours[] = {{"stream", stream}, {"copy", copy}, {"scatter", scatter}, {"compute", compute}};

int main(void)
{
    uint32_t id[NEIGHBOURS_MAX], right, wrong = 0;
    const char *unknown = arguments_read(known, sizeof known / sizeof *known);
    if (unknown || count > NEIGHBOURS_MAX || period < 1000) {
        if (unknown)
            hw_print("partition: %s is no argument of this program:\n", unknown);
        hw_print("victim=lookup|matmul|crc32|chase|transfer neighbours=stream|copy|scatter|mixed|compute count=0..%u\n",
                 NEIGHBOURS_MAX);
        hw_print("policy=off|on period=TICKS (1000 at least)\n");
        return 2;
    }
    if (policy)
        policy_start(&policy_defaults, period);
    uint32_t it = hw_spawn(victims[victim], watched[victim], NULL);
    for (uint32_t n = 0; n < count; n++) {
        uint32_t which = kind == 3 ? n % 3 : kind == 4 ? 3 : kind;
        id[n] = hw_spawn(neighbours[which].name, neighbours[which].body, memory[n]);
    }
    if (policy)
        policy_watch(it, &by_interrupt);
    right = hw_join(it);
    over = 1;
    for (uint32_t n = 0; n < count; n++)
        wrong += hw_join(id[n]) != 1;
    if (policy)
        policy_stop();
    for (uint32_t n = 0; n < policy_done && n < POLICY_DEEDS; n++) {
        const struct policy_deed *deed = &policy_deeds[n];
        if (deed->share == POLICY_ENDED)
            hw_print("policy: at %U, at its end: %u %s\n", deed->tick, deed->amount, actions[deed->action]);
        else
            hw_print("policy: at %U, %u%% of Td: %u %s\n", deed->tick, deed->share, deed->amount, actions[deed->action]);
    }
    hw_print("partition: %s %s\n", victims[victim], right == 1 && !wrong ? "right" : "wrong");
    return right != 1 || wrong;
}
