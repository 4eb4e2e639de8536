/* The policy: a thread that reads the indices of the threads that it watches, compares them with references, divides what
 * they share with others, and gives it back.
 *
 * Each period, where Td of a thread is above its reference, the parts of Td are looked at:
 *
 * MPI: the thread gets all ways but one of the data cache (and as much of the second level) for itself. If its waiting for
 * memory falls by a quarter, it gives back a way after the other, as long as that costs it nothing. Otherwise it gives
 * back all of them, and the others are held to their shares of the bus, in the same way.
 * KPI: it gets longer turns, so that the kernel interrupts it less, as long as that helps.
 * IOPI: it is told to wait for devices by interrupt.
 *
 * Waiting for memory is taken as cycles for each cycle of progress: it does not depend on how much of the period a thread
 * had. What did not help is not tried again for a number of periods that doubles. What a thread has is given back when it
 * ends. A thread that has got more room needs some periods to fill it, which decide nothing. */

#include "policy.h"

#define WATCHED_MAX 8
#define LONGEST_TURN 3
#define REST 8 /* periods in which nothing is tried again after it did not help; doubles */
#define REVIEW 64 /* periods after which it is tried whether less would do */
#define SETTLING 2 /* periods after a change that decide nothing */
#define LEAST_CYCLES 512 /* a period in which a thread ran for less says nothing */
#define BUS_WHOLE 16

const struct policy_references policy_defaults = {10, 25, 25, 25};
struct policy_deed policy_deeds[POLICY_DEEDS];
uint32_t policy_done;

enum step { FREE, TRIED, RETURNING, SETTLED };

/* One thing that can be given to a thread: how far its trial is. */
struct trial {
    enum step step;
    uint32_t amount; /* what it has of it; 0: nothing */
    uint32_t before; /* what it lost before it had it */
    uint32_t best; /* the least that it lost with it */
    uint32_t rest, pause; /* periods until it may be tried (again); how many there were the last time */
};

static struct watched {
    uint32_t id;
    volatile uint32_t *by_interrupt;
    uint64_t seen[8];
    uint32_t settling; /* periods that decide nothing */
    struct trial ways, bus, turns, device;
} watched[WATCHED_MAX];

static struct policy_references references;
static uint32_t l1d_ways, l2_ways, period, policy_id;
static volatile uint32_t stopping;

static void note(const struct watched *w, enum policy_action action, uint32_t amount, uint32_t share)
{
    if (policy_done < POLICY_DEEDS)
        policy_deeds[policy_done] = (struct policy_deed){hw_time(), w->id, action, amount, share};
    policy_done++;
}

static struct thread *living(uint32_t id)
{
    struct thread *thread = id ? thread_of(id) : NULL;
    return thread && thread->life != UNUSED && thread->life != ENDED ? thread : NULL;
}

/* ---- the division: computed from what the watched threads have, and written into the blocks of all threads ---- */

static uint32_t bits(uint32_t first, uint32_t count) { return ((1u << count) - 1) << first; }

/* Write a thread's parts, and let them count at once if it runs. */
static void give(struct thread *thread, uint32_t l1d, uint32_t l2, uint32_t share)
{
    struct hw_block *block = &thread->block;
    if (block->l1d_ways == l1d && block->l2_ways == l2 && block->bus_share == share)
        return;
    block->l1d_ways = l1d;
    block->l2_ways = l2;
    block->bus_share = share;
    CSR_WRITE(CSR_HWSYNC, block);
}

static uint32_t scaled(uint32_t ways) { return l2_ways * ways / l1d_ways; }

static void divide(void)
{
    uint32_t first = 0, share = 0;
    for (struct watched *w = watched; w < watched + WATCHED_MAX; w++) {
        if (w->bus.amount && (!share || w->bus.amount < share))
            share = w->bus.amount;
        first += w->ways.amount;
    }
    uint32_t rest = first ? bits(first, l1d_ways - first) : 0;
    uint32_t l2_rest = first && scaled(first) ? bits(scaled(first), l2_ways - scaled(first)) : 0;
    struct thread *thread;
    for (uint32_t slot = 0; (thread = thread_at(slot)); slot++) {
        if (thread->life == UNUSED)
            continue;
        uint32_t l1d = rest, l2 = l2_rest, bus = share, at = 0;
        for (const struct watched *w = watched; w < watched + WATCHED_MAX; at += w++->ways.amount)
            if (w->id == thread->block.id) {
                if (w->ways.amount) {
                    l1d = bits(at, w->ways.amount);
                    l2 = scaled(at + w->ways.amount) > scaled(at) ? bits(scaled(at), scaled(at + w->ways.amount) - scaled(at)) : l2_rest;
                }
                bus = 0;
            }
        give(thread, l1d, l2, thread->block.id == policy_id ? 0 : bus);
    }
}

/* ---- trials ---- */

static void put_off(struct trial *trial)
{
    trial->step = FREE;
    trial->amount = 0;
    trial->pause = trial->pause ? 2 * trial->pause : REST;
    trial->rest = trial->pause;
}

/* Go on with a trial in which less costs the others less: `most` at first, then one less at a time (towards `least`), as
 * long as the thread loses no more. Return whether the amount has changed. `lost`: what it loses now, for its progress. */
static bool go_on(struct trial *trial, bool above, uint32_t lost, uint32_t most, uint32_t least)
{
    uint32_t had = trial->amount;
    int towards = least > most ? 1 : -1;
    switch (trial->step) {
    case FREE:
        if (trial->rest)
            trial->rest--;
        else if (above && most) {
            trial->before = lost;
            trial->amount = most;
            trial->step = TRIED;
        }
        break;
    case TRIED:
        if (4 * lost > 3 * trial->before) {
            put_off(trial);
            break;
        }
        trial->pause = 0;
        trial->best = lost;
        trial->step = RETURNING;
        if (trial->amount != least)
            trial->amount += (uint32_t) towards;
        break;
    case RETURNING:
        if (lost > trial->best + trial->best / 8 + 1) {
            trial->amount -= (uint32_t) towards;
            trial->step = SETTLED;
            trial->rest = REVIEW;
        } else if (trial->amount == least) {
            trial->step = SETTLED;
            trial->rest = REVIEW;
        } else {
            if (lost < trial->best)
                trial->best = lost;
            trial->amount += (uint32_t) towards;
        }
        break;
    case SETTLED:
        if (!--trial->rest) {
            trial->best = lost;
            trial->step = RETURNING;
            if (trial->amount != least)
                trial->amount += (uint32_t) towards;
        }
        break;
    }
    return trial->amount != had;
}

/* Whether the thread loses so much more since it gave a part back that there is nothing to wait for. */
static bool hurts(const struct trial *trial, uint32_t lost)
{
    return trial->step == RETURNING && lost > 2 * trial->best + 8;
}

static void give_back(struct watched *w)
{
    struct thread *thread = thread_of(w->id);
    if (w->ways.amount)
        note(w, POLICY_WAYS, 0, POLICY_ENDED);
    if (w->bus.amount)
        note(w, POLICY_BUS, 0, POLICY_ENDED);
    if (w->turns.amount)
        note(w, POLICY_TURNS, 1, POLICY_ENDED);
    if (w->device.amount)
        note(w, POLICY_INTERRUPT, 0, POLICY_ENDED);
    if (thread)
        thread->longer = 0;
    if (w->by_interrupt)
        *w->by_interrupt = 0;
    *w = (struct watched){0};
}

static uint32_t percent(uint32_t part, uint32_t whole) { return whole ? 100 * part / whole : 0; }

static void look(struct watched *w)
{
    struct thread *thread = living(w->id);
    uint32_t passed[8], taken = 0, others = 0;
    if (!thread) {
        give_back(w);
        return;
    }
    CSR_WRITE(CSR_HWSYNC, &thread->block);
    for (uint32_t n = 0; n < 8; n++) {
        uint64_t count = thread->block.counter[n];
        passed[n] = (uint32_t)(count - w->seen[n]);
        w->seen[n] = count;
    }
    uint32_t rpi = passed[COUNTER_RPC], epi = passed[COUNTER_EPC], td = rpi - epi;
    uint32_t mpi = passed[COUNTER_MPCI] + passed[COUNTER_MPCX], kpi = passed[COUNTER_KPC], iopi = passed[COUNTER_IOPC];
    if (rpi < LEAST_CYCLES || rpi > 1u << 25)
        return;
    bool lost = percent(td, rpi) > references.td;
    uint32_t of_td = percent(mpi, td), wait = 256 * (mpi >> 3) / ((epi >> 3) + 1);
    if (w->settling && !hurts(&w->ways, wait) && !hurts(&w->bus, wait)) {
        w->settling--;
        return;
    }
    for (const struct watched *other = watched; other < watched + WATCHED_MAX; other++)
        if (other != w)
            taken += other->ways.amount;
    /* One trial at a time says what helped. */
    bool above = lost && of_td > references.mpi, bus_tried = w->bus.step == TRIED || w->bus.step == RETURNING;
    if (!bus_tried && go_on(&w->ways, above, wait, l1d_ways > taken ? l1d_ways - taken - 1 : 0, 1)) {
        note(w, POLICY_WAYS, w->ways.amount, of_td);
        w->settling = SETTLING;
    } else if (w->ways.step == FREE || w->ways.step == SETTLED) {
        struct thread *any;
        for (uint32_t slot = 0; (any = thread_at(slot)); slot++)
            others += any->life == RUNNING && any != thread && any->block.id != policy_id;
        if (go_on(&w->bus, above, wait, others ? (BUS_WHOLE / 4 + others - 1) / others : 0, BUS_WHOLE)) {
            note(w, POLICY_BUS, w->bus.amount, of_td);
            w->settling = SETTLING;
        }
    }
    of_td = percent(kpi, td);
    if (go_on(&w->turns, lost && of_td > references.kpi, 256 * (kpi >> 3) / ((epi >> 3) + 1), LONGEST_TURN, 1)) {
        thread->longer = w->turns.amount;
        note(w, POLICY_TURNS, 1u << w->turns.amount, of_td);
    }
    of_td = percent(iopi, td);
    if (w->by_interrupt && go_on(&w->device, lost && of_td > references.iopi, 256 * (iopi >> 3) / ((epi >> 3) + 1), 1, 1)) {
        *w->by_interrupt = w->device.amount;
        note(w, POLICY_INTERRUPT, w->device.amount, of_td);
    }
}

static uint32_t policy(void *nothing)
{
    (void) nothing;
    uint64_t next = hw_time();
    while (!stopping) {
        for (struct watched *w = watched; w < watched + WATCHED_MAX; w++)
            if (w->id)
                look(w);
        divide();
        next += period;
        hw_sleep_until(next);
    }
    for (struct watched *w = watched; w < watched + WATCHED_MAX; w++)
        if (w->id)
            give_back(w);
    divide();
    return 0;
}

void policy_start(const struct policy_references *chosen, uint32_t ticks)
{
    references = *chosen;
    period = ticks;
    l1d_ways = REGISTER(MACHINE_L1D_WAYS);
    l2_ways = REGISTER(MACHINE_L2_WAYS);
    stopping = 0;
    policy_id = hw_spawn("policy", policy, NULL);
}

void policy_stop(void)
{
    stopping = 1;
    hw_join(policy_id);
}

uint32_t policy_watch(uint32_t id, volatile uint32_t *by_interrupt)
{
    for (struct watched *w = watched; w < watched + WATCHED_MAX; w++)
        if (!w->id) {
            *w = (struct watched){.by_interrupt = by_interrupt};
            __atomic_store_n(&w->id, id, __ATOMIC_RELEASE);
            return 0;
        }
    return UINT32_MAX;
}
