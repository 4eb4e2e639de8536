#define _GNU_SOURCE
#include <linux/sched.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(void) {
    char *words[] = {"true", 0};
    struct clone_args how;
    pid_t child;
    if (posix_spawn(&child, "/bin/true", 0, 0, words, environ)) return 1;
    waitpid(child, 0, 0);
    if (!(child = vfork())) { execv("/bin/true", words); _exit(1); }
    waitpid(child, 0, 0);
    memset(&how, 0, sizeof how);
    how.exit_signal = SIGCHLD;
    if (!(child = syscall(SYS_clone3, &how, sizeof how))) { execv("/bin/true", words); _exit(1); }
    waitpid(child, 0, 0);
    return 0;
}
