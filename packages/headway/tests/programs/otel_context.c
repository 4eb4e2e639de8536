/* Works in contexts of OpenTelemetry: one with a name, one without, and in none, in two threads and in a child. Prints how
 * long on each, and for the first two how long it was within each at most. With an argument, the library that publishes them is loaded late. */
#include "otel_writer.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#ifdef LATE
static void (*attach_late)(struct context *);
void attach(struct context *context) { attach_late(context); }
#endif
static struct context named, plain, of_thread, of_child;
static void *thread(void *worked) {
    usleep(1000);
    *(long *)worked = work_in(&of_thread, 20000000);
    syscall(SYS_getppid);
    attach(0);
    return 0;
}
int main(int n, char **arguments) {
    (void)n, (void)arguments;
    static const char *const keys[] = {"user_id", "http.route", 0};
#ifdef LATE
    until_seen();
    void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return puts(dlerror()), 3;
    attach_late = __extension__(void (*)(struct context *))dlsym(library, "attach");
#endif
    publish("tls_v1", keys);
    set_context(&named, 77, 0x1111);
    add_attribute(&named, 0, "somebody");
    add_attribute(&named, 1, "/wrong");
    add_attribute(&named, 1, "/checkout");
    set_context(&plain, 78, 0x2222);
    set_context(&of_thread, 79, 0x3333);
    set_context(&of_child, 80, 0x4444);
    attach(0);
    until_seen();
    long first = 0, second = 0, none = 0, elsewhere = 0;
    long in_first = 0, in_second = 0;
    for (int i = 0; i < 100; i++) {
        long before = now();
        first += work_in(&named, 300000);
        usleep(300);
        long between = now(), worked = work_in(&plain, 200000);
        in_first += now() - worked - before;
        second += worked;
        worked = work_in(0, 100000);
        in_second += now() - worked - between;
        none += worked;
    }
    pthread_t id;
    pthread_create(&id, 0, thread, &elsewhere);
    pthread_join(id, 0);
    if (!fork()) {
        work_in(&of_child, 20000000);
        syscall(SYS_getppid);
        _exit(0);
    }
    wait(0);
    printf("%ld %ld %ld %ld %ld %ld\n", first, in_first, second, in_second, none, elsewhere);
    return 0;
}
