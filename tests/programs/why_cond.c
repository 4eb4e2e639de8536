#include "causes.h"
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; pthread_cond_t cond = PTHREAD_COND_INITIALIZER; int turn;
static void *wait(void *none) {
    name("waiter"); pthread_mutex_lock(&lock);
    while (turn < 100) pthread_cond_wait(&cond, &lock);
    pthread_mutex_unlock(&lock); return 0;
}
int main(void) {
    pthread_t t; name("signaller"); pthread_create(&t, 0, wait, 0);
    for (int i = 0; i < 100; i++) { nap(5); pthread_mutex_lock(&lock); turn++; pthread_cond_signal(&cond);
                                   pthread_mutex_unlock(&lock); }
    pthread_join(t, 0); nap(600);
}
