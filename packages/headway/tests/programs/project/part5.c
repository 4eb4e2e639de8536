#define PART 5
#include "part.h"
