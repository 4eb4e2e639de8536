#include <dlfcn.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
static jmp_buf back;
__attribute__((noinline)) void leave(int n) { if (n) longjmp(back, 1); __asm__ volatile("" ::: "memory"); }
int main(int argc, char **argv)
{
    volatile int i, sum = 0;
    (void)argc;
    puts("ready");
    fflush(stdout);
    getchar();
    void *library = dlopen(argv[1], RTLD_NOW);
    int (*twice)(int) = dlsym(library, "twice"), (*deep)(int) = dlsym(library, "deep");
    for (i = 0; i < atoi(argv[2]); i++) sum += twice(i);
    sum += deep(9);
    for (i = 0; i < 6; i++) if (!setjmp(back)) leave(i % 2);
    return sum == -1;
}
