#include "polling.h"
static const char *how;
static void *spin(void *p) {
    int pair[2];
    char byte;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    for (long end = now() + 400000000L; now() < end;) {
        if (*how == 'y') sched_yield();
        else recv(pair[0], &byte, 1, MSG_DONTWAIT);
    }
    return p;
}
int main(int argc, char **argv) { /* two threads that poll, on one processor */
    pthread_t t[2];
    how = argv[1];
    stay_on(sched_getcpu());
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, spin, 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    return 0;
}
