#define _GNU_SOURCE
#include "report.h"
#include <dlfcn.h>
static int together;
static void *begin(void *function) {
    void *(*first)(void) = __extension__(void *(*)(void))function;
    __atomic_fetch_add(&together, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&together, __ATOMIC_SEQ_CST) < 4) {}
    return first();
}
static void *own(void) { headway_depth(); return headway_arena_; }
int main(int n, char **arguments) {
    (void)n;
    pthread_t ids[4];
    void *arenas[4];
    for (int i = 0; i < 4; i++) {
        void *library = i ? dlopen(arguments[i], RTLD_NOW | RTLD_LOCAL) : 0;
        void *function = i ? dlsym(library, "first") : __extension__(void *)own;
        pthread_create(&ids[i], 0, begin, function);
    }
    for (int i = 0; i < 4; i++) pthread_join(ids[i], &arenas[i]);
    printf("same=%d\n", arenas[0] && arenas[0] == arenas[1] && arenas[1] == arenas[2] && arenas[2] == arenas[3]);
    return 0;
}
