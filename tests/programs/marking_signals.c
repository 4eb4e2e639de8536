#define _GNU_SOURCE
#include "report.h"
#include <signal.h>
#include <sys/time.h>
static headway_tag_t sig, sig2;
static volatile uint64_t signals, least, most;
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
static int charged(headway_tag_t tag) {
    return HEADWAY_LOAD_(headway_self_->open) == tag + 1 && HEADWAY_LOAD_(headway_self_->tags[tag].word) & 1;
}
int main(void) {
    uint64_t wrong = 0;
    headway_tag_t all = headway_tag("all"), x = headway_tag("x"), y = headway_tag("y");
    sig = headway_tag("signal"); sig2 = headway_tag("signal2");
    uint64_t rounds = 0, begin, end, first, last, away;
    struct timespec ran, stopped;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    uint64_t sum = 0;
    headway_depth();
    first = headway_now_();
    headway_set_noneffective(all);
    begin = headway_now_();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran);
    struct itimerval every = {{0, 30}, {0, 30}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &every, 0);
    while (signals < 10000 || rounds < 1000000) {
        headway_set_noneffective(x); wrong += !charged(x);
        headway_set_noneffective(y); wrong += !charged(y); headway_clear_noneffective();
        wrong += !charged(x); headway_clear_noneffective();
        wrong += !charged(all);
        rounds++;
    }
    setitimer(ITIMER_REAL, &never, 0);
    spin(1000000);
    end = headway_now_();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &stopped);
    away = end - begin - ((stopped.tv_sec - ran.tv_sec) * 1000000000LL + stopped.tv_nsec - ran.tv_nsec);
    headway_clear_noneffective();
    last = headway_now_();
    report("end");
    for (uint32_t i = 0; i < headway_self_->n_tags; i++) sum += headway_self_->tags[i].word / 2;
    printf("wrong=%llu\n", (unsigned long long)wrong);
    printf("rounds=%llu\n", (unsigned long long)rounds);
    printf("signals=%llu\n", (unsigned long long)signals);
    printf("least=%llu\n", (unsigned long long)least);
    printf("most=%llu\n", (unsigned long long)most);
    printf("sum=%llu\n", (unsigned long long)sum);
    printf("inside=%llu\n", (unsigned long long)(end - begin));
    printf("outside=%llu\n", (unsigned long long)(last - first));
    printf("away=%llu\n", (unsigned long long)away);
    return 0;
}
