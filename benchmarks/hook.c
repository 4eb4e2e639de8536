/* The function that Unicorn calls before each instruction: the least that a counting tool would do. */

#include <stdint.h>

uint64_t headway_counted;

void headway_count(void *engine, uint64_t address, uint32_t size, void *data) {
    (void)engine;
    (void)address;
    (void)size;
    (void)data;
    headway_counted++;
}
