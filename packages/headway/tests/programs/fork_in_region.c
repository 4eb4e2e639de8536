#include "marking.h"
int main(int argc, char **argv) {
    if (argc > 1) { work(30000000); return 0; }
    HEADWAY_NONEFFECTIVE("before") {
        work(10000000);
        if (!fork()) {
            prctl(PR_SET_NAME, "child");
            work(30000000);                                    /* still in the region */
            HEADWAY_NONEFFECTIVE("inside") work(20000000);
            headway_restore(0);
            work(40000000);
            _exit(0);
        }
        if (!fork()) {
            work(10000000);
            execl("/proc/self/exe", "executed", "outside", (char *)0);
        }
        wait(0);
        wait(0);
    }
    return 0;
}
