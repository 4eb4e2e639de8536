#include <headway.h>
int main(void) {
    HEADWAY_NONEFFECTIVE("a") { HEADWAY_POLL("b") { headway_set_noneffective(headway_tag("c")); } }
    HEADWAY_STATE("d") { headway_set_state(headway_state_tag("e")); headway_clear_state(); }
    headway_clear_noneffective();
    headway_restore(0);
    return (int)(headway_depth() + headway_poll_tag("d"));
}
