/* The same as uart-poll by interrupts: the thread that receives is off the processor until there is something, and
 * another one works meanwhile. What it receives, and when, comes from uart.toml. */

#include "headway_guest.h"
#include "jobs.h"

static const char expected[] = "progress is not time\n";

static uint32_t receive(void *nothing)
{
    (void) nothing;
    char got[sizeof expected];
    uint32_t length = 0, wrong = 0;
    while (length < sizeof expected - 1)
        length += hw_read(got + length, sizeof expected - 1 - length);
    for (uint32_t at = 0; at < length; at++)
        wrong += got[at] != expected[at];
    return wrong;
}

static uint32_t work(void *nothing)
{
    (void) nothing;
    return sort_run() != SORT_RIGHT;
}

int main(void)
{
    static const char greeting[] = "uart-interrupt: ready to receive\n";
    uint32_t receiver = hw_spawn("receive", receive, NULL), worker = hw_spawn("work", work, NULL);
    hw_write(greeting, sizeof greeting - 1);
    uint32_t wrong = hw_join(receiver) + hw_join(worker);
    hw_print("uart-interrupt: %u bytes, %u wrong\n", (uint32_t) sizeof expected - 1, wrong);
    return wrong != 0;
}
