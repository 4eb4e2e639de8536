#define _GNU_SOURCE
#include "report.h"
#include <signal.h>
#include <sys/resource.h>
int main(int n, char **arguments) {
    sigset_t before, after;
    (void)arguments;
    if (n > 1) { struct rlimit none = {1 << 20, 1 << 20}; setrlimit(RLIMIT_AS, &none); }
    sigemptyset(&before); sigaddset(&before, SIGUSR1); sigprocmask(SIG_SETMASK, &before, 0);
    errno = 1234;
    headway_tag_t tag = headway_tag("a");
    int here = errno;
    headway_set_noneffective(tag);
    HEADWAY_POLL("p") {}
    uint32_t depth = headway_depth();
    headway_clear_noneffective();
    headway_clear_noneffective();
    headway_restore(0);
    int kept = errno == 1234 && here == 1234;
    printf("depth=%u\n", depth);
    printf("kept=%d\n", kept);
    sigprocmask(SIG_SETMASK, 0, &after);
    printf("mask=%d\n", sigismember(&after, SIGUSR1) && !sigismember(&after, SIGUSR2));
    printf("arena=%d\n", (uintptr_t)headway_arena_ > 1);
    return 0;
}
