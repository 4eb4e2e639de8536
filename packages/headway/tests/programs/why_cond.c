#include "causes.h"
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; pthread_cond_t cond = PTHREAD_COND_INITIALIZER; int turn;
static volatile pid_t waiting;
static void *wait(void *none) {
    name("waiter"); waiting = syscall(SYS_gettid); pthread_mutex_lock(&lock);
    while (turn < 100) pthread_cond_wait(&cond, &lock);
    pthread_mutex_unlock(&lock); return 0;
}
int main(void) {
    pthread_t t; name("signaller"); pthread_create(&t, 0, wait, 0);
    while (!waiting) nap(1);
    until_asleep(waiting);
    for (int i = 0; i < 100; i++) { nap(1); pthread_mutex_lock(&lock); turn++; pthread_cond_signal(&cond);
                                   pthread_mutex_unlock(&lock); }
    pthread_join(t, 0); nap_until_seen(600);
}
