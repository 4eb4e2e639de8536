/* The clocks of processors and the division of time ready, as the eBPF programs have them, for test_ready_parts.py. */
#include "scheduler/ready_parts.h"

enum { CPUS = 3, PROCESSES = 5 };

static struct run_clock clocks[CPUS];
static __u64 own[CPUS][PROCESSES];

void reset_clocks(void)
{
	__builtin_memset(clocks, 0, sizeof(clocks));
	__builtin_memset(own, 0, sizeof(own));
}

void switch_run(__u32 cpu, __u32 process, __u64 now, __u64 stolen)
{
	struct run_clock *clock = &clocks[cpu];
	clock->interrupts = switch_interrupts(clock->interrupts, now, 0);
	end_run(clock, clock->process < PROCESSES ? &own[cpu][clock->process] : 0, now, stolen);
	clock->process = process;
}

void interrupt(__u32 cpu, int on, __u64 now)
{
	clocks[cpu].interrupts = switch_interrupts(clocks[cpu].interrupts, now, on);
}

void steal_in_interrupt(__u32 cpu, __u64 time)
{
	clocks[cpu].interrupts = without_stolen(clocks[cpu].interrupts, time);
}

int read_clocks(__u32 cpu, __u32 process, __u64 at, struct ready_clocks *to)
{
	return try_to_read_clocks(&clocks[cpu], &own[cpu][process], process, at, 0, to);
}

void read_at_switch(__u32 cpu, __u32 process, struct ready_clocks *to)
{
	clocks_at_switch(&clocks[cpu], own[cpu][process], to);
}

void set_sequence(__u32 cpu, __u32 sequence)
{
	clocks[cpu].sequence = sequence;
}

void divide(const struct ready_clocks *from, const struct ready_clocks *to, __u64 time, __u64 *parts)
{
	divide_ready(from, to, time, parts);
}

void move_clocks(struct ready_clocks *began, const struct ready_clocks *from, const struct ready_clocks *to)
{
	move_ready_clocks(began, from, to);
}

__u32 largest(const __u64 *parts)
{
	return largest_part(parts);
}
