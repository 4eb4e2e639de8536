#define _GNU_SOURCE
#include "marking_handler.h"
#include <sys/time.h>
static volatile uint64_t signals;
static void handler(int number) {
    (void)number;
    uint64_t a = headway_now_();
    headway_set_noneffective(sig);
    uint64_t b = headway_now_();
    spin(5000);
    headway_set_noneffective(sig2); headway_clear_noneffective();
    uint64_t c = headway_now_();
    headway_clear_noneffective();
    least += c - b; most += headway_now_() - a; signals++;
}
// marking_signals [N]: until there have been so many signals, and a hundred rounds for each.
int main(int argc, char **argv) {
    uint64_t wrong = 0, wanted = argc > 1 ? strtoull(argv[1], 0, 10) : 10000;
    headway_tag_t all = headway_tag("all"), x = headway_tag("x"), y = headway_tag("y");
    sig = headway_tag("signal"); sig2 = headway_tag("signal2");
    uint64_t rounds = 0, first, last;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    headway_depth();
    first = headway_now_();
    headway_set_noneffective(all);
    struct itimerval every = {{0, 30}, {0, 30}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, 0);
    while (signals < wanted || rounds < 100 * wanted) {
        headway_set_noneffective(x); wrong += !charged(x);
        headway_set_noneffective(y); wrong += !charged(y); headway_clear_noneffective();
        wrong += !charged(x); headway_clear_noneffective();
        wrong += !charged(all);
        rounds++;
    }
    setitimer(ITIMER_REAL, &never, 0);
    spin(1000000);
    headway_clear_noneffective();
    last = headway_now_();
    report_marks(wrong, last - first);
    report_figure("rounds", rounds);
    report_figure("signals", signals);
    return 0;
}
