#include "report.h"
#include <setjmp.h>
static jmp_buf back;
int main(void) {
    headway_tag_t a = headway_tag("a"), b = headway_tag("b");
    headway_set_noneffective(a);
    uint32_t depth = headway_depth();
    if (!setjmp(back)) {
        for (int i = 0; i < 20; i++) headway_set_noneffective(b);
        longjmp(back, 1);
    }
    headway_restore(depth);
    report("jumped");
    headway_restore(7);
    headway_restore(0);
    report("end");
    return 0;
}
