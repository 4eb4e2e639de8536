// Runs a state monitor for each hart, compiled by Yosys' CXXRTL, on the states that the reference machine tells.
//
// STEP and the file of the unit are given by the compiler's command line. What the monitor could not be told is counted
// beside it, by state: it is asked once a cycle of the thread, for one state.
#include UNIT

#include "signals.h"

#include <memory>
#include <vector>

namespace
{

constexpr int kReset = 204;
constexpr int kStates = 256;

struct Row {
	uint64_t occurrences, cycles, instructions;
	// Occurrences of states in which no cycle began, and cycles that are no whole rotation.
	uint64_t untold_occurrences, untold_cycles;
};

struct Hart {
	cxxrtl_design::p_top unit;
	int64_t at = -1; // the first cycle that the monitor has not counted
	uint64_t retired = 0;
	int entered = -1; // the state that was entered at that cycle
	Row rows[kStates] = {};

	void span(int64_t until, uint64_t instructions, int state)
	{
		if (state == kReset || at < 0) {
			at = until;
			retired = instructions;
			return;
		}
		if (until == at)
			return;
		int64_t cycles = (until - at) / STEP;
		rows[state].untold_cycles += (until - at) % STEP;
		if (entered >= 0 && (entered != state || !cycles))
			rows[entered].untold_occurrences++;
		for (int64_t i = 0; i < cycles; i++) {
			unit.p_cycle.data[0] = 1;
			unit.p_state.data[0] = (uint32_t)state;
			unit.p_anew.data[0] = i == 0 && entered == state;
			unit.p_retired.data[0] = retired < instructions;
			retired += retired < instructions;
			clock();
		}
		entered = -1;
		at = until;
	}

	void clock()
	{
		unit.p_clk.data[0] = 0;
		unit.step();
		unit.p_clk.data[0] = 1;
		unit.step();
	}
};

struct Monitor {
	std::vector<std::unique_ptr<Hart>> harts;
};

} // namespace

extern "C" {

Monitor *monitor_new(int harts)
{
	Monitor *m = new Monitor();
	for (int i = 0; i < harts; i++)
		m->harts.push_back(std::make_unique<Hart>());
	return m;
}

void monitor_feed(Monitor *m, const void *entries, int64_t count)
{
	const Entry *told = (const Entry *)entries;
	for (int64_t i = 0; i < count; i++) {
		const Entry &e = told[i];
		Hart &h = *m->harts[e.hart];
		if (e.kind == kSettled || e.kind == kLeft)
			h.span(e.cycle, e.value, (int)e.more);
		if (e.kind == kEntry && e.value != kReset) {
			if (h.entered >= 0)
				h.rows[h.entered].untold_occurrences++;
			h.entered = (int)e.value;
		}
	}
}

// Reads all rows of a hart's monitor, as a program would.
const Row *monitor_rows(Monitor *m, int hart)
{
	Hart &h = *m->harts[hart];
	h.unit.p_cycle.data[0] = 0;
	for (int state = 0; state < kStates; state++) {
		h.unit.p_read__state.data[0] = (uint32_t)state;
		h.unit.p_clk.data[0] = 0;
		h.unit.step();
		h.rows[state].occurrences = get(h.unit.p_occurrences, 0, 64);
		h.rows[state].cycles = get(h.unit.p_cycles, 0, 64);
		h.rows[state].instructions = get(h.unit.p_instructions, 0, 64);
	}
	return h.rows;
}

// The state that was entered with a cycle of which nothing is told yet; -1: none.
int monitor_entered(const Monitor *m, int hart)
{
	return m->harts[hart]->entered;
}

void monitor_free(Monitor *m)
{
	delete m;
}
}
