/* The gaps between status checks, as the eBPF programs judge them, for test_gaps.py. */
#include "polling/gaps.h"

_Bool goes_on(__u32 limit, __u32 alike, __u64 gap, __u64 before, __u64 slack)
{
	struct check check = {.gap = limit, .alike = alike};
	return goes_on_after(&check, gap, before, slack);
}

_Bool may_be(__u32 limit, __u32 alike, __u64 gap, __u64 slack)
{
	struct check check = {.gap = limit, .alike = alike};
	return may_be_gap(&check, gap, slack);
}
