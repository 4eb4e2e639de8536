/* Marks regions in tasks: a region has one task in one span of user code, and two in another. */
#include "marking.h"
int main(void) {
    long one = 0, plain = 0;
    headway_task(0);
    for (int i = 0; i < 200; i++) {
        headway_task(1);
        HEADWAY_NONEFFECTIVE("parse") one += work(50000);
        syscall(SYS_getppid); /* an event: what comes is another span */
        headway_task(2);
        plain += work(50000);
        syscall(SYS_getppid);
    }
    headway_task(0);
    printf("%ld %ld\n", one, plain);
    return 0;
}
