#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static int late;
int clock_gettime(clockid_t clock, struct timespec *into) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, into);
    if (late) {
        for (volatile int i = 0; i < 20000; i++) ;
        syscall(SYS_getppid);
    }
    return status;
}
#include <headway.h>
int main(void) {
    headway_tag_t tag = headway_tag("late");
    for (int i = 0; i < 200; i++) {
        late = 0;
        headway_set_noneffective(tag);
        late = 1;
        headway_clear_noneffective();
        syscall(SYS_getppid);
    }
    return 0;
}
