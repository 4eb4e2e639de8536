#define PART 0
#include "part.h"
