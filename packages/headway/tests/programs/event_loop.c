#include "polling.h"
int main(int argc, char **argv) { /* epoll over eight sockets, level- or edge-triggered; a child sends */
    int edge = !strcmp(argv[1], "edge"), pair[8][2], set = epoll_create1(0), left = 4000;
    char bytes[64];
    for (int i = 0; i < 8; i++) {
        struct epoll_event e = {.events = EPOLLIN | (edge ? EPOLLET : 0), .data.fd = i};
        socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair[i]);
        epoll_ctl(set, EPOLL_CTL_ADD, pair[i][0], &e);
    }
    if (!fork()) {
        for (int i = 0; i < left; i++) {
            while (send(pair[i % 8][1], bytes, 64, 0) < 0) usleep(100);
            if (i % 16 == 15) usleep(300);
        }
        _exit(0);
    }
    while (left) {
        struct epoll_event some[8];
        int n = epoll_wait(set, some, 8, -1);
        for (int i = 0; i < n; i++) {
            do {
                if (recv(pair[some[i].data.fd][0], bytes, 64, 0) < 0) break;
                left--;
                work(20000);
            } while (edge);
        }
    }
    wait(0);
    return 0;
}
