/* An object with constructs of every kind, for the reader of objects (test_bpf_objects.py). No kernel loads it. */
#include "shared/kernel.h"
#pragma clang diagnostic ignored "-Wunused-parameter"
char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct { UINT(type, MAP_ARRAY); UINT(map_flags, F_MMAPABLE); UINT(max_entries, 1); TYPE(key, u32); TYPE(value, u64); }
	numbers SEC(".maps");
struct { UINT(type, MAP_RINGBUF); UINT(max_entries, 4096); } ring SEC(".maps");
const volatile struct { u8 first; u32 second; u64 third; } settings SEC(".rodata.settings");
u64 sum;

NOINLINE u64 inner(u64 n) { sum += n; return sum; }
__attribute__((noinline)) u64 outer(u64 n, void *where) { return inner(n + 1) + !where; }
static long (*const repeat)(u32, void *, void *, u64) = (void *)181;
static int body(u32 i, void *context) { sum += i; return 0; }
NOINLINE u64 lonely(u64 n) { return n * sum; }
__attribute__((noinline)) u64 not_called(u64 n) { return lonely(n); }

SEC("tp_btf/sched_switch") int at_switch(u64 *ctx) { return outer(ctx[0], NULL) > 5; }
SEC("perf_event") int at_event(void *ctx) { u32 k = 0; repeat(3,body,0,0); return !bpf_map_lookup_elem(&numbers, &k); }
SEC("perf_event") int at_other_event(void *ctx) { return settings.second; }
SEC("iter/task") int at_task(struct bpf_iter__task *ctx) { return !ctx->task; }
