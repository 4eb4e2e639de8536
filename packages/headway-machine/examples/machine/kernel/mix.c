/* The five jobs as threads; `mix_choice` says which of them run. Each has its stack and its data at addresses of its
 * own, whatever else runs, so what it executes is the same to the instruction, alone and beside any of the others. */

#include "headway_guest.h"
#include "jobs.h"

/* A bit for each of the jobs below. The host may overwrite it before the start. */
volatile uint32_t mix_choice = 31;

static uint32_t matmul(void *nothing)
{
    (void) nothing;
    matmul_fill();
    matmul_rows(0, 1);
    return matmul_sum();
}

static uint32_t chase(void *nothing)
{
    (void) nothing;
    chase_fill();
    return chase_walk(0);
}

static uint32_t integer(void *nothing)
{
    (void) nothing;
    return integer_run();
}

static uint32_t sort(void *nothing)
{
    (void) nothing;
    return sort_run();
}

static uint32_t crc32(void *nothing)
{
    (void) nothing;
    crc32_fill();
    crc32_blocks(0, 1);
    return crc32_sum();
}

static const struct {
    const char *name;
    uint32_t (*body)(void *);
    uint32_t right;
} jobs[] = {{"matmul", matmul, MATMUL_RIGHT},
            {"pointer-chase", chase, CHASE_RIGHT},
            {"integer", integer, INTEGER_RIGHT},
            {"sort", sort, SORT_RIGHT},
            {"crc32", crc32, CRC32_RIGHT}};
#define JOBS (sizeof jobs / sizeof *jobs)

static uint8_t stacks[JOBS][1024] __attribute__((aligned(64)));

int main(void)
{
    uint32_t id[JOBS] = {0}, wrong = 0, ran = 0;
    for (uint32_t job = 0; job < JOBS; job++)
        if (mix_choice >> job & 1)
            id[job] = hw_spawn_on(jobs[job].name, jobs[job].body, NULL, stacks[job] + sizeof stacks[job]);
    for (uint32_t job = 0; job < JOBS; job++)
        if (mix_choice >> job & 1) {
            wrong += hw_join(id[job]) != jobs[job].right;
            ran++;
        }
    hw_print("mix: %u jobs, %u wrong\n", ran, wrong);
    return wrong != 0;
}
