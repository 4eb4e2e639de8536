/* Each step needs the one before it, and each is a cache line of its own: memory latency and nothing else. */

#include "jobs.h"

#define NODES 2048
#define STEPS (2 * NODES)

static struct node {
    struct node *next;
    uint32_t value;
    uint32_t rest_of_the_line[6];
} nodes[NODES] __attribute__((aligned(32)));

void chase_fill(void)
{
    uint32_t state = 2;
    for (uint32_t at = 0; at < NODES; at++)
        nodes[at].next = &nodes[at];
    /* Sattolo's shuffle: what comes out is one ring. */
    for (uint32_t at = NODES - 1; at; at--) {
        uint32_t other = (next_number(&state) >> 8) % at;
        struct node *swap = nodes[at].next;
        nodes[at].next = nodes[other].next;
        nodes[other].next = swap;
        nodes[at].value = state;
    }
}

uint32_t chase_walk(uint32_t from)
{
    const struct node *node = &nodes[from % NODES];
    uint32_t sum = 0;
    for (uint32_t step = 0; step < STEPS; step++) {
        sum += node->value ^ step >> 11;
        node = node->next;
    }
    return sum;
}
