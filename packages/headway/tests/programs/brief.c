#include <pthread.h>
static volatile unsigned long sink;
__attribute__((noinline, noclone)) void *brief(void *unused) { for (volatile long i = 0; i < 4000000; i++) sink += i; return unused; }
int main(void)
{
    pthread_t one;
    for (int i = 0; i < 30; i++) { pthread_create(&one, 0, brief, 0); pthread_join(one, 0); }
    return 0;
}
