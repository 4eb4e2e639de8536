#include "report.h"
int main(void) {
    headway_tag_t a = headway_tag("a"), b = headway_tag("b");
    uint64_t t[8];
    headway_depth();
    t[0] = headway_now_(); headway_set_noneffective(a); t[1] = headway_now_(); spin(2000000);
    t[2] = headway_now_(); headway_set_noneffective(b); t[3] = headway_now_(); spin(3000000);
    headway_set_noneffective(b); spin(1000000); headway_clear_noneffective();
    t[4] = headway_now_(); headway_clear_noneffective(); t[5] = headway_now_(); spin(1000000);
    t[6] = headway_now_(); headway_clear_noneffective(); t[7] = headway_now_(); spin(1000000);
    report("end");
    printf("a_least=%llu\n", (unsigned long long)(t[2] - t[1] + t[6] - t[5]));
    printf("a_most=%llu\n", (unsigned long long)(t[3] - t[0] + t[7] - t[4]));
    printf("b_least=%llu\n", (unsigned long long)(t[4] - t[3]));
    printf("b_most=%llu\n", (unsigned long long)(t[5] - t[2]));
    return 0;
}
