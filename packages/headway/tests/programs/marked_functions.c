#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define KEPT __attribute__((noinline, noclone, used))
static long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}
static long work(long ns) {
    long start = now(), t;
    do t = now(); while (t < start + ns);
    return t - start;
}
static jmp_buf back;
KEPT long spend(long ns) { long took = work(ns); __asm__ volatile(""); return took; }
KEPT void brief(void) { __asm__ volatile(""); }
KEPT long deep(long n) { long took = work(20000); if (n > 1) took += deep(n - 1); __asm__ volatile(""); return took; }
KEPT void jump(long ns) { work(ns); longjmp(back, 1); }
KEPT void leave(int how) {
    work(20000000);
    if (how == 0) _exit(0);
    if (how == 1) execl("/proc/self/exe", "again", "outside", (char *)0);
    if (how == 2) syscall(SYS_exit, 0);
}
KEPT void calls(void) { for (int i = 0; i < 3; i++) syscall(SYS_getppid); __asm__ volatile(""); }
KEPT void jump_through(long ns) { jump(ns); __asm__ volatile(""); }
#if defined(__x86_64__)
// It calls others and has no stack frame of its own, as some compilers make it.
void frameless(void);
static void work_long(void) { work(1000000); }
__asm__(".text; .globl frameless; .type frameless, @function; frameless: call brief; call *work_in_frameless(%rip); call brief; ret;"
        ".size frameless, . - frameless");
__attribute__((used)) static void (*work_in_frameless)(void) = work_long;
#endif
static void *run(void *p) { for (int i = 0; i < 50; i++) spend(100000); return p; }
static void *go(void *p) { leave(2); return p; }
static void *act(void *p) {
    const char *how = p;
    long took = 0;
    pthread_t t[8];
    if (!strcmp(how, "share")) {
        for (int i = 0; i < 500; i++) { took += spend(200000); work(200000); }
    } else if (!strcmp(how, "calls")) {
        for (int i = 0; i < 200; i++) calls();
    } else if (!strcmp(how, "through")) {
        for (int i = 0; i < 20; i++) {
            if (!setjmp(back)) jump_through(100000);
            syscall(SYS_getppid);
            work(1000000);
        }
#if defined(__x86_64__)
    } else if (!strcmp(how, "frameless")) {
        for (int i = 0; i < 50; i++) frameless();
#endif
    } else if (!strncmp(how, "deep ", 5)) {
        for (int i = 0; i < 20; i++) { took += deep(atoi(how + 5)); work(100000); }
    } else if (!strcmp(how, "jump")) {
        for (volatile int i = 0; i < 20; i++) {
            if (!setjmp(back)) jump(1000000);
            brief();
            work(2000000);
        }
    } else if (!strcmp(how, "threads")) {
        for (int i = 0; i < 8; i++) pthread_create(&t[i], 0, run, 0);
        for (int i = 0; i < 8; i++) pthread_join(t[i], 0);
    } else if (!strcmp(how, "exit")) {
        leave(0);
    } else if (!strcmp(how, "exec")) {
        leave(1);
    } else if (!strcmp(how, "outside")) {
        work(40000000);
    } else if (!strcmp(how, "end")) {
        pthread_create(t, 0, go, 0);
        pthread_join(*t, 0);
    } else if (!strcmp(how, "poll")) {
        int pair[2];
        char byte;
        socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
        for (int i = 0; i < 5000; i++) { recv(pair[0], &byte, 1, MSG_DONTWAIT); brief(); }
    } else {
        puts("ready");
        fflush(stdout);
        for (;;) { spend(200000); work(200000); }
    }
    printf("%ld\n", took);
    return 0;
}
static void *act_in_thread(void *how) {
    prctl(PR_SET_NAME, how);
    return act(how);
}
// What it is to do: one thing itself, or one after the other, each in a thread that has its name.
int main(int argc, char **argv) {
    if (argc == 2) act(argv[1]);
    for (int i = 1; argc > 2 && i < argc; i++) {
        pthread_t t;
        pthread_create(&t, 0, act_in_thread, argv[i]);
        pthread_join(t, 0);
    }
    return 0;
}
