#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
static void touch(long n) { /* that many pages, for the first time */
    char *p = mmap(0, n * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(p, n * 4096, MADV_NOHUGEPAGE);
    for (long i = 0; i < n; i++) ((volatile char *)p)[i * 4096] = 1;
}
static void spin(long ms) {
    struct timespec t, start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do clock_gettime(CLOCK_MONOTONIC, &t);
    while ((t.tv_sec - start.tv_sec) * 1000 + (t.tv_nsec - start.tv_nsec) / 1000000 < ms);
}
static void *run(void *p) { touch((long)p); usleep(1000); return p; }
int main(int argc, char **argv) {
    const char *how = argv[1];
    long n = atol(argv[2]);
    pthread_t t;
    if (!strcmp(how, "touch")) touch(n);
    if (!strcmp(how, "spin")) spin(n);
    if (!strcmp(how, "sleep")) while (n--) usleep(100);
    if (!strcmp(how, "threads")) while (n--) { pthread_create(&t, 0, run, (void *)300L); pthread_join(t, 0); }
    if (!strcmp(how, "forks"))
        for (; n; n--) {
            if (!fork()) { prctl(PR_SET_NAME, "child"); touch(1000); _exit(0); }
            wait(0);
        }
    if (!strcmp(how, "slowly")) while (n--) { touch(50); spin(2); usleep(500); }
    return 0;
}
