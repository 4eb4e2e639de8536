#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <sys/wait.h>

static void burn(int ms) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    uint64_t end = t.tv_sec * 1000000000ull + t.tv_nsec + ms * 1000000ull;
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); while (t.tv_sec * 1000000000ull + t.tv_nsec < end);
}
static void *work(void *unused) { burn(150); return unused; }
int main(void) {
    pthread_t threads[4];
    getchar();
    for (int i = 0; i < 4; i++) { pthread_create(&threads[i], 0, work, 0); usleep(20000); }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    if (!fork()) { work(0); _exit(0); }
    wait(0);
    getchar();
    return 0;
}
