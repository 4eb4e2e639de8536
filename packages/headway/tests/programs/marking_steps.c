#define _GNU_SOURCE
#include "marking_handler.h"
static volatile uint64_t steps, wrong;
static int odd(void) {
    int n = 0;
    for (uint32_t i = 0; i < headway_self_->n_tags; i++) n += headway_self_->tags[i].word & 1;
    return n;
}
static void handler(int number) {
    (void)number;
    uint64_t a = headway_now_();
    wrong += odd() > 1;
    headway_set_noneffective(sig);
    uint64_t b = headway_now_();
    wrong += !charged(sig);
    headway_set_noneffective(sig); headway_set_noneffective(sig2);
    wrong += !charged(sig2) || odd() != 1;
    headway_clear_noneffective(); headway_clear_noneffective();
    wrong += !charged(sig);
    uint64_t c = headway_now_();
    headway_clear_noneffective();
    least += c - b; most += headway_now_() - a; steps++;
}
static inline void trap(void) { __asm__ __volatile__("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc"); }
static inline void run(void) { __asm__ __volatile__("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc"); }
#define SET(tag) do { trap(); headway_set_noneffective(tag); run(); wrong += !charged(tag) || odd() != 1; } while (0)
#define CLEAR(tag) do { trap(); headway_clear_noneffective(); run(); wrong += !charged(tag) || odd() != 1; } while (0)
int main(void) {
    headway_tag_t all = headway_tag("all"), x = headway_tag("x"), y = headway_tag("y");
    sig = headway_tag("signal"); sig2 = headway_tag("signal2");
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGTRAP, &action, 0);
    uint64_t first, last;
    headway_depth();
    first = headway_now_();
    trap(); headway_set_noneffective(all); run();
    for (int i = 0; i < 20; i++) {
        SET(x); SET(x); SET(y); CLEAR(x); CLEAR(x); SET(x); SET(y); CLEAR(x); CLEAR(x); CLEAR(all);
        SET(y); SET(all); SET(y);
        headway_clear_noneffective();
        trap(); headway_restore(1); run();
        wrong += !charged(all) || headway_depth() != 1;
    }
    trap(); headway_clear_noneffective(); run();
    last = headway_now_();
    wrong += odd() || headway_self_->open;
    report_marks(wrong, last - first);
    report_figure("steps", steps);
    return 0;
}
