/* Threads work on tasks of one name, and end while they do, in two ways. */
#include "marking.h"
static void *run(void *p) {
    headway_named_task((uint64_t)(long)p + 1, headway_task_name("shared"));
    work(2000000);
    if ((long)p & 1) pthread_exit(0);
    syscall(SYS_exit, 0);
    return p;
}
int main(void) {
    pthread_t t[24];
    for (long i = 0; i < 24; i++) pthread_create(&t[i], 0, run, (void *)i);
    for (long i = 0; i < 24; i++) pthread_join(t[i], 0);
    return 0;
}
