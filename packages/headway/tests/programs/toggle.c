#include "marking.h"
static long spin(long before) { /* for the shortest time that it took so far, or that it takes now */
    long start = now(), took;
    for (volatile int j = 0; j < 200; j++) ;
    took = now() - start;
    return took < before ? took : before;
}
int main(int argc, char **argv) { /* in and out, as fast as it can; says how often, and the shortest time in each part */
    long end = now() + atol(argv[1]) * 1000000, n = 0, in_a = 1L << 62, in_b = in_a, outside = in_a;
    headway_tag_t a = headway_tag("a"), b = headway_poll_tag("b");
    if (argc > 2) { puts("ready"); fflush(stdout); }
    while (now() < end) {
        for (int i = 0; i < 200; i++, n++) {
            headway_set_noneffective(a);
            in_a = spin(in_a);
            headway_set_noneffective(b);
            in_b = spin(in_b);
            headway_clear_noneffective();
            headway_clear_noneffective();
            outside = spin(outside);
        }
    }
    printf("%ld %ld %ld %ld\n", n, in_a, in_b, outside);
    return 0;
}
