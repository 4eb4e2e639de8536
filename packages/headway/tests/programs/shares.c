#include "marking.h"
int main(void) {
    long outer = 0, inner = 0, polled = 0, plain = 0;
    for (int i = 0; i < 300; i++) {
        plain += work(200000);
        HEADWAY_NONEFFECTIVE("outer") {
            outer += work(150000);
            HEADWAY_NONEFFECTIVE("inner") inner += work(50000);
            outer += work(100000);
            HEADWAY_POLL("ring") polled += work(100000);
        }
        if (i % 10 == 0) syscall(SYS_getppid);
    }
    printf("%ld %ld %ld %ld\n", outer, inner, polled, plain);
    return 0;
}
