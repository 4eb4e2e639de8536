/* By a table of 256 words, a byte at a time. */

#include "jobs.h"

#define BLOCKS 16
#define BYTES 512

static uint32_t table[256];
static uint8_t bytes[BLOCKS][BYTES];
static uint32_t sums[BLOCKS];

void crc32_fill(void)
{
    uint32_t state = 5;
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (uint32_t bit = 0; bit < 8; bit++)
            value = value >> 1 ^ (value & 1 ? 0xEDB88320 : 0);
        table[byte] = value;
    }
    for (uint32_t at = 0; at < BLOCKS * BYTES; at++)
        bytes[at / BYTES][at % BYTES] = (uint8_t)(next_number(&state) >> 24);
}

void crc32_blocks(uint32_t part, uint32_t parts)
{
    for (uint32_t block = part; block < BLOCKS; block += parts) {
        uint32_t value = 0xFFFFFFFF;
        for (uint32_t at = 0; at < BYTES; at++)
            value = table[(value ^ bytes[block][at]) & 255] ^ value >> 8;
        sums[block] = ~value;
    }
}

uint32_t crc32_sum(void)
{
    uint32_t sum = 0;
    for (uint32_t block = 0; block < BLOCKS; block++)
        sum = (sum << 1 | sum >> 31) ^ sums[block];
    return sum;
}
