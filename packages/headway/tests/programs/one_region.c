/* Regions of one tag, of a microsecond, with as much between them. */
#include "marking.h"
int main(int argc, char **argv) {
    long until = now() + (argc > 1 ? atol(argv[1]) : 100) * 1000000L;
    headway_tag_t only = headway_tag("only");
    while (now() < until) {
        work(1000);
        headway_set_noneffective(only);
        work(1000);
        headway_clear_noneffective();
    }
    return 0;
}
