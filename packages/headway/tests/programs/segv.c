#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
static sigjmp_buf back;
static void caught(int n) { siglongjmp(back, n); }
int main(void) {
    struct timespec t, start;
    signal(SIGSEGV, caught);
    if (!sigsetjmp(back, 0)) *(volatile char *)8 = 1;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (volatile long i = 0; i < 100000000; i++) ;
    clock_gettime(CLOCK_MONOTONIC, &t);
    printf("%ld\n", (t.tv_sec - start.tv_sec) * 1000000000L + t.tv_nsec - start.tv_nsec);
    return 0;
}
