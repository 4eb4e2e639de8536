#include "causes.h"
pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile pid_t waiting; /* the thread, when it wants the lock */
static void *wait(void *none) {
    name("request");
    waiting = syscall(SYS_gettid);
    pthread_mutex_lock(&cache_lock);
    pthread_mutex_unlock(&cache_lock);
    return 0;
}
int main(void) {
    pthread_t request;
    name("refresher");
    pthread_mutex_lock(&cache_lock);
    pthread_create(&request, 0, wait, 0);
    while (!waiting) nap(1);
    until_asleep(waiting);
    nap(1000);
    pthread_mutex_unlock(&cache_lock);
    pthread_join(request, 0);
}
