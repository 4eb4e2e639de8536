#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *wait(void *none) { pause(); return none; }
int main(void)
{
    pthread_t thread;
    pthread_create(&thread, 0, wait, 0);
    puts("ready");
    fflush(stdout);
    pthread_join(thread, 0);
}
