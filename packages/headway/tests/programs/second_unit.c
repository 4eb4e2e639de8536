#include <headway.h>
void *other(void);
void *other(void) { headway_depth(); return headway_self_; }
