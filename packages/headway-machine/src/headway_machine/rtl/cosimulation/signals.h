// The signals that the reference machine tells of each cycle (headway_machine/signals.pxd), and what they say of its
// counters in any cycle. STEP, the cycles that a cycle of a thread counts, is given by the compiler's command line.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>

namespace
{

enum Kind {
	kGap = 0,
	kSettled = 1,
	kTrap = 2,
	kReturn = 3,
	kWrite = 4,
	kPc = 5,
	kCheck = 6,
	kRuns = 7,
	kEntry = 8,
	kLeft = 9,
	kProfile = 10,
	kTurn = 11,
	kDid = 12,
	kRecord = 13,
	kReturnsTo = 14,
	kCounter = 16,
	kStored = 32,
	kLoaded = 48,
	kLast = 58,
	kReturned = 99, // the level of privilege after MRET
};
constexpr int kCounters = 8;

struct Entry {
	int64_t cycle;
	uint64_t value;
	uint32_t more;
	uint16_t hart;
	uint16_t kind;
};

// What is told of a hart, and its counters: as of the cycle `from`, and as of `to`, between which they rise evenly.
struct Told {
	std::deque<Entry> told;
	uint64_t counters[kCounters] = {};
	int64_t from = 0, to = 0;
	uint64_t then[kCounters] = {};
	int state = -1;

	// Finds where the machine's counters are told next.
	void look_ahead(int64_t cycle)
	{
		from = cycle;
		to = cycle;
		state = -1;
		memcpy(then, counters, sizeof then);
		for (const Entry &e : told) {
			if (e.kind >= kCounter && e.kind < kCounter + kCounters)
				then[e.kind - kCounter] = e.value;
			if (e.kind >= kStored && e.kind < kStored + kCounters)
				then[e.kind - kStored] = e.value;
			if (e.kind == kSettled && e.cycle > cycle) {
				to = e.cycle;
				state = (int)e.more;
				return;
			}
			if (e.kind == kStored + kCounters - 1) {
				to = e.cycle;
				return;
			}
		}
	}

	uint64_t expected(int counter, int64_t cycle) const
	{
		uint64_t value = counters[counter];
		if (to > from && then[counter] != value)
			value += (int64_t)(then[counter] - value) / ((to - from) / STEP) * ((cycle - from) / STEP);
		return value;
	}
};

constexpr const char *kNames[kCounters] = {"EPC", "MPCI", "MPCX", "KPC", "IOPC", "RPC", "SPC", "OPC"};

template <size_t N> const uint32_t *words(const cxxrtl::value<N> &v)
{
	return v.data;
}
template <size_t N> const uint32_t *words(const cxxrtl::wire<N> &v)
{
	return v.curr.data;
}

template <class V> uint64_t get(const V &v, int at, int width)
{
	const uint32_t *data = words(v);
	uint64_t found = 0;
	for (int bit = 0; bit < width;) {
		int place = at + bit, take = 32 - place % 32;
		if (take > width - bit)
			take = width - bit;
		uint64_t part = data[place / 32] >> place % 32;
		if (take < 32)
			part &= (1u << take) - 1;
		found |= part << bit;
		bit += take;
	}
	return found;
}

template <size_t N> void put(cxxrtl::value<N> &v, int at, int width, uint64_t value)
{
	for (int bit = 0; bit < width;) {
		int place = at + bit, take = 32 - place % 32;
		if (take > width - bit)
			take = width - bit;
		uint32_t mask = take == 32 ? ~0u : (1u << take) - 1;
		uint32_t &word = v.data[place / 32];
		word = (word & ~(mask << place % 32)) | ((uint32_t)(value >> bit) & mask) << place % 32;
		bit += take;
	}
}

} // namespace
