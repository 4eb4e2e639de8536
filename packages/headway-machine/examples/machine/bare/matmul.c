/* Matrix product on all harts, a row at a time each. */

#include "bare.h"
#include "jobs.h"

int main(void)
{
    matmul_fill();
    bare_everywhere(matmul_rows);
    uint32_t sum = matmul_sum();
    bare_print("matmul: %x, must be %x\n", sum, MATMUL_RIGHT);
    return sum != MATMUL_RIGHT;
}
