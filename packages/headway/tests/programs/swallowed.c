#include "polling.h"
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
int main(void) { /* a fault whose signal a debugger keeps back, between two checks in vain */
    int status;
    char byte, *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *page = 1;
    pid_t child = fork();
    if (!child) {
        int pair[2];
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        for (int i = 0; i < 20; i++) {
            recv(pair[0], &byte, 1, MSG_DONTWAIT);
            __asm__ volatile("movb $1, (%0)" : : "a"(8L) : "memory");
            work(5000000);
            recv(pair[0], &byte, 1, MSG_DONTWAIT);
        }
        _exit(0);
    }
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        struct user_regs_struct registers;
        ptrace(PTRACE_GETREGS, child, 0, &registers);
        registers.rax = (long)page;
        ptrace(PTRACE_SETREGS, child, 0, &registers);
        ptrace(PTRACE_CONT, child, 0, 0);
    }
    return status;
}
