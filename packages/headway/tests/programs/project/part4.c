#define PART 4
#include "part.h"
