#include "marking.h"
int main(void) {
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
            execl("/bin/sh", "sh", "-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done", (char *)0);
        }
        wait(0);
        wait(0);
    }
    return 0;
}
