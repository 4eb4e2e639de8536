/* A program without a kernel: machine mode, on all harts or on the first. */
#ifndef HEADWAY_BARE_H
#define HEADWAY_BARE_H

#include <stddef.h>
#include <stdint.h>

#include "machine.h"

/* The program: hart 0 runs it; what it returns is the exit status. */
int main(void);

/* How many harts there are. */
uint32_t bare_harts(void);

/* Run `work(part, parts)` once on every hart, and wait until all have done so. */
void bare_everywhere(void (*work)(uint32_t part, uint32_t parts));

/* To standard output by HTIF, in one piece of at most 120 bytes: %s, %u, %x (eight digits), %U (64 bits). */
void bare_print(const char *format, ...);

#endif
