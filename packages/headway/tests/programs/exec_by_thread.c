#include <pthread.h>
#include <unistd.h>
static void *run(void *p) { execl("/bin/sleep", "sleep", "0.1", (char *)0); return p; }
static void *wait_for_ever(void *p) { pause(); return p; }
int main(void) {
    pthread_t t;
    for (int i = 0; i < 3; i++) pthread_create(&t, 0, wait_for_ever, 0);
    usleep(20000);
    pthread_create(&t, 0, run, 0);
    pause();
}
