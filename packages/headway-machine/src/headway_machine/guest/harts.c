/* The harts: booting, mutual exclusion, interrupts between them, and stopping. */

#include "kernel.h"

uint32_t calibrate(void);
void start(void) __attribute__((noreturn));
void trap_entry(void);
extern volatile uint32_t tohost[2], fromhost[2];

struct hart harts[HARTS_MAX];
uint32_t harts_count;
uint8_t boot_stacks[HARTS_MAX * BOOT_STACK] __attribute__((aligned(16)));

static uint32_t kernel_stacks[HARTS_MAX][KERNEL_STACK / 4] __attribute__((aligned(16)));
static volatile uint32_t prepared;
/* A ticket lock, first come first served: with a plain flag a hart of a busy core could wait for ever. */
static uint32_t ticket;
static volatile uint32_t serving;

uint64_t now(void)
{
    uint32_t high, low;
    do {
        high = REGISTER(CLINT_MTIME + 4);
        low = REGISTER(CLINT_MTIME);
    } while (high != REGISTER(CLINT_MTIME + 4));
    return (uint64_t) high << 32 | low;
}

void lock(void)
{
    uint32_t mine = __atomic_fetch_add(&ticket, 1, __ATOMIC_SEQ_CST);
    while (serving != mine)
        ;
}

void unlock(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    serving = serving + 1;
}

void interrupt(struct hart *hart)
{
    REGISTER(CLINT_MSIP + 4 * (uint32_t)(hart - harts)) = 1;
}

void clear_interrupt(struct hart *hart)
{
    REGISTER(CLINT_MSIP + 4 * (uint32_t)(hart - harts)) = 0;
}

void arm(struct hart *hart, uint64_t deadline)
{
    if (hart->armed == deadline)
        return;
    uint32_t compare = CLINT_MTIMECMP + 8 * (uint32_t)(hart - harts);
    hart->armed = deadline;
    REGISTER(compare) = 0xFFFFFFFF; /* so that no intermediate value is in the past */
    REGISTER(compare + 4) = (uint32_t)(deadline >> 32);
    REGISTER(compare) = (uint32_t) deadline;
}

void halt(uint32_t status)
{
    tohost[0] = status << 1 | 1;
    for (;;)
        ;
}

void panic(const char *what, const struct thread *self)
{
    static volatile uint64_t call[8];
    static char line[96];
    const char *parts[] = {"headway guest: ", self->block.name, ": ", what, " at 0x"};
    uint32_t length = 0;
    for (uint32_t part = 0; part < sizeof parts / sizeof *parts; part++)
        for (const char *from = parts[part]; *from && length < sizeof line - 9; from++)
            line[length++] = *from;
    for (int shift = 28; shift >= 0; shift -= 4)
        line[length++] = "0123456789abcdef"[self->x[0] >> shift & 15];
    line[length++] = '\n';
    call[0] = 64;
    call[1] = 2;
    call[2] = (uint32_t) line;
    call[3] = length;
    __asm__ volatile("" ::: "memory"); /* the text must be in memory before the host looks */
    tohost[0] = (uint32_t) call;
    while (!fromhost[0])
        ;
    halt(101);
}

/* Boot a hart after reset. The first one prepares the kernel and starts the others; each measures the cost of its own
 * traps before any thread runs on it. */
void boot(uint32_t number)
{
    struct hart *hart = &harts[number];
    __asm__ volatile("csrw mtvec, %0" ::"r"(trap_entry));
    if (number == 0) {
        harts_count = REGISTER(MACHINE_CORES) * REGISTER(MACHINE_THREADS);
        uint32_t divider = REGISTER(MACHINE_DIVIDER);
        least_quantum = QUANTUM * REGISTER(MACHINE_THREADS) / (divider ? divider : 1) + 1;
        threads_prepare();
        devices_prepare();
        prepared = 1;
        for (uint32_t other = 1; other < harts_count; other++)
            interrupt(&harts[other]);
    } else {
        CSR_WRITE(mie, MIE_SOFTWARE);
        while (!prepared)
            __asm__ volatile("wfi");
        CSR_WRITE(mie, 0);
        clear_interrupt(hart);
    }
    hart->idle.hart = hart;
    hart->idle.life = RUNNING;
    hart->idle.mstatus = MSTATUS_MACHINE;
    hart->idle.kernel_stack = kernel_stacks[number] + KERNEL_STACK / 4;
    hart->running = &hart->idle;
    hart->armed = 0;
    arm(hart, UINT64_MAX);
    __asm__ volatile("csrw mscratch, %0" ::"r"(&hart->idle));
    CSR_WRITE(mcounteren, 7);
    CSR_SET(CSR_HWCTL, HWCTL_HL);
    CSR_WRITE(CSR_HWCORR, calibrate());
    CSR_WRITE(mie, MIE_SOFTWARE | MIE_TIMER | MIE_EXTERNAL);
    start();
}
