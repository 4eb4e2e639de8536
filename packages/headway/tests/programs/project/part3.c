#define PART 3
#include "part.h"
