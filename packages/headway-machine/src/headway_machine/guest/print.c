/* Printing from threads of the kernel. One line is one system call, so that lines of several threads do not mix. */

#include "headway_guest.h"
#include "text.h"

void hw_print(const char *format, ...)
{
    char line[120];
    __builtin_va_list values;
    __builtin_va_start(values, format);
    uint32_t length = text_format(line, sizeof line, format, values);
    __builtin_va_end(values);
    hw_write(line, length);
}
