#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static volatile unsigned long sink;
static long laps = 12;
__attribute__((noinline, noclone)) void spin(volatile long n) { for (volatile long i = 0; i < n; i++) sink += i; sink++; }
__attribute__((noinline, noclone)) void often(void) { spin(3000000); sink++; }
__attribute__((noinline, noclone)) void seldom(void) { spin(1000000); sink++; }
__attribute__((noinline, noclone)) void nap(void) { usleep(3000); sink++; }
__attribute__((noinline, noclone)) void *work(void *unused) { for (int i = 0; i < laps; i++) { often(); seldom(); nap(); } return unused; }
__attribute__((noinline, noclone)) void deep(int n) { if (n) deep(n - 1); else for (int i = 0; i < 10; i++) often(); sink++; }
int main(int argc, char **argv)
{
    pthread_t other;
    if (argc > 2) laps = atoi(argv[2]);
    else if (argc > 1) { deep(atoi(argv[1])); return 0; }
    pthread_create(&other, 0, work, 0);
    work(0);
    pthread_join(other, 0);
    return 0;
}
