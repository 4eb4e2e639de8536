#define PART 2
#include "part.h"
