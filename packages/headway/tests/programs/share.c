#include "polling.h"
int main(int argc, char **argv) { /* rounds of checks in vain with pauses, then work; ns */
    int k = atoi(argv[1]), pair[2];
    long pause = atol(argv[2]), share = atol(argv[3]), polled = 0, all = 0;
    char byte;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    for (int i = 0; i < 1500; i++) {
        long start = now(), last = start, t;
        for (int j = 0; j < k; j++) {
            if (recv(pair[0], &byte, 1, MSG_DONTWAIT) > 0) return 1;
            work(pause);
            t = now();
            if (t - last < 20000) polled += t - last, all += t - last; /* else it was interrupted, and a new row */
            last = t;
        }
        if (send(pair[1], &byte, 1, 0) != 1 || recv(pair[0], &byte, 1, MSG_DONTWAIT) != 1) return 1;
        work(share);
    }
    printf("%ld\n", polled);
    return 0;
}
