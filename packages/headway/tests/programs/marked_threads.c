#include "marking.h"
static void *run(void *p) {
    long took = 0;
    for (int i = 0; i < 20; i++) {
        HEADWAY_NONEFFECTIVE("shared") took += work(100000);
        work(100000);
    }
    HEADWAY_NONEFFECTIVE("last") { work(1000000); if ((long)p & 1) pthread_exit(0); syscall(SYS_exit, 0); }
    return p;
}
int main(void) {
    pthread_t t[48];
    for (long i = 0; i < 48; i++) pthread_create(&t[i], 0, run, (void *)i);
    for (long i = 0; i < 48; i++) pthread_join(t[i], 0);
    return 0;
}
