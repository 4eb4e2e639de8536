/* Runs 2 instructions argv[1] times, with argv[2] system calls in between. For arm64. */
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    unsigned long n = strtoul(argv[1], 0, 10), calls = argc > 2 ? strtoul(argv[2], 0, 10) : 1;
    for (unsigned long i = 0; i < calls; i++) {
        unsigned long left = n / calls;
        __asm__ volatile("1: subs %0, %0, #1\n\tb.ne 1b" : "+r"(left) : : "cc");
        getppid();
    }
    return 0;
}
