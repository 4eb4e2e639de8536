#include "report.h"
int main(void) {
    char name[16];
    printf("same=%d\n", headway_tag("p") == headway_tag("p"));
    printf("apart=%d\n", headway_tag("p") != headway_poll_tag("p"));
    printf("empty=%d\n", headway_tag("") == 0 && headway_tag(0) == 0);
    printf("named=%u\n", headway_state_tag("p"));
    printf("no_name=%d\n", !strcmp(headway_arena_->names[headway_state_tag("")], "user.unnamed"));
    headway_tag("sp ace/\xc3\xa4\n"); headway_tag("0123456789012345678901234567890123456789"); headway_poll_tag("");
    for (uint32_t i = 0; i < headway_arena_->n_tags; i++) printf("%s=%u\n", headway_arena_->names[i], i);
    for (int i = 0; i < 40; i++) { snprintf(name, sizeof name, "t%d", i); headway_tag(name); }
    printf("n=%u\n", headway_arena_->n_tags);
    headway_tag_t none = headway_state_tag("too many");
    headway_set_noneffective(1);
    headway_set_state(none);
    printf("around=%d\n", headway_depth() == 2 && headway_self_->open == 2);
    headway_clear_state();
    headway_clear_noneffective();
    headway_set_state(none);
    printf("none=%u\n", headway_self_->open);
    headway_clear_state();
    printf("no_room=%d\n", none == headway_state_tag("still too many"));
    printf("refused=%u\n", headway_arena_->refused_tags);
    printf("%s=%u\n", headway_arena_->names[31], headway_tag("t39"));
    return 0;
}
