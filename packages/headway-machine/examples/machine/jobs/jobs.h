/* Five pieces of work that need nothing but a processor and memory of their own. What each computes, and how many
 * instructions that takes, is the same each time; tests/machine/test_examples.py computes it once more, in Python. */
#ifndef JOBS_H
#define JOBS_H

#include <stdint.h>

#define MATMUL_RIGHT 0xEB1B4428
#define CHASE_RIGHT 0xDA1267FC
#define INTEGER_RIGHT 0xA3BE5516
#define SORT_RIGHT 0x59CEA8BD
#define CRC32_RIGHT 0x4065D68C

/* The numbers that all of them start from. */
static inline uint32_t next_number(uint32_t *state) { return *state = *state * 1664525 + 1013904223; }

/* Product of two matrices of 32 × 32; rows part, part + parts … of it. Then the sum of its elements by their places. */
void matmul_fill(void);
void matmul_rows(uint32_t part, uint32_t parts);
uint32_t matmul_sum(void);

/* A walk through a ring of 2048 nodes of 32 bytes, in an order that no cache foresees, from a node of its own: the sum
 * of what it finds. */
void chase_fill(void);
uint32_t chase_walk(uint32_t from);

/* Interpreter, strings, divisors, bits: what integer programs do between their memory accesses. */
uint32_t integer_run(void);

/* Heap sort of 1024 numbers; the sum of them by their places. */
uint32_t sort_run(void);

/* CRC-32 (IEEE 802.3) of 16 blocks of 512 bytes; blocks part, part + parts … of them. Then all of them in one word. */
void crc32_fill(void);
void crc32_blocks(uint32_t part, uint32_t parts);
uint32_t crc32_sum(void);

#endif
