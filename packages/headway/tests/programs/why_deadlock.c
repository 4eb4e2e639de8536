#include "causes.h"
pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static volatile pid_t waiting;
static void *other(void *none) {
    name("other"); pthread_mutex_lock(&second); waiting = syscall(SYS_gettid); pthread_mutex_lock(&first); return 0;
}
int main(void) {
    pthread_t t; pthread_mutex_lock(&first); pthread_create(&t, 0, other, 0);
    while (!waiting) nap(1);
    until_asleep(waiting); puts("ready"); fflush(stdout);
    pthread_mutex_lock(&second); return 0;
}
