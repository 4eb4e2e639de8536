/* Serves requests of three protocols over socket pairs, whose other ends it has itself. Prints how long it worked in those
 * of each, how long it was within them at most, and the same of the time between them. */
#include "marking.h"
#include <poll.h>
#include <sys/epoll.h>

static int client, server, events;
static long worked[4], within[4], began;

/* The client sends, and the server receives. */
static void ask(const char *text, int size) {
    char received[512];
    if (send(client, text, (size_t)size, 0) != size || recv(server, received, sizeof received, 0) != size) exit(1);
}

static void answer(void) {
    char received[64];
    if (send(server, "answer", 6, 0) != 6 || read(client, received, sizeof received) != 6) exit(1);
}

static void spend(int which, long ns) { worked[which] += work(ns); }

static void begin(void) { began = now(); }

static void end(int which) { within[which] += now() - began; }

static int message(char *to, char kind, const char *text, int size) { /* of PostgreSQL */
    int length = size + 4;
    to[0] = kind;
    for (int i = 0; i < 4; i++) to[1 + i] = (char)(length >> (24 - 8 * i));
    memcpy(to + 5, text, (size_t)size);
    return size + 5;
}

int main(void) {
    static const char *const none[] = {"GET no path", "get / HTTP/1.1", "*x\r\n$3\r\nget\r\n", "Q\0\0\0\0select", "", "hello, world"};
    char text[256];
    int ends[2], n = 100;
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) return 1;
    client = ends[0];
    server = ends[1];
    events = epoll_create1(0);
    struct epoll_event event;
    struct pollfd nothing = {events, 0, 0};
    for (int i = 0; i < n; i++) {
        begin();
        ask(text, snprintf(text, sizeof text, "GET /items/%d?size=%d HTTP/1.1\r\nHost: here\r\n\r\n", i, i));
        spend(0, 30000);
        poll(&nothing, 1, 0); /* unanswered: it goes on */
        spend(0, 20000);
        answer();
        spend(0, 10000);
        poll(&nothing, 1, 0);
        end(0);
        spend(3, 10000);
        begin();
        ask(text, snprintf(text, sizeof text, "*3\r\n$3\r\nset\r\n$3\r\nkey\r\n$1\r\n%d\r\n", i % 10));
        spend(1, 30000);
        epoll_wait(events, &event, 1, 0); /* unanswered: the loop goes on with others */
        end(1);
        spend(3, 10000);
        answer();
        begin();
        ask(text, message(text + 0, 'Q', "SELECT 1 FROM t", 16));
        spend(2, 30000);
        epoll_wait(events, &event, 1, 0); /* it waits for a lock */
        spend(2, 20000);
        answer();
        recv(server, text, sizeof text, MSG_DONTWAIT);
        end(2);
        spend(3, 10000);
        const char *wrong = none[i % 6];
        if (*wrong) ask(wrong, i % 6 == 3 ? 11 : (int)strlen(wrong));
        spend(3, 10000);
    }
    for (int i = 0; i < 4; i++) printf("%ld %ld ", worked[i], within[i]);
    printf("\n");
    return 0;
}
