/* What examples/machine/bare expects of its start-up code (bare.h), on the barrel core: without atomic instructions and
 * WFI. Every hart that has no work polls for it, in a marked region. In the end each hart reads its counters by CSRs. */
#include "bare.h"
#include "text.h"

#define HARTS 8
#define COUNTERS 8

extern volatile uint32_t tohost[2];

/* The counters that each hart has read, for whoever looks into memory after the run. */
volatile uint64_t results[HARTS][COUNTERS];

static void (*volatile shared)(uint32_t, uint32_t);
static volatile uint32_t round, finished[HARTS];
static volatile uint32_t over;

uint32_t bare_harts(void)
{
	return REGISTER(MACHINE_THREADS);
}

static void wait_for(volatile uint32_t *word, uint32_t value)
{
	CSR_WRITE(CSR_HWSW, HWSW_SWNE | HWSW_IOSW | 3 << 8);
	while (*word != value)
		;
	CSR_WRITE(CSR_HWSW, 0);
}

void bare_everywhere(void (*work)(uint32_t, uint32_t))
{
	uint32_t parts = bare_harts(), now = round + 1;
	shared = work;
	round = now;
	work(0, parts);
	for (uint32_t hart = 1; hart < parts; hart++)
		wait_for(&finished[hart], now);
}

void bare_print(const char *format, ...)
{
	char line[120];
	__builtin_va_list values;
	__builtin_va_start(values, format);
	uint32_t length = text_format(line, sizeof line, format, values);
	__builtin_va_end(values);
	for (uint32_t at = 0; at < length; at++) {
		while (!REGISTER(UART_TXSTATUS))
			;
		REGISTER(UART_TXDATA) = (uint8_t)line[at];
	}
}

#define READ(n) results[hart][n] = COUNTER_READ(0xCC0 + n, 0xCD0 + n)

static void read_counters(uint32_t hart)
{
	READ(0);
	READ(1);
	READ(2);
	READ(3);
	READ(4);
	READ(5);
	READ(6);
	READ(7);
}

void other(uint32_t hart) __attribute__((noreturn));
void other(uint32_t hart)
{
	uint32_t done = 0;
	for (;;) {
		CSR_WRITE(CSR_HWSW, HWSW_SWNE | HWSW_IOSW | 3 << 8);
		while (round == done && !over)
			;
		CSR_WRITE(CSR_HWSW, 0);
		if (over)
			break;
		done = round;
		shared(hart, bare_harts());
		finished[hart] = done;
	}
	read_counters(hart);
	finished[hart] = 0xFFFFFFFF;
	for (;;)
		;
}

void first(void) __attribute__((noreturn));
void first(void)
{
	uint32_t status = (uint32_t)main();
	over = 1;
	for (uint32_t hart = 1; hart < bare_harts(); hart++)
		wait_for(&finished[hart], 0xFFFFFFFF);
	read_counters(0);
	tohost[0] = status << 1 | 1;
	for (;;)
		;
}
