/* Formatting of text without a C library. It needs no 64-bit division and no memory of its own. */

#include "text.h"

static uint32_t put(char *line, uint32_t length, uint32_t room, char c)
{
    if (length < room)
        line[length++] = c;
    return length;
}

/* Write the digits, lowest first, by long division in pieces of 16 bits. */
static uint32_t digits(uint64_t value, char *reversed)
{
    uint32_t count = 0;
    do {
        uint32_t piece[4] = {(uint32_t)(value >> 48), (uint32_t)(value >> 32) & 0xFFFF, (uint32_t) value >> 16,
                             (uint32_t) value & 0xFFFF};
        uint32_t rest = 0;
        for (uint32_t at = 0; at < 4; at++) {
            uint32_t part = rest << 16 | piece[at];
            piece[at] = part / 10;
            rest = part % 10;
        }
        value = (uint64_t)(piece[0] << 16 | piece[1]) << 32 | (piece[2] << 16 | piece[3]);
        reversed[count++] = (char) ('0' + rest);
    } while (value);
    return count;
}

uint32_t text_format(char *line, uint32_t room, const char *format, __builtin_va_list values)
{
    uint32_t length = 0;
    char reversed[20];
    for (; *format; format++) {
        if (*format != '%') {
            length = put(line, length, room, *format);
            continue;
        }
        switch (*++format) {
        case 's':
            for (const char *from = __builtin_va_arg(values, const char *); *from; from++)
                length = put(line, length, room, *from);
            break;
        case 'x': {
            uint32_t value = __builtin_va_arg(values, uint32_t);
            for (int shift = 28; shift >= 0; shift -= 4)
                length = put(line, length, room, "0123456789abcdef"[value >> shift & 15]);
            break;
        }
        case 'u':
        case 'U': {
            uint64_t value = *format == 'U' ? __builtin_va_arg(values, uint64_t) : __builtin_va_arg(values, uint32_t);
            for (uint32_t count = digits(value, reversed); count--;)
                length = put(line, length, room, reversed[count]);
            break;
        }
        default:
            length = put(line, length, room, *format);
        }
    }
    return length;
}

/* Functions that the compiler may call by itself. */
void *memcpy(void *to, const void *from, size_t length)
{
    uint8_t *out = to;
    const uint8_t *in = from;
    while (length--)
        *out++ = *in++;
    return to;
}

void *memset(void *to, int value, size_t length)
{
    uint8_t *out = to;
    while (length--)
        *out++ = (uint8_t) value;
    return to;
}
