/* Reading the arguments: the host gives all of them as one text. */

#include "arguments.h"

#include <stddef.h>

#define SYS_GET_CMDLINE 0x15
#define LONGEST 512

static uint32_t semihost(uint32_t operation, void *parameter)
{
    register uint32_t a0 __asm__("a0") = operation;
    register void *a1 __asm__("a1") = parameter;
    __asm__ volatile(".option push\n.option norvc\n"
                     "slli zero, zero, 0x1f\nebreak\nsrai zero, zero, 7\n"
                     ".option pop"
                     : "+r"(a0)
                     : "r"(a1)
                     : "memory");
    return a0;
}

/* Return what follows the name and `=` in the text; NULL if it begins otherwise. */
static const char *after_name(const char *text, const char *name)
{
    while (*name && *text == *name) {
        text++;
        name++;
    }
    return !*name && *text == '=' ? text + 1 : NULL;
}

static bool equal(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

static bool read_number(const char *text, uint32_t *value)
{
    uint32_t found = 0;
    if (!*text)
        return false;
    for (; *text; text++) {
        uint32_t digit = (uint32_t)(*text - '0');
        if (digit > 9 || found > (UINT32_MAX - digit) / 10)
            return false;
        found = 10 * found + digit;
    }
    *value = found;
    return true;
}

static bool read_value(const struct argument *argument, const char *text)
{
    if (!argument->words)
        return read_number(text, argument->value);
    for (uint32_t place = 0; argument->words[place]; place++)
        if (equal(text, argument->words[place])) {
            *argument->value = place;
            return true;
        }
    return false;
}

static bool understood(const char *text, const struct argument *known, uint32_t count)
{
    for (const struct argument *argument = known; argument < known + count; argument++) {
        const char *value = after_name(text, argument->name);
        if (value)
            return read_value(argument, value);
    }
    return false;
}

const char *arguments_read(const struct argument *known, uint32_t count)
{
    static char line[LONGEST];
    struct {
        char *text;
        uint32_t length;
    } block = {line, sizeof line};
    if (semihost(SYS_GET_CMDLINE, &block))
        return "";
    char *at = line;
    while (*at && *at != ' ') /* the program's name */
        at++;
    while (*at) {
        *at++ = 0;
        char *begin = at;
        while (*at && *at != ' ')
            at++;
        char end = *at;
        *at = 0;
        if (*begin && !understood(begin, known, count))
            return begin;
        *at = end;
    }
    return NULL;
}
