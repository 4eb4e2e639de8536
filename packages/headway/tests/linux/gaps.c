/* The gaps between status checks, as the eBPF programs judge them, for test_gaps.py. */
#include "polling/gaps.h"

enum gap judge(__u32 limit, __u32 alike, __u64 gap, __u64 before, __u64 slack)
{
	struct check check = {.gap = limit, .alike = alike};
	return judge_gap(&check, gap, before, slack);
}
