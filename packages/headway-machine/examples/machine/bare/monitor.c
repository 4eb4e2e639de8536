/* A program that reads what the state monitor has gathered about it: a marked region, entered three times, and the rest.
 * No instruction is missing from the table. */

#include "bare.h"
#include "jobs.h"

HW_TAG(7, sort);

#define REGION (STATE_NONEFFECTIVE + 7)
#define ROUNDS 3
#define CORRECTION 2 /* cycles; of its own choice here, where the guest kernel measures what it must be */

static struct {
    uint64_t cycles, instructions, occurrences, stalled;
} table[256] __attribute__((aligned(8)));

int main(void)
{
    uint32_t first, last, state, wrong = 0;
    CSR_WRITE(CSR_HWCORR, CORRECTION);
    __asm__ volatile("csrw 0x7C6, %1\ncsrr %0, minstret" : "=&r"(first) : "r"(table) : "memory");
    for (uint32_t round = 0; round < ROUNDS; round++) {
        CSR_WRITE(CSR_HWSW, HWSW_SWNE | HWSW_KPSW | 7 << 8);
        wrong += sort_run() != SORT_RIGHT;
        CSR_WRITE(CSR_HWSW, 0);
        wrong += integer_run() != INTEGER_RIGHT;
    }
    /* Reading hwstate brings the table up to date, to before that read. */
    __asm__ volatile("csrr %0, 0x7C7\ncsrr %1, minstret" : "=&r"(state), "=&r"(last)::"memory");
    uint64_t instructions = 1;
    for (uint32_t at = 0; at < 256; at++)
        instructions += table[at].instructions;
    wrong += state != 0;
    wrong += instructions != last - first;
    wrong += table[REGION].occurrences != ROUNDS;
    wrong += table[REGION].cycles <= table[REGION].stalled || table[REGION].instructions <= table[0].instructions;
    wrong += table[STATE_OVERHEAD].cycles != CORRECTION * ROUNDS || table[STATE_OVERHEAD].occurrences != ROUNDS;
    bare_print("monitor: %U of %U instructions in the region, %u wrong\n", table[REGION].instructions, instructions,
               wrong);
    return wrong != 0;
}
