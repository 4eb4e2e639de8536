/* Heap sort on one hart. */

#include "bare.h"
#include "jobs.h"

int main(void)
{
    uint32_t sum = sort_run();
    bare_print("sort: %x, must be %x\n", sum, SORT_RIGHT);
    return sum != SORT_RIGHT;
}
