/* For each word in argv a child, named by its place, that makes a call for each letter of the word. */
#include "polling.h"
#include <linux/futex.h>
#include <poll.h>
#include <sys/prctl.h>
static int call(char letter, int *quiet, int *filled) {
    char byte;
    int word = 0;
    struct pollfd one = {.fd = quiet[0], .events = POLLIN};
    struct timespec none = {0, 0}, soon = {0, 50000}, late = {0, 30000000}, t;
    switch (letter) {
    case 'p': return syscall(SYS_ppoll, &one, 1, &none, 0, 8) == 0;
    case 'r': return recv(quiet[0], &byte, 1, MSG_DONTWAIT) < 0;
    case 'R': return recv(filled[0], &byte, 1, MSG_DONTWAIT) == 1;
    case 'c': return syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &t) == 0;
    case 'g': return syscall(SYS_getpid) > 0;
    case 't': return syscall(SYS_gettid) > 0;
    case 'u': return syscall(SYS_getuid) >= 0;
    case 'm': return syscall(SYS_madvise, 0, 0, MADV_NORMAL) == 0;
    case 's': return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &soon, 0) == 0;
    case 'S': return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &late, 0) == 0;
    case 'l': return syscall(SYS_pselect6, 0, 0, 0, 0, &soon, 0) == 0;
    case 'f': return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &soon, 0, 0) < 0 && errno == ETIMEDOUT;
    case 'F': return syscall(SYS_futex, &word, FUTEX_WAIT, 1, &soon, 0, 0) < 0 && errno == EAGAIN;
    case 'w': return syscall(SYS_fcntl, quiet[0], F_GETFD) >= 0;
    }
    return 0;
}
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        pid_t child = fork();
        if (!child) {
            int quiet[2], filled[2];
            char name[16], bytes[256] = "";
            snprintf(name, sizeof name, "script %d", i - 1);
            prctl(PR_SET_NAME, name);
            socketpair(AF_UNIX, SOCK_STREAM, 0, quiet);
            socketpair(AF_UNIX, SOCK_STREAM, 0, filled);
            if (write(filled[1], bytes, sizeof bytes) != sizeof bytes) _exit(2);
            for (const char *letter = argv[i]; *letter; letter++)
                if (!call(*letter, quiet, filled)) _exit(1);
            _exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status) return 1;
    }
    return 0;
}
