/* Collecting from the profile buffers of many threads (docs/profile-buffers.md), by different policies.
 *
 * Hart 0 runs threads whose activity differs: busy ones always have work, bursty ones for a while and then sleep, idle
 * ones wake for a single piece of work. Each has a profile buffer of its own, which travels with it: whoever leaves the
 * hart is de-authorised and its head kept, whoever comes is authorised again. Full, a buffer stops and tells nobody.
 * Only a thread itself can look into its buffer (to look it is de-authorised and authorised again, which takes its time),
 * and does so at the safe point after each piece of work, if it is time to:
 *
 * fixed: `period` cycles have passed since it last looked, whether it ran or not;
 * cpu-time: it has used the cycles in which it half fills its buffer. The arithmetic is that of
 * headway/buffers/policies/cpu_time.py, in integers.
 *
 * Sleeps and turns are counted in pieces of work, not in cycles, so that the same work is done in the same order
 * whatever the policy costs: runs differ by nothing but their looks. */

#include "arguments.h"
#include "bare.h"
#include "jobs.h"

#include <stdbool.h>

#define MAX_THREADS 1024
#define MAX_CAPACITY 2048
#define RECORD 16
#define QUANTUM 8 /* pieces of work in a turn */
#define WHEEL 4096

#define CSR_PBCTL 0x7C8
#define CSR_PBBASE 0x7C9
#define CSR_PBSIZE 0x7CA
#define CSR_PBHEAD 0x7CB
#define CSR_PBPERIOD 0x7CC
#define CSR_HWAUTH 0x801
#define PB_INSTRUCTIONS 2

enum policy { OFF, NEVER, FIXED, CPU_TIME };
enum kind { BUSY, BURSTY, IDLE };

/* What arguments can change. */
static uint32_t polling_policy = CPU_TIME;
static uint32_t polling_period = 1000; /* cycles, of the fixed policy */
static uint32_t polling_busy = 2, polling_bursty = 6, polling_idle = 24; /* threads */
static uint32_t polling_capacity = 512; /* bytes of a buffer */
static uint32_t polling_event = PB_INSTRUCTIONS; /* pbctl: 1 cycles, 2 instructions, 3 taken branches */
static uint32_t polling_every = 500; /* so many of them from a record to the next */
static uint32_t polling_pieces = 4000; /* of work in all */

static const char *const policies[] = {"off", "never", "fixed", "cpu-time", NULL};
static const char *const events[] = {"", "cycles", "instructions", "branches", NULL};
static const struct argument known[] = {{"policy", &polling_policy, policies}, {"period", &polling_period, NULL},
                                        {"busy", &polling_busy, NULL},         {"bursty", &polling_bursty, NULL},
                                        {"idle", &polling_idle, NULL},         {"capacity", &polling_capacity, NULL},
                                        {"event", &polling_event, events},     {"every", &polling_every, NULL},
                                        {"pieces", &polling_pieces, NULL}};

/* All times are low words of mcycle: a run is shorter than 2^32 cycles. */
struct thread {
    uint32_t head, used;
    uint32_t state, left, sum; /* of its work */
    uint32_t due; /* fixed period: when it looks next */
    uint32_t since, next, interval, rate; /* processor time: of the last drain, of the next look; bytes in 65,536 cycles */
    uint32_t loss; /* of 65,536 */
    uint32_t held; /* the rate of bursts, while they cost more than the budget */
    uint8_t kind, work, parts; /* parts: 1 / so many of a buffer are worth a look */
    bool own; /* the rate is its own */
    struct thread *following;
};

static struct thread threads[MAX_THREADS];
static uint8_t buffers[MAX_THREADS][MAX_CAPACITY] __attribute__((aligned(64)));
static struct thread *first, **last = &first, *wheel[WHEEL];
static uint32_t n_threads, pieces;

static uint32_t begun; /* when the time of the thread that runs began to count */
static uint32_t look_at; /* when it looks next */
static uint32_t usual; /* the rate that drains found: what is known beforehand of a thread that has not looked yet */

static uint32_t looks, drains, useful, records, wrong;
/* What the first thread's looks found, and when it looked again, for who wants to compare the policy with another. */
struct found {
    uint32_t used, filled, drained, next;
} polling_log[256];
uint32_t polling_logged;
static uint32_t histogram[256];
static uint32_t table[64];

static inline uint32_t now(void) { return CSR_READ(mcycle); }
static inline uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }
static inline uint32_t smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* ---- the work: three kinds, which take branches at different rates ---- */

static uint32_t shift(uint32_t value)
{
    for (uint32_t at = 0; at < 100; at++)
        value = value >> 1 ^ (value & 1 ? 0xEDB88320 : 0);
    return value;
}

static uint32_t look_up(uint32_t value)
{
    for (uint32_t at = 0; at < 64; at++) {
        uint32_t element = table[(value ^ at) & 63];
        value = (value >> 5 | value << 27) ^ (element * 3 + (element >> 9));
    }
    return value;
}

static uint32_t multiply(uint32_t value)
{
    for (uint32_t at = 0; at < 12; at++) {
        value = value * 1664525 + 1013904223;
        value ^= value >> 13;
        value = value * 22695477 + 1;
        value ^= value >> 11;
        value = value * 69069 + 5;
        value ^= value / (value >> 16 | 1);
    }
    return value;
}

static void work(struct thread *thread)
{
    uint32_t value = thread->sum;
    switch (thread->work) {
    case 0:
        value = shift(value);
        break;
    case 1:
        value = look_up(value);
        break;
    default:
        value = multiply(value);
    }
    thread->sum = value;
}

/* ---- the policy by processor time: see headway/buffers/policies/cpu_time.py ---- */

static uint32_t wanted(const struct thread *thread)
{
    uint32_t aim = smaller(polling_capacity * 11 / 10 / thread->parts,
                           (polling_capacity + polling_capacity / thread->parts) / 2);
    uint32_t rate = larger(thread->rate, thread->held);
    return rate ? larger(1, (aim << 16) / rate) : UINT32_MAX;
}

/* Learn from a look that found so many bytes; whether to drain the buffer. */
static bool looked(struct thread *thread, uint32_t used, uint32_t filled)
{
    uint32_t spent = larger(1, used - thread->since), found = (filled << 16) / spent;
    bool full = filled >= polling_capacity;
    if (full)
        thread->rate = larger(found, 2 * thread->rate);
    else if (found > thread->rate || !thread->own)
        thread->rate = found;
    else
        thread->rate -= (thread->rate - found) / 2;
    thread->own = true;
    bool drained = full || filled * thread->parts >= polling_capacity;
    if (drained) {
        usual = found > usual ? found : usual - (usual - found) / 256;
        uint32_t expected = full ? larger(2 * filled, (uint32_t)((uint64_t) thread->rate * spent >> 16)) : filled;
        uint32_t lost = 65536 - (filled << 16) / larger(1, expected);
        thread->loss = thread->loss - thread->loss / 16 + lost / 16;
        if (full && thread->loss > 65536 / 20)
            thread->parts = (uint8_t) smaller(16, 2u * thread->parts);
        else if (thread->loss < 65536 / 40 && thread->parts > 2)
            thread->parts /= 2;
    }
    if (!full)
        thread->held -= thread->held / 256;
    else if (thread->loss > 65536 / 20)
        thread->held = larger(thread->held, thread->rate);
    uint32_t before = thread->interval;
    thread->interval = smaller(wanted(thread), full ? before / 2 : smaller(before * 2, 1u << 30));
    if (drained) {
        thread->since = used;
        thread->next = used + thread->interval;
    } else {
        uint32_t aim = polling_capacity * 11 / 10 / thread->parts;
        uint32_t rate = larger(found, thread->held);
        uint32_t rest = rate ? ((aim - smaller(aim, filled)) << 16) / rate : UINT32_MAX;
        thread->next = used + larger(smaller(rest, 2 * spent), thread->interval / 8);
    }
    return drained;
}

/* ---- the collector ---- */

/* What is collected goes where a profile would want it. */
static void take(const uint8_t *buffer, uint32_t filled)
{
    uint64_t before = 0;
    for (const uint32_t *at = (const uint32_t *) buffer; at < (const uint32_t *) (buffer + filled); at += 4) {
        uint64_t tick = (uint64_t) at[3] << 32 | at[2];
        wrong += tick < before || at[0] < 0x80000000u;
        before = tick;
        histogram[at[0] >> 4 & 255]++;
        records++;
    }
}

/* When the thread that runs since `begun` looks, in cycles of the clock. */
static uint32_t next_look(struct thread *thread)
{
    if (polling_policy == CPU_TIME && !thread->rate && usual) {
        thread->rate = usual;
        thread->interval = thread->next = wanted(thread);
    }
    return polling_policy == CPU_TIME ? begun + (thread->next - thread->used) : thread->due;
}

/* The thread that runs looks into its buffer. What that takes is not its time, as far as the policy is concerned. */
static void look(struct thread *thread, uint32_t at)
{
    thread->used += at - begun;
    CSR_WRITE(CSR_HWAUTH, 0);
    uint32_t filled = CSR_READ(CSR_PBHEAD);
    bool drained = polling_policy == CPU_TIME ? looked(thread, thread->used, filled) : 2 * filled >= polling_capacity;
    if (drained) {
        take(buffers[thread - threads], filled);
        CSR_WRITE(CSR_PBHEAD, 0);
        drains++;
        useful += 2 * filled >= polling_capacity;
    }
    looks++;
    thread->due = at + polling_period;
    if (thread == threads && polling_logged < 256)
        polling_log[polling_logged++] = (struct found){thread->used, filled, drained, thread->next};
    CSR_WRITE(CSR_HWAUTH, 1);
    begun = now();
    look_at = next_look(thread);
}

/* ---- the threads ---- */

static void make_ready(struct thread *thread)
{
    thread->following = NULL;
    *last = thread;
    last = &thread->following;
}

static void sleep(struct thread *thread, uint32_t turns)
{
    struct thread **place = &wheel[(pieces + smaller(turns, WHEEL - 1)) % WHEEL];
    thread->following = *place;
    *place = thread;
}

static void piece_done(void)
{
    struct thread *thread = wheel[++pieces % WHEEL];
    wheel[pieces % WHEEL] = NULL;
    while (thread) {
        struct thread *following = thread->following;
        make_ready(thread);
        thread = following;
    }
}

/* How much work until it sleeps, or (busy) until it may do something else; one in eight times it is of another kind. */
static void begin_phase(struct thread *thread)
{
    uint32_t number = next_number(&thread->state) >> 16;
    thread->left = thread->kind == BUSY ? 200 + number % 400 : thread->kind == BURSTY ? 20 + number % 60 : 1;
    if (!(number >> 8 & 7))
        thread->work = (uint8_t)((thread->work + 1) % 3);
}

static void turn(struct thread *thread)
{
    bool profiled = polling_policy != OFF;
    begun = now();
    look_at = next_look(thread);
    if (profiled) {
        CSR_WRITE(CSR_PBBASE, (uint32_t) buffers[thread - threads]);
        CSR_WRITE(CSR_PBHEAD, thread->head);
        CSR_WRITE(CSR_HWAUTH, 1);
    }
    for (uint32_t n = 0; n < QUANTUM && thread->left && pieces < polling_pieces; n++) {
        work(thread);
        thread->left--;
        piece_done();
        uint32_t at = now();
        if (polling_policy > NEVER && (int32_t)(at - look_at) >= 0)
            look(thread, at);
    }
    if (profiled) {
        CSR_WRITE(CSR_HWAUTH, 0);
        thread->head = CSR_READ(CSR_PBHEAD);
    }
    thread->used += now() - begun;
    if (thread->left) {
        make_ready(thread);
        return;
    }
    begin_phase(thread);
    if (thread->kind == BUSY)
        make_ready(thread);
    else
        sleep(thread, thread->kind == BURSTY ? 500 + next_number(&thread->state) % 2000 : 2000);
}

static void prepare(void)
{
    n_threads = smaller(polling_busy + polling_bursty + polling_idle, MAX_THREADS);
    polling_capacity = smaller(polling_capacity, MAX_CAPACITY) / RECORD * RECORD;
    for (uint32_t i = 0; i < 64; i++)
        table[i] = i * 2654435761u;
    for (uint32_t i = 0; i < n_threads; i++) {
        struct thread *thread = &threads[i];
        thread->kind = i < polling_busy ? BUSY : i < polling_busy + polling_bursty ? BURSTY : IDLE;
        thread->state = thread->sum = i;
        thread->parts = 2;
        thread->work = (uint8_t)(i % 3);
        /* At most one event a cycle: no look can be worth it before this. */
        thread->interval = thread->next = polling_capacity / RECORD / 2 * polling_every;
        thread->due = now() + polling_period;
        begin_phase(thread);
        if (thread->kind == BUSY)
            make_ready(thread);
        else
            sleep(thread, 1 + next_number(&thread->state) % 2000);
    }
    CSR_WRITE(CSR_PBSIZE, polling_capacity);
    CSR_WRITE(CSR_PBPERIOD, polling_every);
    CSR_WRITE(CSR_PBCTL, polling_event);
}

int main(void)
{
    const char *unknown = arguments_read(known, sizeof known / sizeof *known);
    if (unknown || !polling_event || !polling_every || polling_capacity < 2 * RECORD ||
        !(polling_busy | polling_bursty | polling_idle)) {
        if (unknown)
            bare_print("polling: %s is no argument of this program:\n", unknown);
        bare_print("policy=off|never|fixed|cpu-time period=CYCLES busy=N bursty=N idle=N (at most %u threads)\n",
                   MAX_THREADS);
        bare_print("capacity=BYTES (%u to %u) event=cycles|instructions|branches every=N pieces=N\n", 2 * RECORD,
                   MAX_CAPACITY);
        return 2;
    }
    prepare();
    uint32_t begin = now(), sum = 0, left = 0;
    while (pieces < polling_pieces) {
        struct thread *thread = first;
        if (!thread) {
            piece_done(); /* nobody has work: that takes as long as a piece of it */
            continue;
        }
        first = thread->following;
        if (!first)
            last = &first;
        turn(thread);
    }
    uint32_t cycles = now() - begin;
    for (uint32_t i = 0; i < n_threads; i++) {
        sum = (sum << 1 | sum >> 31) ^ threads[i].sum;
        left += threads[i].head / RECORD;
    }
    bare_print("polling: policy %u, %u threads: %u cycles, work %x, %u records, %u left\n", polling_policy, n_threads, cycles,
               sum, records, left);
    bare_print("polling: %u looks, %u drains, %u useful, %u wrong\n", looks, drains, useful, wrong);
    return wrong != 0;
}
