/* The interface for a program without a kernel: in machine mode, on all harts or on the first. */
#ifndef HEADWAY_BARE_H
#define HEADWAY_BARE_H

#include <stddef.h>
#include <stdint.h>

#include "machine.h"

/* The program. Hart 0 runs it; its result is the exit status. */
int main(void);

/* Return the number of harts. */
uint32_t bare_harts(void);

/* Run `work(part, parts)` once on every hart, and wait until all have done so. */
void bare_everywhere(void (*work)(uint32_t part, uint32_t parts));

/* Print to standard output by HTIF, at most 120 bytes in one call: %s, %u, %x (eight digits), %U (64 bits). */
void bare_print(const char *format, ...);

#endif
