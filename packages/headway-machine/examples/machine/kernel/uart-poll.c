/* Sends and receives by asking the UART for its status: the time between a "not ready" and the next "ready" is busy
 * waiting (IOPI). What it receives, and when, comes from uart.toml. */

#include "headway_guest.h"

static const char expected[] = "progress is not time\n";

int main(void)
{
    uint32_t wrong = 0;
    for (const char *c = "uart-poll: ready to receive\n"; *c; c++)
        hw_polled_put((uint8_t) *c);
    for (uint32_t at = 0; at < sizeof expected - 1; at++)
        wrong += hw_polled_get() != (uint8_t) expected[at];
    hw_print("uart-poll: %u bytes, %u wrong\n", (uint32_t) sizeof expected - 1, wrong);
    return wrong != 0;
}
