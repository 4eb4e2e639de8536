/* Two producers, one bounded queue of eight words, two consumers: every word arrives once. */

#include "headway_guest.h"

#define EACH 300
#define LAST 0xFFFFFFFF

static uint32_t ring[8];
static struct hw_queue queue = {.ring = ring, .capacity = 8};

static uint32_t produce(void *first)
{
    for (uint32_t item = 0; item < EACH; item++)
        hw_send(&queue, (uint32_t) first + item);
    return 0;
}

static uint32_t consume(void *nothing)
{
    (void) nothing;
    uint32_t sum = 0, item;
    while ((item = hw_receive(&queue)) != LAST)
        sum += item * item;
    return sum;
}

int main(void)
{
    uint32_t must = 0, sum = 0;
    for (uint32_t item = 0; item < 2 * EACH; item++)
        must += item * item;
    uint32_t consumers[] = {hw_spawn("consumer-1", consume, NULL), hw_spawn("consumer-2", consume, NULL)};
    uint32_t producers[] = {hw_spawn("producer-1", produce, (void *) 0), hw_spawn("producer-2", produce, (void *) EACH)};
    for (uint32_t at = 0; at < 2; at++)
        hw_join(producers[at]);
    for (uint32_t at = 0; at < 2; at++)
        hw_send(&queue, LAST);
    for (uint32_t at = 0; at < 2; at++)
        sum += hw_join(consumers[at]);
    hw_print("producer-consumer: sum of squares %u, must be %u\n", sum, must);
    return sum != must;
}
