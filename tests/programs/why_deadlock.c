#include "causes.h"
pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
pthread_barrier_t both;
static void *other(void *none) {
    name("other"); pthread_mutex_lock(&second); pthread_barrier_wait(&both); pthread_mutex_lock(&first); return 0;
}
int main(void) {
    pthread_t t; pthread_barrier_init(&both, 0, 2); pthread_mutex_lock(&first); pthread_create(&t, 0, other, 0);
    pthread_barrier_wait(&both); nap(50); puts("ready"); fflush(stdout);
    pthread_mutex_lock(&second); return 0;
}
