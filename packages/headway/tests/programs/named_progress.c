#include "marking.h"
int main(void) {
    long drawn = 0, lost = 0, shaded = 0, plain = 0;
    for (int i = 0; i < 300; i++) {
        plain += work(100000);
        HEADWAY_STATE("render") {
            drawn += work(150000);
            HEADWAY_NONEFFECTIVE("lost") lost += work(50000);
            HEADWAY_STATE("shade") shaded += work(50000);
        }
        if (i % 10 == 0) syscall(SYS_getppid);
    }
    printf("%ld %ld %ld %ld\n", drawn, lost, shaded, plain);
    return 0;
}
