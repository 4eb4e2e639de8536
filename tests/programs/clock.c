#include <stdio.h>
#include <time.h>
int main(void) {
    struct timespec t, start;
    volatile double x = 1;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do {
        for (int i = 0; i < 100000; i++) x *= 1.0000001;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    } while (t.tv_sec < 1);
    printf("%ld\n", (t.tv_sec - start.tv_sec) * 1000000000L + t.tv_nsec - start.tv_nsec);
    return 0;
}
