#define _GNU_SOURCE
#include "report.h"
static pthread_barrier_t together;
static struct headway_block *blocks[4096];
static void *live(void *number) {
    headway_set_noneffective(headway_tag("t"));
    blocks[(size_t)number] = headway_self_;
    pthread_barrier_wait(&together);
    pthread_barrier_wait(&together);
    headway_clear_noneffective();
    return 0;
}
static void *brief(void *none) { headway_set_noneffective(headway_tag("t")); return none; }
static void *late(void *none) { headway_depth(); report("late"); return none; }
int main(int n, char **arguments) {
    (void)n;
    size_t count = (size_t)atoi(arguments[1]), served = 0, twice = 0;
    static pthread_t ids[4096];
    pthread_attr_t small; pthread_attr_init(&small); pthread_attr_setstacksize(&small, 65536);
    pthread_barrier_init(&together, 0, (unsigned)count + 1);
    headway_depth();
    for (size_t i = 0; i < count; i++) if (pthread_create(&ids[i], &small, live, (void *)i)) return 1;
    pthread_barrier_wait(&together);
    for (size_t i = 0; i < count; i++) served += (uintptr_t)blocks[i] > 1;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i && (uintptr_t)blocks[i] > 1; k++) twice += blocks[i] == blocks[k];
    pthread_barrier_wait(&together);
    for (size_t i = 0; i < count; i++) pthread_join(ids[i], 0);
    printf("served=%zu\ntwice=%zu\nrefused=%u\n", served, twice, headway_arena_->refused_threads);
    printf("used=%u\n", headway_arena_->used);
    for (int i = 0; i < 2000; i++) { pthread_create(&ids[0], &small, brief, 0); pthread_join(ids[0], 0); }
    printf("used_later=%u\n", headway_arena_->used);
    pthread_create(&ids[0], &small, late, 0); pthread_join(ids[0], 0);
    return 0;
}
