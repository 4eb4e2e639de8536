#include <headway.h>
void *enter(void);
void leave(void);
void *enter(void) { headway_set_noneffective(headway_tag("plugin")); return headway_self_; }
void leave(void) { headway_clear_noneffective(); }
