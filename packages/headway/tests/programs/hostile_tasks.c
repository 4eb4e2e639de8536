/* Lies in its log of tasks: times of the future, numbers of changes, names, an address. argv[1] says how. */
#include "marking.h"
int main(int argc, char **argv) {
    struct headway_task_log *log;
    const char *how = argc > 1 ? argv[1] : "";
    headway_task(1);
    log = headway_log_;
    for (int i = 0; i < 200; i++) {
        if (!strcmp(how, "future")) log->changes[(log->n - 1) % HEADWAY_CHANGES_].at = now() + 1000000000;
        if (!strcmp(how, "number")) log->n += 1000000;
        if (!strcmp(how, "back")) log->n -= 3;
        if (!strcmp(how, "names")) headway_named_task(3, 4000000000u), log->names = 8;
        if (!strcmp(how, "random"))
            for (int j = 0; j < 64; j++) ((volatile uint64_t *)log)[(unsigned)rand() % 700] = (uint64_t)rand() * (uint64_t)rand();
        if (!strcmp(how, "address"))
            syscall(SYS_prctl, HEADWAY_REGISTER_TASKS_, i % 2 ? (long)-8 : 4096L, 1L, 0L, 0L);
        work(20000);
        syscall(SYS_getppid);
        if (strcmp(how, "random")) headway_task((uint64_t)i);
    }
    if (!strcmp(how, "unmapped")) {
        munmap(log, sizeof *log);
        work(1000000);
        syscall(SYS_getppid);
    }
    _exit(0);
}
