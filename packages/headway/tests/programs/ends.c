#include "polling.h"
static int pair[2];
static char byte;
static volatile long *checks; /* shared with the children */
static void spin(long n) { for (; n; n--) { recv(pair[0], &byte, 1, MSG_DONTWAIT); ++*checks; } }
static void *thread(void *p) { spin(5000); syscall(SYS_exit, 0); return p; }
int main(int argc, char **argv) { /* ends, each way, in the midst of a row */
    pthread_t t;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    checks = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_create(&t, 0, thread, 0);
    pthread_join(t, 0);
    if (!fork()) { spin(5000); syscall(SYS_kill, getpid(), 9); }
    wait(0);
    if (!fork()) { spin(5000); *(volatile int *)8 = 1; }
    wait(0);
    *checks = 0;
    pid_t child = fork();
    if (!child) spin(-1);
    while (*checks < 5000) usleep(1000);
    syscall(SYS_kill, child, 9);
    wait(0);
    if (!fork()) { spin(5000); execl("/bin/true", "executed", (char *)0); }
    wait(0);
    spin(5000);
    return 0;
}
