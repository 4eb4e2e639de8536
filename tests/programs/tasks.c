/* Works on two tasks with an id, on one with a name, and on none; prints how long on each, and how long it slept. */
#include "marking.h"
int main(void) {
    headway_task_name_t checkout = headway_task_name("checkout");
    long first = 0, second = 0, named = 0, none = 0, slept = 0;
    headway_task(0); /* the log is there from here on */
    for (int i = 0; i < 200; i++) {
        HEADWAY_TASK(1) {
            first += work(50000);
            HEADWAY_TASK(2) second += work(30000); /* within a span of user code */
            first += work(20000);
        }
        none += work(40000);
        HEADWAY_NAMED_TASK(1000 + i, "checkout") {
            named += work(60000);
            struct timespec nap = {0, 200000};
            long start = now();
            nanosleep(&nap, 0);
            slept += now() - start;
            syscall(SYS_getppid);
        }
    }
    headway_named_task(7, checkout); /* the same name, looked up */
    named += work(1000000);
    printf("%ld %ld %ld %ld %ld\n", first, second, named, none, slept);
    return headway_current_task() != 7;
}
