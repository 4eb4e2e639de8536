/* Integer work on one hart. */

#include "bare.h"
#include "jobs.h"

int main(void)
{
    uint32_t sum = integer_run();
    bare_print("integer: %x, must be %x\n", sum, INTEGER_RIGHT);
    return sum != INTEGER_RIGHT;
}
