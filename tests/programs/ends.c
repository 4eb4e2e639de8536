#include "polling.h"
static int pair[2];
static char byte;
static void spin(long ns) { for (long end = now() + ns; now() < end;) recv(pair[0], &byte, 1, MSG_DONTWAIT); }
static void *thread(void *p) { spin(20000000L); syscall(SYS_exit, 0); return p; }
int main(int argc, char **argv) { /* ends, each way, in the midst of a row */
    pthread_t t;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    pthread_create(&t, 0, thread, 0);
    pthread_join(t, 0);
    if (!fork()) { spin(20000000L); syscall(SYS_kill, getpid(), 9); }
    wait(0);
    if (!fork()) { spin(20000000L); *(volatile int *)8 = 1; }
    wait(0);
    pid_t child = fork();
    if (!child) spin(60000000000L);
    usleep(100000);
    syscall(SYS_kill, child, 9);
    wait(0);
    if (!fork()) { spin(20000000L); execl("/bin/true", "executed", (char *)0); }
    wait(0);
    spin(20000000L);
    return 0;
}
