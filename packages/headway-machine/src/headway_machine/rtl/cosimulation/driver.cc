// Runs the progress unit, compiled by Yosys' CXXRTL, on the signals that the reference machine tells of each cycle
// (headway_machine/signals.pxd), and compares all that it counts, cycle by cycle.
//
// THREADS, STEP, WIDTH, RANGES and the file of the unit are given by the compiler's command line.
#include UNIT

#include "signals.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace
{

enum Reason { kData = 1, kRefill = 2, kSlot = 3, kFetchInternal = 4, kTlb = 10 };
constexpr int kMachine = 3;

struct Report {
	int64_t clocks;
	int64_t cycles;     // of running threads
	int64_t compared;   // counters, each in each cycle
	int64_t stored;
	int64_t loaded;
	int64_t writes;
	int64_t traps;
	int64_t entries;
	int64_t differences;
	char first[512];
};

struct Hart : Told {
	bool fed_running = false;
	int64_t settled = 0;      // as fed
	bool running = false, machine = true;
	int64_t gap_at = 0, gap_end = 0;
	uint32_t gap_reason = 0;
};

struct Simulation {
	cxxrtl_design::p_top unit;
	Hart harts[THREADS];
	int first;                // number of the core's first hart
	bool begun = false;       // a hart has
	int64_t clock = STEP - 1;
	int64_t latest = 0;       // the last cycle of a turn
	Report report = {};

	void differs(int hart, int64_t cycle, const char *what, uint64_t expected, uint64_t found)
	{
		if (!report.differences++)
			snprintf(report.first, sizeof report.first,
				"hart %d, cycle %lld: %s is %llu in the machine and %llu in the unit", first + hart, (long long)cycle,
				what, (unsigned long long)expected, (unsigned long long)found);
	}

	void feed(const Entry *entries, int64_t count)
	{
		for (int64_t i = 0; i < count; i++) {
			const Entry &e = entries[i];
			if (e.hart < first || e.hart >= first + THREADS)
				continue;
			Hart &h = harts[e.hart - first];
			if (e.kind == kRuns)
				h.fed_running = e.value;
			if (e.kind == kSettled && h.fed_running) {
				h.settled = e.cycle;
				if (e.cycle > latest)
					latest = e.cycle;
			}
			h.told.push_back(e);
		}
	}

	bool known(int64_t c) const
	{
		for (const Hart &h : harts)
			if (c + 1 > (h.fed_running ? h.settled : latest - STEP))
				return false;
		return true;
	}

	static int64_t presented(const Entry &e)
	{
		if (e.kind == kReturned)
			return e.cycle;
		bool by_software = e.kind == kReturn || e.kind == kReturnsTo || e.kind == kWrite || e.kind == kCheck ||
			e.kind >= kStored;
		return by_software ? e.cycle - STEP : e.cycle;
	}

	void compare(int n, Hart &h, int64_t cycle)
	{
		for (int i = 0; i < kCounters; i++) {
			uint64_t expected = h.expected(i, cycle);
			uint64_t found = get(unit.p_counters, (n * kCounters + i) * WIDTH, WIDTH);
			if (WIDTH < 64)
				expected &= (1ull << WIDTH % 64) - 1;
			if (found != expected)
				differs(n, cycle, kNames[i], expected, found);
		}
		report.compared += kCounters;
	}

	void tick()
	{
		int64_t c = clock;
		bool store = false;
		uint64_t stored[11];
		int switching = 0;
		bool expect_state[THREADS] = {}, strobe[THREADS] = {};
		int entered[THREADS];
		unit.p_register__write.data[0] = 0;
		unit.p_switch.data[0] = 0;
		for (int n = 0; n < THREADS; n++) {
			Hart &h = harts[n];
			entered[n] = -1;
			strobe[n] = STEP == 1 || c % THREADS == n;
			put(unit.p_cycle, n, 1, strobe[n]);
			put(unit.p_irq__detect, n, 1, 0);
			put(unit.p_irq__return, n, 1, 0);
			put(unit.p_status__check, n, 1, 0);
			put(unit.p_executes, n, 1, 0);
			if (!strobe[n])
				continue;
			int64_t begin = c + 1 - STEP;
			bool settled = false;
			while (!h.told.empty() && presented(h.told.front()) <= begin) {
				const Entry e = h.told.front();
				h.told.pop_front();
				if (e.kind == kGap) {
					h.gap_at = e.cycle;
					h.gap_end = e.cycle + (int64_t)e.value;
					h.gap_reason = e.more;
				} else if (e.kind == kSettled) {
					settled = true;
				} else if (e.kind == kTrap) {
					put(unit.p_irq__detect, n, 1, 1);
					put(unit.p_irq__state, 8 * n, 8, e.value);
					h.machine = true;
					report.traps++;
				} else if (e.kind == kReturn) {
					// The level of privilege changes with the next cycle: see below.
					put(unit.p_irq__return, n, 1, 1);
				} else if (e.kind == kWrite) {
					unit.p_register__write.data[0] = 1;
					unit.p_register__thread.data[0] = (uint32_t)n;
					unit.p_register__address.data[0] = e.more;
					unit.p_register__data.data[0] = (uint32_t)e.value;
					report.writes++;
				} else if (e.kind == kPc) {
					put(unit.p_executes, n, 1, 1);
					unit.p_pc.data[0] = (uint32_t)e.value;
				} else if (e.kind == kReturnsTo) {
					unit.p_return__pc.data[0] = (uint32_t)e.value;
				} else if (e.kind == kCheck) {
					put(unit.p_status__check, n, 1, 1);
					put(unit.p_status__ready, n, 1, e.value);
					put(unit.p_status__state, 8 * n, 8, e.more);
				} else if (e.kind == kRuns) {
					h.running = e.value;
					if (!begun)
						unit.p_entry.data[0] = e.more;
					begun = true;
				} else if (e.kind == kEntry) {
					entered[n] = e.cycle == begin && h.running ? (int)e.value : -1;
				} else if (e.kind >= kCounter && e.kind < kCounter + kCounters) {
					h.counters[e.kind - kCounter] = e.value;
				} else if (e.kind >= kStored && e.kind < kLoaded) {
					stored[e.kind - kStored] = e.value;
					store = true;
					switching = n;
				} else if (e.kind >= kLoaded && e.kind < kLoaded + kCounters) {
					put(unit.p_load, (e.kind - kLoaded) * WIDTH, WIDTH, e.value);
					h.counters[e.kind - kLoaded] = e.value;
				} else if (e.kind > kLoaded && e.kind < kLast) {
					put(unit.p_load, kCounters * WIDTH + 32 * (e.kind - kLoaded - kCounters), 32, e.value);
				} else if (e.kind == kLast) {
					put(unit.p_load, kCounters * WIDTH + 64, 32, e.value);
					unit.p_switch.data[0] = 1;
					unit.p_switch__thread.data[0] = (uint32_t)n;
					report.loaded++;
				}
				if (e.kind == kReturn)
					h.told.push_front({e.cycle, e.value, e.more, e.hart, kReturned});
				if (e.kind == kReturned) {
					h.machine = e.value == kMachine;
				}
			}
			// What the loading unit brings is counted from the next cycle on; up to then the old thread's counters are.
			if (settled || begin >= h.to) {
				if (!store || switching != n)
					h.look_ahead(begin);
			}
			expect_state[n] = h.running && h.state >= 0 && !(store && switching == n);
			bool lost = h.gap_at <= begin && begin < h.gap_end;
			uint32_t reason = lost ? h.gap_reason : 0;
			bool memory = reason >= kFetchInternal;
			bool external = memory && reason != kTlb && reason % 2;
			put(unit.p_running, n, 1, h.running);
			put(unit.p_machine__mode, n, 1, h.machine);
			put(unit.p_core__stall, n, 1, lost && (reason == kData || reason == kSlot || !reason));
			put(unit.p_ex__valid, n, 1, !(lost && reason == kRefill));
			put(unit.p_int__ls__stall, n, 1, memory && !external);
			put(unit.p_ext__ls__stall, n, 1, external);
			if (h.running)
				report.cycles++;
		}
		unit.p_clk.data[0] = 0;
		unit.step();
		for (int n = 0; n < THREADS; n++) {
			if (!strobe[n])
				continue;
			if (!(store && switching == n))
				compare(n, harts[n], c + 1 - STEP);
			if (!harts[n].running)
				continue;
			uint64_t state = get(unit.p_state, 8 * n, 8);
			if (expect_state[n] && state != (uint64_t)harts[n].state)
				differs(n, c, "the state", harts[n].state, state);
			uint64_t anew = get(unit.p_anew, n, 1);
			if (anew != (entered[n] >= 0))
				differs(n, c, "a new occurrence", entered[n] >= 0, anew);
			report.entries += anew;
		}
		if (store) {
			for (int i = 0; i < 11; i++) {
				int at = i < 8 ? i * WIDTH : 8 * WIDTH + 32 * (i - 8), width = i < 8 ? WIDTH : 32;
				uint64_t found = get(unit.p_copy, at, width), expected = stored[i];
				if (i < 8 && WIDTH < 64)
					expected &= (1ull << WIDTH % 64) - 1;
				if (found != expected)
					differs(switching, c, "what the copying unit stores", expected, found);
			}
			report.stored++;
		}
		unit.p_clk.data[0] = 1;
		unit.step();
		report.clocks++;
		clock++;
	}
};

}  // namespace

extern "C" {

// Of each of RANGES ranges: where it begins and ends, and its kind, 1 noneffective, 2 poll.
Simulation *simulation_new(int first, uint32_t gap, const uint32_t *starts, const uint32_t *ends, const uint8_t *kinds)
{
	Simulation *s = new Simulation();
	s->first = first;
	put(s->unit.p_reset__gap, 0, 16, gap);
	for (int n = 0; n < RANGES; n++) {
		put(s->unit.p_range__start, 32 * n, 32, starts[n]);
		put(s->unit.p_range__end, 32 * n, 32, ends[n]);
		put(s->unit.p_range__noneffective, n, 1, kinds[n] == 1);
		put(s->unit.p_range__poll, n, 1, kinds[n] == 2);
	}
	return s;
}

void simulation_feed(Simulation *s, const void *entries, int64_t count)
{
	s->feed((const Entry *)entries, count);
	while (s->known(s->clock) && !s->report.differences)
		s->tick();
}

const Report *simulation_report(const Simulation *s)
{
	return &s->report;
}

void simulation_free(Simulation *s)
{
	delete s;
}
}
