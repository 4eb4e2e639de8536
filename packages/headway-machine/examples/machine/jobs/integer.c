/* A little of what integer programs do: an interpreter runs a program, words are hashed and looked up, fractions are
 * reduced, bits are counted. */

#include "jobs.h"

#define ROUNDS 40

enum operation { MULTIPLY, XOR, SUBTRACT, JUMP_IF_NOT_ZERO, END };

static const struct {
    uint8_t operation, to, from;
} code[] = {{MULTIPLY, 0, 2}, {XOR, 0, 1}, {SUBTRACT, 1, 3}, {JUMP_IF_NOT_ZERO, 1, 0}, {END, 0, 0}};

static uint32_t interpret(uint32_t seed)
{
    uint32_t registers[4] = {seed, 9, 5, 1};
    for (uint32_t at = 0;; at++) {
        uint32_t *to = &registers[code[at].to], from = registers[code[at].from];
        switch (code[at].operation) {
        case MULTIPLY:
            *to *= from;
            break;
        case XOR:
            *to ^= from;
            break;
        case SUBTRACT:
            *to -= from;
            break;
        case JUMP_IF_NOT_ZERO:
            if (*to)
                at = code[at].from - 1u;
            break;
        default:
            return registers[0];
        }
    }
}

static const char *const words[] = {"effective", "memory", "kernel", "poll", "stall", "ready", "wait", "memory", "poll"};
#define WORDS (sizeof words / sizeof *words)

static int same(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return *a == *b;
}

/* How many words are there twice, found by a table with open addressing; and the hashes (FNV-1a) of all. */
static uint32_t look_up(uint32_t *hashes)
{
    const char *table[16] = {0};
    uint32_t twice = 0;
    for (uint32_t word = 0; word < WORDS; word++) {
        uint32_t hash = 2166136261u;
        for (const char *c = words[word]; *c; c++)
            hash = (hash ^ (uint8_t) *c) * 16777619u;
        *hashes += hash;
        while (table[hash % 16] && !same(table[hash % 16], words[word]))
            hash++;
        twice += table[hash % 16] != 0;
        table[hash % 16] = words[word];
    }
    return twice;
}

static uint32_t divisor(uint32_t a, uint32_t b)
{
    while (b) {
        uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static uint32_t bits(uint32_t value)
{
    uint32_t count = 0;
    for (; value; value &= value - 1)
        count++;
    return count;
}

uint32_t integer_run(void)
{
    uint32_t state = 3, sum = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t number = next_number(&state);
        sum = sum * 33 + interpret(number);
        uint32_t twice = look_up(&sum);
        sum += twice;
        sum ^= divisor(number >> 8, (number & 0xFFFF) + 1);
        sum += bits(number) << 16;
    }
    return sum;
}
