/* A program that looks like CPython 3.MINOR and has anything in its memory: what an interpreter has in its structures,
 * in places where it does not belong, and pointers to nowhere. An observer reads it meanwhile. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CALLED __attribute__((noinline, noclone, noipa))
enum { WORDS = 1 << 13, FIRST = 1 << 10, PATTERN = 200 };

#if MINOR >= 13
/* Its own description: all offsets are small, and what they say is as good as any. */
unsigned long _PyRuntime[FIRST] = {0x7970677562656478 /* xdebugpy */, 0x30d0000, 0, [3 ... PATTERN - 1] = 24,
	[5] = PATTERN * 8 /* the interpreters */, [8] = 16, [9] = 32, [20] = 0, [21] = 8, [24] = 40, [29] = 8, [30] = 0,
	[33] = 70};
#else
unsigned long _PyRuntime[FIRST];
#endif
unsigned long PyCode_Type[64];
const unsigned long Py_Version = 0x03000000 | MINOR << 16;
static unsigned long arena[WORDS];

static unsigned long random_word(void)
{
	unsigned long random = (unsigned long)rand() * 31 + (unsigned long)rand();
	unsigned long inside = (unsigned long)arena + random / 16 % sizeof(arena);
	switch (random % 16) {
	case 0 ... 4:
		return inside & ~15ul;
	case 5:
		return inside;
	case 6 ... 8:
		return (unsigned long)pthread_self();
	case 9 ... 11:
		return (unsigned long)PyCode_Type;
	case 12:
		return random / 16 % 300;
	case 13:
		return 0;
	case 14:
		return (unsigned long)(arena + WORDS) - random / 16 % 64;
	default:
		return random << 40 ^ random;
	}
}

CALLED void _PyEval_EvalFrameDefault(int depth)
{
	volatile unsigned long here[16];
	for (int i = 0; i < 16; i++)
		here[i] = random_word();
	if (depth)
		_PyEval_EvalFrameDefault(depth - 1);
	else
		for (int i = 0; i < 3000; i++)
			arena[(unsigned)rand() % WORDS] = random_word();
	here[0]++;
}

int main(void)
{
	struct timespec now;
	for (int round = 0;; round++) {
		for (int i = 0; i < WORDS; i++)
			arena[i] = random_word();
		for (int i = MINOR >= 13 ? PATTERN : 0; i < FIRST; i++)
			_PyRuntime[i] = (unsigned long)(arena + rand() % WORDS) & ~15ul;
		_PyEval_EvalFrameDefault(round % 9);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
		if (now.tv_sec)
			return 0;
	}
}
