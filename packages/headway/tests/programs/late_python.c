/* What CPython 3.11 has in its memory, with one thread that executes one function. The thread's state is in the list of the
 * interpreter's threads from the beginning, but it is known whose it is only later, as when CPython begins. */
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CALLED __attribute__((noinline, noclone, noipa))

unsigned long _PyRuntime[128], PyCode_Type[64];
const unsigned long Py_Version = 0x030b0000;

struct text {
	unsigned long head[2], length, hash;
	unsigned state, spare;
	char *wide, text[32];
};
struct bytes {
	unsigned long head[2], size, hash;
	unsigned char bytes[8];
};
static struct text name = {.length = 4, .state = 1 << 2 | 1 << 5 | 1 << 6, .text = "late"};
static struct text file = {.length = 7, .state = 1 << 2 | 1 << 5 | 1 << 6, .text = "late.py"};
static struct bytes lines = {.size = 2, .bytes = {0x80 | 13 << 3 | 7, 0}};
static unsigned long interpreter[8], state[32], code[64], frame[16];

static long now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
	return at.tv_sec * 1000000000L + at.tv_nsec;
}

/* Computes, and waits, for some time. */
CALLED void spin(void)
{
	for (int i = 0; i < 10; i++) {
		long until = now() + 20000000;
		while (now() < until)
			;
		usleep(1000);
	}
}

CALLED void _PyEval_EvalFrameDefault(void)
{
	volatile unsigned long c_frame[3] = {0, (unsigned long)frame, 0};
	state[7] = (unsigned long)c_frame;
	spin();
	c_frame[0]++;
}

int main(void)
{
	code[1] = (unsigned long)PyCode_Type;
	code[9] = 42; /* the first line */
	code[14] = (unsigned long)&file;
	code[15] = code[16] = (unsigned long)&name;
	code[17] = (unsigned long)&lines;
	frame[4] = (unsigned long)code;
	frame[7] = (unsigned long)code + 184; /* the first instruction */
	((char *)frame)[68] = 1; /* is_entry */
	state[2] = (unsigned long)interpreter;
	interpreter[2] = (unsigned long)state;
	_PyRuntime[5] = (unsigned long)interpreter;
	spin();
	state[19] = pthread_self();
	_PyEval_EvalFrameDefault();
	return 0;
}
