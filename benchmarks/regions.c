/* The cost of a mark, beside the two readings of the clock that it needs: prints lines "name ns". */
#include <headway.h>
#include <stdio.h>

#define TIMES 2000000
#define MEASURE(name, body)                                              \
    do {                                                                 \
        uint64_t start = headway_now_();                                 \
        for (int i = 0; i < TIMES; i++) { body; }                        \
        printf(name "\t%.2f\n", (double)(headway_now_() - start) / TIMES); \
    } while (0)

int main(void) {
    headway_tag_t tag = headway_tag("parse"), around = headway_tag("around");
    volatile uint64_t sink = 0;
    for (uint64_t end = headway_now_() + 50000000; headway_now_() < end;) {} /* let the processor reach its speed */
    headway_depth();
    MEASURE("two readings of the clock", sink += headway_now_(); sink += headway_now_());
    MEASURE("C: set and clear", headway_set_noneffective(tag); headway_clear_noneffective());
    MEASURE("C: HEADWAY_NONEFFECTIVE block", HEADWAY_NONEFFECTIVE("block") {});
    headway_set_noneffective(around);
    MEASURE("C: set and clear inside another region", headway_set_noneffective(tag); headway_clear_noneffective());
    headway_clear_noneffective();
    return 0;
}
