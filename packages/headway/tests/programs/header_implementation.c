#define HEADWAY_IMPLEMENTATION
#include <headway.h>
