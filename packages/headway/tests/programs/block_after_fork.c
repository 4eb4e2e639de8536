#define _GNU_SOURCE
#include "report.h"
static pthread_barrier_t together;
static void *other(void *none) {
    headway_set_noneffective(headway_tag("other"));
    pthread_barrier_wait(&together); pthread_barrier_wait(&together);
    return none;
}
static int others(void) {
    int n = 0;
    struct headway_block *b = (struct headway_block *)((char *)headway_arena_ + HEADWAY_BLOCKS_AT_);
    for (uint32_t i = 0; i < headway_arena_->used; i++) n += b[i].tid && &b[i] != headway_self_;
    return n;
}
int main(void) {
    pthread_t id;
    pthread_barrier_init(&together, 0, 2);
    pthread_create(&id, 0, other, 0);
    pthread_barrier_wait(&together);
    headway_set_noneffective(headway_tag("a"));
    spin(20000000);
    uint64_t forked = headway_now_();
    fflush(stdout);
    if (!fork()) {
        headway_clear_noneffective();
        uint64_t passed = headway_now_() - forked;
        report("child");
        printf("child_pid=%d\n", headway_arena_->pid == (uint32_t)getpid() && headway_self_->tid == (uint32_t)getpid());
        printf("child_others=%d\n", others());
        printf("child_passed=%llu\n", (unsigned long long)passed);
        printf("child_since=%d\n", headway_self_->since >= forked);
        fflush(stdout);
        _exit(0);
    }
    wait(0);
    report("parent");
    printf("others=%d\n", others());
    pthread_barrier_wait(&together);
    pthread_join(id, 0);
    return 0;
}
