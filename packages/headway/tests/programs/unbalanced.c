#include "report.h"
int main(void) {
    headway_tag_t a = headway_tag("a"), b = headway_tag("b");
    headway_clear_noneffective();
    headway_clear_noneffective();
    report("cleared");
    for (int i = 0; i < 16; i++) headway_set_noneffective(a);
    headway_set_noneffective(b);
    headway_set_noneffective(b);
    report("deep");
    for (int i = 0; i < 18; i++) headway_clear_noneffective();
    report("back");
    headway_set_noneffective(4000000000u);
    headway_clear_noneffective();
    report("nonsense");
    return 0;
}
