#include <setjmp.h>
#include <signal.h>
#include <time.h>
static sigjmp_buf back;
static void caught(int n) { siglongjmp(back, n); }
int main(void) {
    struct timespec t;
    signal(SIGSEGV, caught);
    if (!sigsetjmp(back, 0)) *(volatile char *)8 = 1;
    do clock_gettime(CLOCK_MONOTONIC, &t); while (0);
    for (volatile long i = 0; i < 100000000; i++) ;
    return 0;
}
