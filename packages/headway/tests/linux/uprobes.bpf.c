/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counts what arrives at probes, by the number that each was given when it was attached. */
#include "shared/kernel.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define PLACES 16


struct {
	u64 entries[PLACES], returns[PLACES];
} counts SEC(".bss.counts");

SEC("uprobe")
int at_entry(void *ctx)
{
	u64 place = bpf_get_attach_cookie(ctx);

	if (place < PLACES)
		__atomic_fetch_add(&counts.entries[place], 1, __ATOMIC_RELAXED);
	return 0;
}

SEC("uretprobe")
int at_return(void *ctx)
{
	u64 place = bpf_get_attach_cookie(ctx);

	if (place < PLACES)
		__atomic_fetch_add(&counts.returns[place], 1, __ATOMIC_RELAXED);
	return 0;
}
