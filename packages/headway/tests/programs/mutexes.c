#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
struct { long other[2]; pthread_mutex_t lock; } account = {{1, 2}, PTHREAD_MUTEX_INITIALIZER};
static pthread_mutex_t hidden;
long large[40000];
pthread_mutex_t *on_heap, *mapped;
static void *take(void *mutex) { pthread_mutex_lock(mutex); return 0; }
int main(void)
{
    pthread_mutex_t local = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_t *all[5] = {&account.lock, &hidden, malloc(sizeof *on_heap), &local};
    pthread_t thread;
    all[4] = mmap(0, 1 << 22, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 5; i++) {
        if (i) pthread_mutex_init(all[i], 0);
        pthread_mutex_lock(all[i]);
        pthread_create(&thread, 0, take, all[i]);
        printf("%p ", (void *)all[i]);
    }
    printf("%p\n", (void *)&large[30000]);
    fflush(stdout);
    getchar();
    _Exit(0);
}
