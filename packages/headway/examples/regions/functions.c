/* The marks as plain functions, for languages that cannot include a header. This is all there is to compile. */
#define HEADWAY_IMPLEMENTATION
#include <headway.h>
