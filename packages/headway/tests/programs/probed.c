/* Does work between static probes, as servers that know nothing of headway: statements within transactions, and requests.
 * Prints how long it worked in each, how long it was within each at most, and what the semaphore was while it did. */
#include "marking.h"
#include "probes.h"

SEMAPHORE(shop_statement__start_semaphore);

static long worked[4], within[4];

/* Works, and notes how long on the program's own clock. */
static void spend(int which, long ns) {
    long began = now();
    worked[which] += work(ns);
    within[which] += now() - began;
}

static void statement(const char *text, int which, int reaches_end) {
    PROBE2("shop", "statement__start", "shop_statement__start_semaphore", text, text + 1);
    spend(which, 100000);
    if (reaches_end) PROBE("shop", "statement__done");
}

int main(void) {
    char text[300], path[64];
    int n = 200, seen = 0;
    for (int i = 0; i < n; i++) {
        seen += shop_statement__start_semaphore > 0;
        PROBE("shop", "transaction__start");
        spend(0, 50000);
        snprintf(text, sizeof text, "SELECT  name\n FROM items_2 WHERE id IN (%d, %d) AND shop = 'it''s %d'", i, 7 * i, i);
        statement(text, 1, 1);
        spend(0, 50000);
        statement("begin", 2, 0); /* fails: it never reaches its end */
        PROBE("shop", "transaction__done");
        spend(3, 50000);
        snprintf(path, sizeof path, "/items/%d/photos/9f86d081-884c-7d65-%04x?size=%d", i, i, i);
        PROBE2("shop", "request__start", "0", "GET", path);
        spend(3, 20000);
        PROBE2("shop", "request__start", "0", (char *)0, ""); /* nothing, until the next one */
        spend(3, 20000);
    }
    PROBE2("shop", "bad", "0", (char *)16, ""); /* a text that cannot be read */
    spend(3, 20000);
    for (int i = 0; i < 4; i++) printf("%ld %ld ", worked[i], within[i]);
    printf("%d\n", seen);
    return 0;
}
