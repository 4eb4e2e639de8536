#include <stdint.h>
extern uint32_t headway_tag(const char *), headway_poll_tag(const char *), headway_state_tag(const char *);
extern uint32_t headway_depth(void);
extern void headway_set_noneffective(uint32_t), headway_clear_noneffective(void), headway_restore(uint32_t);
extern void headway_set_state(uint32_t), headway_clear_state(void);
int main(void) {
    headway_set_noneffective(headway_tag("a"));
    headway_set_noneffective(headway_poll_tag("a"));
    if (headway_depth() != 2) return 1;
    headway_clear_noneffective();
    headway_set_state(headway_state_tag("a"));
    if (headway_depth() != 2) return 2;
    headway_clear_state();
    headway_restore(0);
    return (int)headway_depth();
}
