#include "causes.h"
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *wait(void *none) {
    name("waiter");
    for (int i = 0; i < 20; i++) { pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock); nap(2); }
    return 0;
}
static void *hold(void *none) {
    name("holder");
    for (int i = 0; i < 30; i++) { pthread_mutex_lock(&lock); nap(10); pthread_mutex_unlock(&lock); nap(1); }
    return 0;
}
int main(void) {
    pthread_t a, b;
    pthread_create(&b, 0, hold, 0); nap(2); pthread_create(&a, 0, wait, 0);
    pthread_join(a, 0); pthread_join(b, 0); nap(300);
}
