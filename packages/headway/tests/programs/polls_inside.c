#include "marking.h"
int main(void) { /* a row of checks within a region, of one thing and of two in turn */
    int pair[2][2];
    char byte;
    for (int i = 0; i < 2; i++) socketpair(AF_UNIX, SOCK_STREAM, 0, pair[i]);
    HEADWAY_NONEFFECTIVE("around") {
        for (int two = 0; two < 2; two++)
            for (int i = 0; i < 20000; i++) {
                recv(pair[i & two][0], &byte, 1, MSG_DONTWAIT);
                work(2000);
            }
        work(5000000);
    }
    return 0;
}
