/* Publishes contexts that are no contexts, in the way that its argument names; then a good one. */
#include "otel_library.c"
static struct context *at_the_end_of_a_page(void) {
    char *pages = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + 4096, 4096, PROT_NONE);
    return (struct context *)(pages + 4096 - 28);
}
int main(int n, char **arguments) {
    static const char *const keys[] = {"http.route", 0};
    static struct context bad, good;
    struct context *other = &bad;
    const char *how = n > 1 ? arguments[1] : "";
    set_context(&good, 1, 0x5555);
    set_context(&bad, 2, 0x6666);
    if (!strcmp(how, "unmapped")) other = (struct context *)0x10;
    else if (!strcmp(how, "kernel")) other = (struct context *)0xffff888000000000;
    else if (!strcmp(how, "odd")) other = (struct context *)((char *)&bad + 1);
    else if (!strcmp(how, "flag")) bad.valid = 2;
    else if (!strcmp(how, "no_trace")) memset(bad.trace_id, 0, 16);
    else if (!strcmp(how, "no_span")) memset(bad.span_id, 0, 8);
    else if (!strcmp(how, "cut")) {
        other = at_the_end_of_a_page();
        memcpy(other, &bad, 28);
        other->size = 600;
    } else if (!strcmp(how, "schema")) { }
    else return 2;
    publish(strcmp(how, "schema") ? "tls_v1" : "something_else_v9", keys);
    until_seen();
    for (int i = 0; i < 50; i++) {
        work_in(other, 200000);
        work_in(&good, 200000);
    }
    attach(0);
    return 0;
}
