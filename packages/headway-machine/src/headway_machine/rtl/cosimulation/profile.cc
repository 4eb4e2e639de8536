// Runs a profile buffer for each hart, compiled by Yosys' CXXRTL, on the turns that the reference machine tells, and
// compares each record with the machine's.
//
// The file of the unit is given by the compiler's command line. The machine looks at a period of cycles once a turn, and
// makes as many records as are due, so the buffer gets the cycles of a turn in pieces of a period at most.
#define STEP 1
#include UNIT

#include "signals.h"

#include <cstdio>
#include <memory>
#include <vector>

namespace
{

constexpr uint32_t kRefused = 1 << 16;
constexpr uint32_t kFirst = 0x7C8, kAuthorise = 0x801;
constexpr int kSource = 0, kPeriod = 4;

struct Report {
	int64_t turns;
	int64_t records;
	int64_t writes;
	int64_t refused;
	int64_t missed;
	int64_t resumed; // halts of a hart whose buffer is authorised
	int64_t differences;
	char first[512];
};

struct Record {
	uint32_t address, pc, state;
	uint64_t time;
};

struct Hart {
	cxxrtl_design::p_top unit;
	std::deque<Record> made;
	uint32_t registers[5] = {};
	int64_t last = 0; // the cycle of the last turn
	uint64_t tick = 0;
	uint32_t pc = 0;
};

struct Profile {
	std::vector<std::unique_ptr<Hart>> harts;
	int unit; // cycles of a rotation; 1 where threads skip
	Report report = {};

	void differs(int hart, int64_t cycle, const char *what, uint64_t expected, uint64_t found)
	{
		if (!report.differences++)
			snprintf(report.first, sizeof report.first,
				"hart %d, cycle %lld: %s is %llu in the machine and %llu in the buffer", hart, (long long)cycle, what,
				(unsigned long long)expected, (unsigned long long)found);
	}

	void clock(Hart &h)
	{
		h.unit.p_clk.data[0] = 1;
		h.unit.step();
		h.unit.p_write.data[0] = 0;
		h.unit.p_authorise.data[0] = 0;
		h.unit.p_deauthorise.data[0] = 0;
		h.unit.p_retired.data[0] = 0;
		h.unit.p_taken.data[0] = 0;
		h.unit.p_step.data[0] = 0;
	}

	void settle(Hart &h)
	{
		h.unit.p_cycle.data[0] = 1;
		h.unit.p_clk.data[0] = 0;
		h.unit.step();
	}

	void write(int n, const Entry &e)
	{
		Hart &h = *harts[n];
		uint32_t number = e.more & ~kRefused, value = (uint32_t)e.value;
		bool refused = e.more & kRefused, authorises = number == kAuthorise;
		bool possible = h.registers[kSource] && h.registers[kPeriod];
		if (authorises && value & 1 && refused && possible)
			return; // the buffer is not in RAM, which the core checks
		if (authorises) {
			h.unit.p_authorise.data[0] = value & 1;
			h.unit.p_deauthorise.data[0] = ~value & 1;
		} else {
			h.unit.p_write.data[0] = 1;
			h.unit.p_index.data[0] = number - kFirst;
			h.unit.p_data.data[0] = value;
		}
		settle(h);
		uint64_t found = get(h.unit.p_refused, 0, 1);
		// A hart that is authorised already may write 1 again.
		if (found != refused)
			differs(n, e.cycle, "whether a write is refused", refused, found);
		clock(h);
		if (authorises && value & 1 && !refused)
			h.last = e.cycle;
		if (!authorises && !refused)
			h.registers[number - kFirst] = value;
		report.writes++;
		report.refused += refused;
	}

	void turn(int n, const Entry &e)
	{
		Hart &h = *harts[n];
		int64_t gap = e.cycle - h.last;
		uint32_t period = h.registers[kPeriod];
		bool cycles = h.registers[kSource] == 1;
		do {
			int64_t step = cycles && gap > period ? period : gap;
			if (step > 0xFFFF)
				step = 0xFFFF;
			h.unit.p_step.data[0] = (uint32_t)step;
			h.unit.p_retired.data[0] = e.more & 1;
			h.unit.p_taken.data[0] = e.more >> 1 & 1;
			h.unit.p_pc.data[0] = h.pc;
			h.unit.p_state.data[0] = (uint32_t)e.value;
			h.unit.p_time.data[0] = (uint32_t)h.tick;
			h.unit.p_time.data[1] = (uint32_t)(h.tick >> 32);
			settle(h);
			if (get(h.unit.p_record__valid, 0, 1))
				h.made.push_back({(uint32_t)get(h.unit.p_record__address, 0, 32), (uint32_t)get(h.unit.p_record, 0, 32),
					(uint32_t)get(h.unit.p_record, 32, 32), get(h.unit.p_record, 64, 64)});
			clock(h);
			gap -= step;
		} while (cycles && gap > 0);
		h.last = e.cycle;
		report.turns++;
	}

	void feed(const Entry *entries, int64_t count)
	{
		for (int64_t i = 0; i < count && !report.differences; i++) {
			const Entry &e = entries[i];
			Hart &h = *harts[e.hart];
			if (e.kind != kRecord && !h.made.empty())
				differs(e.hart, e.cycle, "the number of records that a turn makes more", 0, h.made.size());
			if (e.kind == kProfile)
				write(e.hart, e);
			if (e.kind == kTurn) {
				h.tick = e.value;
				h.pc = e.more;
			}
			if (e.kind == kDid)
				turn(e.hart, e);
			if (e.kind == kRuns && e.value) {
				int64_t cycle = e.cycle + unit - 1;
				h.unit.p_resumes.data[0] = 1;
				settle(h);
				clock(h);
				h.unit.p_resumes.data[0] = 0;
				report.resumed += get(h.unit.p_authorised, 0, 1);
				h.last = cycle;
			}
			if (e.kind == kRecord) {
				if (h.made.empty()) {
					differs(e.hart, e.cycle, "the number of records that a turn makes more", 1, 0);
					continue;
				}
				Record r = h.made.front();
				h.made.pop_front();
				if (r.address != e.more)
					differs(e.hart, e.cycle, "the address of a record", e.more, r.address);
				if (r.pc != (uint32_t)e.value)
					differs(e.hart, e.cycle, "the address of an instruction in a record", (uint32_t)e.value, r.pc);
				if (r.state != (uint32_t)(e.value >> 32))
					differs(e.hart, e.cycle, "the state in a record", e.value >> 32, r.state);
				if (r.time != h.tick)
					differs(e.hart, e.cycle, "the time in a record", h.tick, r.time);
				report.records++;
			}
		}
	}
};

} // namespace

extern "C" {

Profile *profile_new(int harts, int unit)
{
	Profile *p = new Profile();
	p->unit = unit;
	for (int i = 0; i < harts; i++) {
		p->harts.push_back(std::make_unique<Hart>());
		p->settle(*p->harts[i]);
	}
	return p;
}

void profile_feed(Profile *p, const void *entries, int64_t count)
{
	p->feed((const Entry *)entries, count);
}

const Report *profile_report(Profile *p)
{
	p->report.missed = 0;
	for (auto &h : p->harts)
		p->report.missed += get(h->unit.p_missed, 0, 32);
	return &p->report;
}

void profile_free(Profile *p)
{
	delete p;
}
}
