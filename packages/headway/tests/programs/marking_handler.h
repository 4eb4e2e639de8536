/* For programs whose signal handler marks regions while the program marks its own. */
#include "report.h"
#include <signal.h>
static headway_tag_t sig, sig2;
static volatile uint64_t least, most; /* ns that the handler's regions took: between the marks, and with them */
static inline int charged(headway_tag_t tag) {
    return HEADWAY_LOAD_(headway_self_->open) == tag + 1 && HEADWAY_LOAD_(headway_self_->tags[tag].word) & 1;
}
static inline void report_figure(const char *name, uint64_t value) { printf("%s=%llu\n", name, (unsigned long long)value); }
/* `outside`: ns from before the first mark of the program until after its last one. */
static inline void report_marks(uint64_t wrong, uint64_t outside) {
    uint64_t sum = 0;
    report("end");
    for (uint32_t i = 0; i < headway_self_->n_tags; i++) sum += headway_self_->tags[i].word / 2;
    report_figure("wrong", wrong);
    report_figure("least", least);
    report_figure("most", most);
    report_figure("sum", sum);
    report_figure("outside", outside);
}
