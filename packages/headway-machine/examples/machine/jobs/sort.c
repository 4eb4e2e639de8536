/* A heap, and the largest taken from it again and again. */

#include "jobs.h"

#define NUMBERS 1024

static uint32_t numbers[NUMBERS];

static void sink(uint32_t from, uint32_t count)
{
    uint32_t value = numbers[from];
    for (;;) {
        uint32_t child = 2 * from + 1;
        if (child >= count)
            break;
        if (child + 1 < count && numbers[child + 1] > numbers[child])
            child++;
        if (numbers[child] <= value)
            break;
        numbers[from] = numbers[child];
        from = child;
    }
    numbers[from] = value;
}

uint32_t sort_run(void)
{
    uint32_t state = 4, sum = 0;
    for (uint32_t at = 0; at < NUMBERS; at++)
        numbers[at] = next_number(&state);
    for (uint32_t at = NUMBERS / 2; at--;)
        sink(at, NUMBERS);
    for (uint32_t count = NUMBERS; --count;) {
        uint32_t largest = numbers[0];
        numbers[0] = numbers[count];
        numbers[count] = largest;
        sink(0, count);
    }
    for (uint32_t at = 0; at < NUMBERS; at++)
        sum += numbers[at] * (at + 1);
    return sum;
}
