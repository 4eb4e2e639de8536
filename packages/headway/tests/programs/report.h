#include <headway.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static inline void spin(uint64_t ns) { uint64_t end = headway_now_() + ns; while (headway_now_() < end) {} }
static inline void report_block(const char *title, struct headway_block *b) {
    printf("%s %u %u %u %u %u\n", title, b->tid, b->depth, b->open, b->errors, b->n_tags);
    for (uint32_t i = 0; i < b->n_tags; i++)
        if (b->tags[i].word || b->tags[i].entries)
            printf("- %s %lld %llu\n", headway_arena_->names[i], (long long)b->tags[i].word,
                   (unsigned long long)b->tags[i].entries);
    fflush(stdout);
}
static inline void report(const char *title) { headway_depth(); report_block(title, headway_self_); }
