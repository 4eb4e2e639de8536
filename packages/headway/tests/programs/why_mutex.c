#include "causes.h"
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile pid_t held, waiting; /* the threads, when they hold the lock, and want it */
static void *wait(void *none) {
    name("waiter");
    waiting = syscall(SYS_gettid);
    for (int i = 0; i < 20; i++) { pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock); nap(2); }
    return 0;
}
static void *hold(void *none) {
    name("holder");
    for (int i = 0; i < 30; i++) {
        pthread_mutex_lock(&lock);
        held = syscall(SYS_gettid);
        while (!waiting) nap(1);
        if (!i) until_asleep(waiting);
        nap(5);
        pthread_mutex_unlock(&lock);
        nap(1);
    }
    return 0;
}
int main(void) {
    pthread_t a, b;
    pthread_create(&b, 0, hold, 0);
    while (!held) nap(1);
    pthread_create(&a, 0, wait, 0);
    pthread_join(a, 0); pthread_join(b, 0); nap_until_seen(300);
}
