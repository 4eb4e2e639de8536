/* Parsing is marked as not being progress, waiting for a ring buffer as polling, and drawing as progress with a name.

   cc -O2 -pthread -I"$(python3 -c 'import headway; print(headway.get_include())')" regions.c -o regions
   headway stat -- ./regions */
#include <headway.h>

static volatile unsigned long sink;

static void work(unsigned long n) {
    for (unsigned long i = 0; i < n; i++) sink += i;
}

static int parse(int line) {
    HEADWAY_NONEFFECTIVE("parse") {
        work(200000);
        if (line % 2) return 1; /* leaves the region, too */
        work(200000);
    }
    return 0;
}

int main(void) {
    headway_tag_t ring = headway_poll_tag("ring"); /* looked up once */
    int found = 0;
    for (int line = 0; line < 500; line++) {
        found += parse(line);
        headway_set_noneffective(ring);
        work(100000);
        headway_clear_noneffective();
        HEADWAY_STATE("draw") work(400000);
        work(100000); /* progress without a name */
    }
    return found != 250;
}
