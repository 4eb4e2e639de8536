#include <headway.h>
#include <stdio.h>
static int leave(int how) {
    while (1) {
        HEADWAY_NONEFFECTIVE("outer") {
            HEADWAY_POLL("inner") {
                if (how == 0) return 1;
                if (how == 1) break;
            }
            if (how == 2) break;
            HEADWAY_STATE("render") if (how == 3) continue;
        }
        return 0;
    }
}
int main(void) {
    uint32_t i;
    headway_tag_t bare = headway_tag("bare"), named = headway_state_tag("bare");
    headway_set_noneffective(bare);
    headway_set_state(named);
    if (headway_depth() != 2) return 1;
    headway_clear_state();
    headway_clear_noneffective();
    leave(0); leave(1); leave(2); leave(3);
    if (headway_depth()) return 2;
    for (i = 0; i < headway_self_->n_tags; i++)
        printf("%s=%lu\n", headway_arena_->names[i], (unsigned long)headway_self_->tags[i].entries);
    return headway_self_->errors ? 3 : 0;
}
