#include <headway.h>
void *first(void);
void *first(void) { headway_depth(); return headway_arena_; }
