/* Works for a moment in each of the contexts that a file has: the size of its attributes, and 1024 bytes. */
#include "otel_library.c"
int main(int n, char **arguments) {
    static const char *const keys[] = {"user_id", "http_route", "http.route", 0};
    static struct context record, fresh;
    FILE *file = fopen(arguments[n - 1], "rb");
    if (!file) return 2;
    publish("tls_v1", keys);
    until_seen();
    uint16_t size;
    uint8_t attributes[1024];
    for (uint64_t span = 1; fread(&size, 2, 1, file) == 1 && fread(attributes, 1024, 1, file) == 1; span++) {
        set_context(&fresh, 9, span);
        memcpy(fresh.attributes, attributes, 1024);
        fresh.size = size;
        fresh.valid = record.valid = 0;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        record = fresh;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        record.valid = 1;
        work_in(&record, 20000);
    }
    attach(0);
    return 0;
}
