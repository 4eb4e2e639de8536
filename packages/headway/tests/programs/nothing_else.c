#include "polling.h"
int main(void) {
    int pair[2];
    char byte;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    for (int i = 0; i < 500000; i++) if (recv(pair[0], &byte, 1, MSG_DONTWAIT) >= 0) return 1;
    return 0;
}
