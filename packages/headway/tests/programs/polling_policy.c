/* The policy of headway_polling.h as a library: plain functions, and the size of what they keep. */
#define HEADWAY_IMPLEMENTATION
#include <headway_polling.h>
#include <stddef.h>

size_t size_of_polling(void) { return sizeof(struct headway_polling); }
size_t size_of_usual(void) { return sizeof(struct headway_polling_usual); }
