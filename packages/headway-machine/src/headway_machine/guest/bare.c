/* The start of a program without a kernel: the other harts sleep until hart 0 has work for all. */

#include "bare.h"
#include "text.h"

extern volatile uint32_t tohost[2], fromhost[2];

static void (*volatile shared)(uint32_t, uint32_t);
static volatile uint32_t round;
static uint32_t finished;

uint32_t bare_harts(void) { return REGISTER(MACHINE_CORES) * REGISTER(MACHINE_THREADS); }

void bare_everywhere(void (*work)(uint32_t, uint32_t))
{
    uint32_t parts = bare_harts();
    shared = work;
    finished = 0;
    round++;
    for (uint32_t hart = 1; hart < parts; hart++)
        REGISTER(CLINT_MSIP + 4 * hart) = 1;
    work(0, parts);
    while (__atomic_load_n(&finished, __ATOMIC_ACQUIRE) != parts - 1)
        ;
}

void bare_other(uint32_t hart) __attribute__((noreturn));
void bare_other(uint32_t hart)
{
    uint32_t done = 0;
    CSR_WRITE(mie, 8);
    for (;;) {
        while (done == round) {
            __asm__ volatile("wfi");
            REGISTER(CLINT_MSIP + 4 * hart) = 0;
        }
        done = round;
        shared(hart, bare_harts());
        __atomic_fetch_add(&finished, 1, __ATOMIC_RELEASE);
    }
}

void bare_print(const char *format, ...)
{
    static volatile uint64_t call[8] __attribute__((aligned(64)));
    char line[120];
    __builtin_va_list values;
    __builtin_va_start(values, format);
    call[0] = 64;
    call[1] = 1;
    call[2] = (uint32_t) line;
    call[3] = text_format(line, sizeof line, format, values);
    __builtin_va_end(values);
    fromhost[0] = 0;
    __asm__ volatile("" ::: "memory"); /* the text must be in memory before the host looks */
    tohost[0] = (uint32_t) call;
    while (!fromhost[0])
        ;
}

void bare_run(void) __attribute__((noreturn));
void bare_run(void)
{
    tohost[0] = (uint32_t) main() << 1 | 1;
    for (;;)
        ;
}
