// Runs a computer with the barrel core (headway_machine/rtl/core), compiled by Yosys' CXXRTL, and compares what its progress
// unit counts with what the reference machine tells of the same program, cycle by cycle.
//
// THREADS, STEP and the file of the computer are given by the compiler's command line.
#include UNIT

#include "signals.h"

#include <cstdio>
#include <string>
#include <vector>

namespace
{

constexpr int64_t kWarmUp = 2;

struct Report {
	int64_t clocks;
	int64_t retired;
	int64_t compared; // counters, each in each cycle
	int64_t entries; // states that were entered anew
	int64_t ended; // 1: the program has ended
	int64_t status; // what it wrote to end
	int64_t differences;
	char first[512];
};

struct Hart : Told {
	int64_t settled = 0; // as fed
	int64_t retired = 0;
	int64_t entered_at = -1;
};

struct Computer {
	cxxrtl_design::p_top unit;
	Hart harts[THREADS];
	std::vector<uint32_t> memory;
	uint32_t base, host;
	uint32_t fetched = 0, loaded = 0;
	int64_t clock = THREADS - 1 - kWarmUp;
	std::string sent;
	Report report = {};

	void differs(int hart, int64_t cycle, const char *what, uint64_t expected, uint64_t found)
	{
		if (!report.differences++)
			snprintf(report.first, sizeof report.first,
				"hart %d, cycle %lld: %s is %llu in the machine and %llu in the core", hart, (long long)cycle, what,
				(unsigned long long)expected, (unsigned long long)found);
	}

	void feed(const Entry *entries, int64_t count)
	{
		for (int64_t i = 0; i < count; i++) {
			const Entry &e = entries[i];
			Hart &h = harts[e.hart];
			if (e.kind == kSettled)
				h.settled = e.cycle;
			h.told.push_back(e);
		}
	}

	bool known() const
	{
		for (const Hart &h : harts)
			if (clock + 1 > h.settled)
				return false;
		return true;
	}

	uint32_t *at(uint32_t address)
	{
		uint32_t place = (address - base) / 4;
		return place < memory.size() ? &memory[place] : nullptr;
	}

	// Compares the counters as of the beginning of the thread's cycle, and the state in it.
	void compare(int n)
	{
		Hart &h = harts[n];
		int64_t begin = clock + 1 - STEP;
		bool settled = false, entered = false;
		while (!h.told.empty() && h.told.front().cycle <= begin) {
			const Entry e = h.told.front();
			h.told.pop_front();
			if (e.kind >= kCounter && e.kind < kCounter + kCounters)
				h.counters[e.kind - kCounter] = e.value;
			if (e.kind == kEntry)
				entered = e.cycle == begin;
			if (e.kind == kSettled) {
				settled = true;
				if (e.cycle == begin && (int64_t)e.value != h.retired)
					differs(n, begin, "the number of instructions", e.value, h.retired);
			}
		}
		if (settled || begin >= h.to)
			h.look_ahead(begin);
		for (int i = 0; i < kCounters; i++) {
			uint64_t expected = h.expected(i, begin), found = get(unit.p_counters, (n * kCounters + i) * 64, 64);
			if (found != expected)
				differs(n, begin, kNames[i], expected, found);
		}
		report.compared += kCounters;
		uint64_t state = get(unit.p_state, 8 * n, 8), anew = get(unit.p_anew, n, 1);
		if (h.state >= 0 && state != (uint64_t)h.state)
			differs(n, begin, "the state", h.state, state);
		if (anew != entered)
			differs(n, begin, "a new occurrence", entered, anew);
		report.entries += anew;
	}

	void tick(bool comparing)
	{
		unit.p_clk.data[0] = 0;
		unit.p_fetch__word.data[0] = fetched;
		unit.p_data__word.data[0] = loaded;
		unit.step();
		int n = (int)get(unit.p_thread, 0, 3);
		if (get(unit.p_started, 0, 1)) {
			if (comparing)
				compare(n);
			uint64_t retired = get(unit.p_retired, 0, 1);
			harts[n].retired += retired;
			report.retired += retired;
		}
		uint32_t address = (uint32_t)get(unit.p_data__address, 0, 32), mask = (uint32_t)get(unit.p_data__mask, 0, 4);
		uint32_t *word = at(address);
		loaded = word ? *word : 0;
		uint32_t *code = at((uint32_t)get(unit.p_fetch__address, 0, 32));
		if (get(unit.p_fetch__enable, 0, 1))
			fetched = code ? *code : 0;
		if (mask) {
			uint32_t bits = 0, data = (uint32_t)get(unit.p_data__out, 0, 32);
			for (int byte = 0; byte < 4; byte++)
				bits |= mask >> byte & 1 ? 0xFFu << 8 * byte : 0;
			if (word)
				*word = (*word & ~bits) | (data & bits);
			if ((address & ~3u) == host && data & bits) {
				report.ended = 1;
				report.status = data & bits;
			}
		}
		if (get(unit.p_sends, 0, 1))
			sent.push_back((char)get(unit.p_sent, 0, 8));
		unit.p_clk.data[0] = 1;
		unit.step();
		report.clocks++;
		clock++;
	}
};

} // namespace

extern "C" {

Computer *computer_new(uint32_t base, uint32_t size, uint32_t host)
{
	Computer *c = new Computer();
	c->base = base;
	c->host = host;
	c->memory.assign(size / 4, 0);
	return c;
}

// Memory is addressed from its beginning, and the caller keeps to its size.
void computer_write(Computer *c, uint32_t offset, const uint8_t *data, uint32_t size)
{
	memcpy((uint8_t *)c->memory.data() + offset, data, size);
}

void computer_read(const Computer *c, uint32_t offset, uint8_t *data, uint32_t size)
{
	memcpy(data, (const uint8_t *)c->memory.data() + offset, size);
}

// Runs as far as what the machine has told is complete, and compares.
void computer_feed(Computer *c, const void *entries, int64_t count)
{
	c->feed((const Entry *)entries, count);
	while (!c->report.ended && !c->report.differences && c->known())
		c->tick(true);
}

// Runs up to the clock without comparing.
void computer_run(Computer *c, int64_t until)
{
	while (!c->report.ended && c->clock < until)
		c->tick(false);
}

void computer_counters(const Computer *c, uint64_t *counters)
{
	for (int i = 0; i < THREADS * kCounters; i++)
		counters[i] = get(c->unit.p_counters, i * 64, 64);
}

const char *computer_sent(const Computer *c)
{
	return c->sent.c_str();
}

const Report *computer_report(const Computer *c)
{
	return &c->report;
}

void computer_free(Computer *c)
{
	delete c;
}
}
