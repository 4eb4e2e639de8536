/* Call chains that a walk by frame pointers does not get through: callbacks of the C library, signals on their own stack,
 * realigned frames, deep recursion, libraries that are loaded later, threads and forked processes. */
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CALLED __attribute__((noinline, noclone, noipa))

static volatile unsigned long sum;

static long now(void)
{
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return at.tv_sec * 1000000000L + at.tv_nsec;
}

CALLED void spin(void)
{
    long until = now() + 60000000;
    while (now() < until)
        for (int i = 0; i < 20000; i++)
            sum += i;
}

CALLED int compared(const void *a, const void *b)
{
    if (*(const int *)a == 1 && *(const int *)b == 2)
        spin();
    return *(const int *)a - *(const int *)b;
}

CALLED void sorted(void)
{
    int numbers[] = {1, 2};
    qsort(numbers, 2, sizeof(int), compared);
    sum += numbers[0];
}

CALLED void handler(int number)
{
    spin();
    sum += number;
}

CALLED void signalled(int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);
    sum++;
}

CALLED void on_own_stack(void)
{
    stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
    sigaltstack(&stack, NULL);
    signalled(SA_ONSTACK);
    sum++;
}

CALLED void aligned(size_t size)
{
    __attribute__((aligned(64))) char block[64];
    char *more = alloca(size);
    memset(block, 1, sizeof(block));
    memset(more, 2, size);
    spin();
    sum += block[size % 64] + more[size / 2];
}

CALLED void deep(int depth)
{
    if (depth)
        deep(depth - 1);
    else
        spin();
    sum++;
}

CALLED void slept(void)
{
    struct timespec time = {.tv_nsec = 5000000};
    nanosleep(&time, NULL);
    sum++;
}

CALLED void *threaded(void *nothing)
{
    spin();
    slept();
    return nothing;
}

CALLED void loaded_later(const char *library)
{
    void *handle = dlopen(library, RTLD_NOW);
    if (!handle)
        return;
    void (*call)(void (*)(void)) = (void (*)(void (*)(void)))dlsym(handle, "call_later");
    for (int i = 0; i < 8; i++) {
        usleep(200000); /* until the mapping is known */
        call(spin);
    }
    sum++;
}

CALLED void forked(void)
{
    pid_t child = fork();
    if (!child) {
        spin();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    sum++;
}

int main(int argc, char **argv)
{
    getchar(); /* until what is mapped is known */
    sorted();
    signalled(0);
    on_own_stack();
    aligned(1000);
    deep(90);
    slept();
    pthread_t thread;
    pthread_create(&thread, NULL, threaded, NULL);
    pthread_join(thread, NULL);
    forked();
    if (argc > 1)
        loaded_later(argv[1]);
    deep(200);
    printf("%lu\n", sum);
    return 0;
}
