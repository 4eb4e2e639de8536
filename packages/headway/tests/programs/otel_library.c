/* What publishes the contexts of threads: a library, or a part of the program. */
#include "otel_writer.h"
__attribute__((visibility("default"))) __thread struct context *otel_thread_ctx_v1;
__attribute__((visibility("default"))) void attach(struct context *context) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    *(struct context *volatile *)&otel_thread_ctx_v1 = context;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}
