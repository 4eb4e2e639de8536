/* All harts walk through the same ring, each from a node of its own. */

#include "bare.h"
#include "jobs.h"

static uint32_t found[HARTS_MAX];

static void walk(uint32_t part, uint32_t parts)
{
    (void) parts;
    found[part] = chase_walk(part * 16);
}

int main(void)
{
    uint32_t wrong = 0;
    chase_fill();
    bare_everywhere(walk);
    for (uint32_t part = 0; part < bare_harts(); part++)
        wrong += found[part] != CHASE_RIGHT;
    bare_print("pointer-chase: %x, must be %x; wrong on %u of %u harts\n", found[0], CHASE_RIGHT, wrong, bare_harts());
    return wrong != 0;
}
