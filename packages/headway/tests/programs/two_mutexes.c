#include "causes.h"
/* Two locks. At each, a thread waits 20 times for another one, which sleeps while it holds the lock. Prints their addresses. */
#include <stdio.h>
static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static const char *const waiters[] = {"waiter-0", "waiter-1"}, *const holders[] = {"holder-0", "holder-1"};
static void *wait(void *which) {
    long n = (long)which;
    name(waiters[n]);
    for (int i = 0; i < 20; i++) { pthread_mutex_lock(&locks[n]); pthread_mutex_unlock(&locks[n]); nap(2); }
    return 0;
}
static void *hold(void *which) {
    long n = (long)which;
    name(holders[n]);
    for (int i = 0; i < 30; i++) { pthread_mutex_lock(&locks[n]); nap(5); pthread_mutex_unlock(&locks[n]); nap(1); }
    return 0;
}
int main(void) {
    pthread_t threads[4];
    printf("%p %p\n", (void *)&locks[0], (void *)&locks[1]);
    fflush(stdout);
    for (long n = 0; n < 2; n++) {
        pthread_create(&threads[n], 0, hold, (void *)n);
        nap(2);
        pthread_create(&threads[2 + n], 0, wait, (void *)n);
    }
    for (int n = 0; n < 4; n++) pthread_join(threads[n], 0);
}
