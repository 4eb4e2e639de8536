/* Formatting of text without a C library. */
#ifndef HEADWAY_TEXT_H
#define HEADWAY_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Format into `line`, at most `room` bytes without NUL; return the length. %s, %u, %x (eight digits), %U (64 bits). */
uint32_t text_format(char *line, uint32_t room, const char *format, __builtin_va_list values);

#endif
