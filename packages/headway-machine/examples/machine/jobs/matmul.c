/* The usual three loops. */

#include "jobs.h"

#define N 32

static uint32_t a[N][N], b[N][N], product[N][N];

void matmul_fill(void)
{
    uint32_t state = 1;
    for (uint32_t row = 0; row < N; row++)
        for (uint32_t column = 0; column < N; column++) {
            a[row][column] = next_number(&state) >> 8;
            b[row][column] = next_number(&state) >> 8;
        }
}

void matmul_rows(uint32_t part, uint32_t parts)
{
    for (uint32_t row = part; row < N; row += parts)
        for (uint32_t column = 0; column < N; column++) {
            uint32_t sum = 0;
            for (uint32_t k = 0; k < N; k++)
                sum += a[row][k] * b[k][column];
            product[row][column] = sum;
        }
}

uint32_t matmul_sum(void)
{
    uint32_t sum = 0;
    for (uint32_t place = 0; place < N * N; place++)
        sum += product[place / N][place % N] * (place + 1);
    return sum;
}
