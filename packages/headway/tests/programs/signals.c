#include "marking.h"
static volatile long handled, around, times;
static void handler(int n) {
    long start = now();
    HEADWAY_NONEFFECTIVE("handler") handled += work(200000);
    times++;
    around += now() - start;
}
int main(void) {
    struct itimerval each = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    struct sigaction on = {.sa_handler = handler, .sa_flags = SA_RESTART};
    long all = 0;
    sigaction(SIGALRM, &on, 0);
    headway_tag("handler");
    setitimer(ITIMER_REAL, &each, 0);
    HEADWAY_NONEFFECTIVE("main") all = work(300000000);
    setitimer(ITIMER_REAL, &none, 0);
    printf("%ld %ld %ld\n", all - around, handled, times);
    return 0;
}
