#include "marking.h"
int main(int argc, char **argv) { /* in and out, as fast as it can */
    long end = now() + atol(argv[1]) * 1000000, in = 0, n = 0;
    headway_tag_t a = headway_tag("a"), b = headway_poll_tag("b");
    if (argc > 2) { puts("ready"); fflush(stdout); }
    while (now() < end) {
        for (int i = 0; i < 200; i++, n++) {
            headway_set_noneffective(a);
            for (volatile int j = 0; j < 200; j++) ;
            headway_set_noneffective(b);
            for (volatile int j = 0; j < 200; j++) ;
            headway_clear_noneffective();
            headway_clear_noneffective();
            for (volatile int j = 0; j < 200; j++) ;
        }
    }
    printf("%ld\n", n);
    return in;
}
