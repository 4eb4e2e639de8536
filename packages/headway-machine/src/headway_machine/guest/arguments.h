/* The program's arguments, each NAME=VALUE, from the machine's command line (docs/machine.md, "Semihosting"). */
#ifndef HEADWAY_ARGUMENTS_H
#define HEADWAY_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

/* An argument that the program knows: a number, or one of some words (NULL after the last), whose place is the number. */
struct argument {
    const char *name;
    uint32_t *value;
    const char *const *words; /* NULL: a number */
};

/* Read the arguments into their values. What is not given keeps its value. Return NULL, or the argument that is none of
 * these, or has no such value; "" if the command line is too long. */
const char *arguments_read(const struct argument *known, uint32_t count);

#endif
