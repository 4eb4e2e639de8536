/* All that the progress unit counts apart: a marked region that is a kernel, one that polls, waiting for the UART, timer
 * interrupts, system calls from user mode and from machine mode, an instruction that is illegal, and corrections. */
#include "bare.h"

#define INTERRUPTS 20
#define CALLS 3

static volatile uint32_t ticked[8], called[8], illegal[8], wrong[8];
static uint32_t user_stack[8][128];

static void next_interrupt(uint32_t hart)
{
	REGISTER(CLINT_MTIMECMP + 8 * hart + 4) = 0xFFFFFFFF;
	REGISTER(CLINT_MTIMECMP + 8 * hart) = REGISTER(CLINT_MTIME) + 700 + 13 * hart;
	REGISTER(CLINT_MTIMECMP + 8 * hart + 4) = 0;
}

__attribute__((interrupt("machine"), aligned(4))) static void handler(void)
{
	uint32_t hart = CSR_READ(mhartid), cause = CSR_READ(mcause);
	if (cause == 0x80000007) {
		if (++ticked[hart] >= INTERRUPTS)
			CSR_WRITE(mie, 0);
		else
			next_interrupt(hart);
		if (ticked[hart] & 1)
			CSR_WRITE(CSR_HWLATCH, LATCH_POLL); /* the handler's end is not measured as kernel, but corrected */
		return;
	}
	CSR_WRITE(mepc, CSR_READ(mepc) + 4);
	if (cause == 2)
		illegal[hart]++;
	else if (cause == 8 || cause == 11)
		called[hart]++;
	else
		wrong[hart]++;
	if (cause == 8 && called[hart] == 2 * CALLS)
		CSR_SET(mstatus, 0x1800); /* back to machine mode */
}

static uint32_t sum(uint32_t value, uint32_t rounds)
{
	while (rounds--)
		value = value * 5 + (value >> 7) + rounds;
	return value;
}

static void call(uint32_t number)
{
	register uint32_t a7 __asm__("a7") = number;
	__asm__ volatile("ecall" ::"r"(a7) : "memory");
}

static void user_mode(uint32_t hart)
{
	__asm__ volatile("csrw mscratch, sp\n"
					 "la t0, 1f\n"
					 "csrw mepc, t0\n"
					 "li t0, 0x1800\n"
					 "csrc mstatus, t0\n"
					 "mret\n"
					 "1:\n"
		:
		:
		: "t0", "memory");
	for (uint32_t n = 0; n < CALLS; n++) {
		CSR_WRITE(CSR_HWSW, HWSW_SWNE | n << 8);
		user_stack[hart][n] = sum(n, 10);
		CSR_WRITE(CSR_HWSW, 0);
		call(n ? 40 + n : 5);
	}
}

static void account(uint32_t part, uint32_t parts)
{
	(void)parts;
	CSR_WRITE(mtvec, &handler);
	CSR_WRITE(CSR_HWCORR, 6);
	next_interrupt(part);
	CSR_WRITE(mie, 0x80);
	CSR_SET(mstatus, 8);
	for (uint32_t round = 0; ticked[part] < INTERRUPTS; round++) {
		user_stack[part][0] = sum(round, 30);
		CSR_WRITE(CSR_HWSW, HWSW_SWNE | HWSW_KPSW | 7 << 8);
		user_stack[part][1] = sum(round, 20);
		CSR_WRITE(CSR_HWSW, HWSW_SWNE | HWSW_IOSW | 2 << 8);
		user_stack[part][2] = sum(round, 10);
		CSR_WRITE(CSR_HWSW, 0);
	}
	CSR_WRITE(0x7C0, 0x7FF & ~(1 << 3)); /* KPC stands still for a while */
	for (uint32_t n = 0; n < CALLS; n++)
		call(100 + n);
	CSR_WRITE(0x7C0, 0x7FF | 1 << 11); /* machine mode is the kernel */
	user_stack[part][3] = sum(part, 20);
	__asm__ volatile(".word 0xFFFFFFFF");
	user_mode(part);
	CSR_WRITE(0x7C0, 0x7FF);
	CSR_WRITE(0xBC3, 12345); /* a counter is written while others count */
}

int main(void)
{
	uint32_t bad = 0;
	bare_everywhere(account);
	for (uint32_t hart = 0; hart < bare_harts(); hart++)
		bad += ticked[hart] != INTERRUPTS || called[hart] != 2 * CALLS || illegal[hart] != 1 || wrong[hart];
	bare_print("accounting: wrong on %u of %u harts\n", bad, bare_harts());
	return bad != 0;
}
