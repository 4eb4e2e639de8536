/* Works on two tasks with an id, on one with a name, and on none; prints how long it worked on each, how long it was within
 * each at most, and how long it slept. */
#include "marking.h"
int main(void) {
    headway_task_name_t checkout = headway_task_name("checkout");
    long first = 0, second = 0, named = 0, none = 0, slept = 0;
    long in_first = 0, in_second = 0, in_named = 0;
    headway_task(0); /* the log is there from here on */
    for (int i = 0; i < 200; i++) {
        in_first -= now();
        HEADWAY_TASK(1) {
            first += work(50000);
            long inner = now();
            HEADWAY_TASK(2) second += work(30000); /* within a span of user code */
            inner = now() - inner;
            in_second += inner;
            first += work(20000);
        }
        in_first += now();
        none += work(40000);
        in_named -= now();
        HEADWAY_NAMED_TASK(1000 + i, "checkout") {
            named += work(60000);
            struct timespec nap = {0, 200000};
            long start = now();
            nanosleep(&nap, 0);
            slept += now() - start;
            syscall(SYS_getppid);
        }
        in_named += now();
    }
    in_named -= now();
    headway_named_task(7, checkout); /* the same name, looked up */
    named += work(1000000);
    in_named += now();
    printf("%ld %ld %ld %ld %ld %ld %ld %ld\n", first, in_first - in_second, second, in_second, named, in_named - slept, none,
           slept);
    return headway_current_task() != 7;
}
