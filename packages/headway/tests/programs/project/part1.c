#define PART 1
#include "part.h"
