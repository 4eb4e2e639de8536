/* A child goes on with the task of the thread that forked; a program that is executed begins without a task. */
#include "marking.h"
int main(int argc, char **argv) {
    if (argc > 1) { /* executed */
        work(30000000);
        return 0;
    }
    headway_task(5);
    work(10000000);
    if (!fork()) {
        prctl(PR_SET_NAME, "child");
        work(30000000);
        headway_task(6);
        work(20000000);
        execl("/proc/self/exe", "exe", "again", (char *)0);
        return 1;
    }
    wait(0);
    return 0;
}
