/* One hart works while external lines interrupt it (the configuration drives them: interrupt-storm.toml). It must have
 * counted `storm_expected` interrupts, and its work must come out right in spite of them. */

#include "bare.h"
#include "jobs.h"

/* The host may overwrite it before the start. */
volatile uint32_t storm_expected = 500;

#define FIRST_SOURCE 4
#define PATIENCE 20000000 /* ticks */

static volatile uint32_t counted[PLIC_SOURCES + 1];
static volatile uint32_t late;

__attribute__((interrupt("machine"), aligned(4))) static void handler(void)
{
    if (CSR_READ(mcause) == 0x80000007) {
        late = 1;
        CSR_WRITE(mie, 0);
        return;
    }
    uint32_t source;
    while ((source = REGISTER(PLIC_CLAIM))) {
        counted[source]++;
        REGISTER(PLIC_CLAIM) = source;
    }
}

static uint32_t total(void)
{
    uint32_t sum = 0;
    for (uint32_t source = FIRST_SOURCE; source <= PLIC_SOURCES; source++)
        sum += counted[source];
    return sum;
}

int main(void)
{
    uint32_t wrong = 0, rounds = 0;
    for (uint32_t source = FIRST_SOURCE; source <= PLIC_SOURCES; source++)
        REGISTER(PLIC_PRIORITY + 4 * source) = 1;
    REGISTER(PLIC_THRESHOLD) = 0;
    REGISTER(PLIC_ENABLE) = 0xFFFFFFFFu << FIRST_SOURCE;
    REGISTER(CLINT_MTIMECMP + 4) = 0;
    REGISTER(CLINT_MTIMECMP) = PATIENCE;
    CSR_WRITE(mtvec, &handler);
    CSR_WRITE(mie, 0x880);
    CSR_SET(mstatus, 8);
    while (total() < storm_expected && !late) {
        wrong += sort_run() != SORT_RIGHT;
        rounds++;
    }
    CSR_WRITE(mie, 0);
    bare_print("interrupt-storm: %u interrupts, must be %u; sorted %u times, %u wrong\n", total(), storm_expected,
               rounds, wrong);
    return late || wrong || total() != storm_expected;
}
