#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_barrier_t all;
static void *wait(void *p) { pthread_barrier_wait(&all); return p; }
int main(int argc, char **argv) {
    int n = atoi(argv[1]);
    pthread_t t[n];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 32768);
    pthread_barrier_init(&all, 0, n + 1);
    for (int i = 0; i < n; i++) if (pthread_create(&t[i], &small, wait, 0)) return 1;
    pthread_barrier_wait(&all);
    for (int i = 0; i < n; i++) pthread_join(t[i], 0);
    return 0;
}
