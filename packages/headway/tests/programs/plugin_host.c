#include "report.h"
#include <dlfcn.h>
static void *library;
static void *thread(void *none) {
    void *(*enter)(void) = __extension__(void *(*)(void))dlsym(library, "enter");
    void *theirs = enter();
    headway_depth();
    printf("same_in_thread=%d\n", theirs == headway_self_);
    return none;
}
int main(int n, char **arguments) {
    (void)n;
    headway_set_noneffective(headway_tag("main"));
    library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
    void *(*enter)(void) = __extension__(void *(*)(void))dlsym(library, "enter");
    void (*leave)(void) = __extension__(void (*)(void))dlsym(library, "leave");
    printf("same=%d\n", enter() == headway_self_);
    report("inside");
    leave();
    pthread_t id;
    pthread_create(&id, 0, thread, 0); pthread_join(id, 0);
    dlclose(library);
    headway_clear_noneffective();
    if (!fork()) { headway_set_noneffective(0); report("child"); _exit(0); }
    wait(0);
    report("end");
    char line[4096]; int arenas = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) arenas += strstr(line, "/memfd:headway") != 0;
    printf("arenas=%d\n", arenas);
    return 0;
}
