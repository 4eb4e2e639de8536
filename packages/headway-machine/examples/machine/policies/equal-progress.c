/* Threads that lose their time in different ways, for a fixed time: in round robin each gets the same time; by progress
 * each makes the same progress.
 *
 * Arguments: order (rounds or progress), each (threads of a kind), ticks. */

#include "arguments.h"
#include "jobs.h"
#include "policy.h"

static const char *const orders[] = {"rounds", "progress", NULL};
static uint32_t order = 1, each = 2, ticks = 3000000;
static const struct argument known[] = {{"order", &order, orders}, {"each", &each, NULL}, {"ticks", &ticks, NULL}};

#define EACH_MAX 8
#define KINDS 4
#define SPAWNING 200000 /* ticks in which all threads are started */
#define NODES 512 /* of 32 bytes: a data cache of 16 KiB */

static uint64_t from, until; /* when all begin, and when they end */
static uint64_t progress[KINDS * EACH_MAX];

static struct node {
    struct node *next;
    uint32_t rest_of_the_line[7];
} nodes[EACH_MAX][NODES] __attribute__((aligned(32)));
static uint32_t memory[EACH_MAX][8192] __attribute__((aligned(64)));

/* Progress and nothing else. */
static uint32_t compute(uint32_t n, uint32_t state)
{
    (void) n;
    for (uint32_t time = 0; time < 100; time++)
        next_number(&state);
    return state;
}

/* Waits for memory at each step. */
static uint32_t chase(uint32_t n, uint32_t state)
{
    const struct node *node = state ? (const struct node *) state : nodes[n];
    for (uint32_t step = 0; step < 20; step++)
        node = node->next;
    return (uint32_t) node;
}

/* Computes, and waits for memory now and then. */
static uint32_t stream(uint32_t n, uint32_t state)
{
    for (uint32_t at = 0; at < 64; at++)
        state = (state + 1) ^ ((const volatile uint32_t *) memory[n])[(state + at) % 8192];
    return state;
}

/* Is in the kernel most of the time. */
static uint32_t calls(uint32_t n, uint32_t state)
{
    for (uint32_t time = 0; time < 4; time++)
        hw_call(CALL_NULL, n, 0, 0);
    return state;
}

static const struct {
    const char *name;
    uint32_t (*piece)(uint32_t, uint32_t);
} kinds[KINDS] = {{"compute", compute}, {"chase", chase}, {"stream", stream}, {"calls", calls}};

static uint32_t work(void *argument)
{
    uint32_t number = (uint32_t) argument, state = 0;
    hw_sleep_until(from);
    while (hw_time() < until)
        state = kinds[number / EACH_MAX].piece(number % EACH_MAX, state);
    progress[number] = hw_counter(COUNTER_EPC);
    return 1;
}

static void fill(struct node *ring)
{
    uint32_t state = 2;
    for (uint32_t at = 0; at < NODES; at++)
        ring[at].next = &ring[at];
    for (uint32_t at = NODES - 1; at; at--) {
        uint32_t other = (next_number(&state) >> 8) % at;
        struct node *swap = ring[at].next;
        ring[at].next = ring[other].next;
        ring[other].next = swap;
    }
}

int main(void)
{
    uint32_t id[KINDS * EACH_MAX], wrong = 0;
    uint64_t least = UINT64_MAX, most = 0;
    const char *unknown = arguments_read(known, sizeof known / sizeof *known);
    if (unknown || !each || each > EACH_MAX) {
        if (unknown)
            hw_print("equal-progress: %s is no argument of this program:\n", unknown);
        hw_print("order=rounds|progress each=1..%u ticks=TICKS\n", EACH_MAX);
        return 2;
    }
    by_progress = order == 1;
    for (uint32_t n = 0; n < each; n++)
        fill(nodes[n]);
    from = hw_time() + SPAWNING;
    until = from + ticks;
    for (uint32_t at = 0; at < KINDS * each; at++)
        id[at] = hw_spawn(kinds[at % KINDS].name, work, (void *) (at % KINDS * EACH_MAX + at / KINDS));
    for (uint32_t at = 0; at < KINDS * each; at++) {
        uint64_t made;
        wrong += hw_join(id[at]) != 1;
        made = progress[at % KINDS * EACH_MAX + at / KINDS];
        least = made < least ? made : least;
        most = made > most ? made : most;
    }
    hw_print("equal-progress: in order of %s: EPI from %U to %U\n", orders[order], least, most);
    return wrong != 0;
}
