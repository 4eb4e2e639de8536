/* How busy is every hart, and how fast does it run, as software can tell that reads counters while it is disturbed.
 *
 * Each hart has work for a part of its time and sleeps for the rest; every second core runs at three quarters of the
 * machine's clock, which is stopped for an eighth of the time on top of that. Something more urgent takes each hart once a period, often
 * about when the counters are read; the configuration has management interrupts that stop all of them
 * (utilisation.toml). The same counters are read in two ways, at the same time:
 *
 * naively: each hart reads its counters and then the timer. What comes in between is in the timer and not in them;
 * synchronised (US patent 7,617,488): hart 0 announces the reading (Wait Sync Event), each of the others stops what it
 * does and acknowledges, all read as soon as the last has come, and go on when all have (Done Sync Event). Each reads the
 * timer on both sides of its counters. If that took longer than reading takes, or one read too long after another, the
 * reading is dropped and tried again at once.
 *
 * All readings stay in memory (utilisation_naive, utilisation_kept, utilisation_tries), for who wants to compare them
 * with what the machine did. */

#include "bare.h"

#define ROUNDS 100
#define TRIES 6 /* of one reading */
#define START 60000 /* ticks: the first reading */
#define PERIOD 20000
#define SLICE 2500 /* of work and sleep */
#define CLOCK_MHZ 100 /* a second has 100,000,000 ticks */

#define MIE_SOFTWARE 8
#define MIE_TIMER 0x80

/* Differences of 32 bits are right as long as a period is shorter than 2^32 ticks. */
struct reading {
    uint32_t time, unhalted, reference;
};

/* One hart's part in one try: from before its counters were read to after that. */
struct try {
    uint32_t from, until, kept;
};

struct reading utilisation_naive[HARTS_MAX][ROUNDS], utilisation_kept[HARTS_MAX][ROUNDS];
struct try utilisation_tries[HARTS_MAX][ROUNDS * TRIES];
uint32_t utilisation_rounds[ROUNDS]; /* whether its reading was kept */
uint32_t utilisation_tried; /* readings of all harts together, kept or not */

/* number of the try << 16 | OPEN, or not (any more) | how many harts have come: when all have, all read */
static uint32_t meeting;
#define OPEN 0x100u
#define COME 0xFFu
static uint32_t finished;
static volatile uint32_t over; /* rounds whose meeting has ended */

/* A hart's own, in lines that no other hart writes. */
static struct __attribute__((aligned(64))) hart {
    volatile uint32_t alarm, rang; /* the next time to wake up, and whether that has come */
    uint32_t urgent, length; /* when the more urgent work comes, and ticks of it */
    uint32_t random;
    uint32_t round, joined;
    uint32_t held; /* ticks in a meeting, at most */
    struct reading now;
    uint32_t until;
} harts[HARTS_MAX];

static uint32_t absent, disturbed, lost;

static uint32_t threads(void) { return REGISTER(MACHINE_THREADS); }

static uint32_t now(void) { return CSR_READ(time); }

/* Whether `moment` has come; ticks modulo 2^32. */
static int come(uint32_t moment) { return (int32_t)(now() - moment) >= 0; }

static uint32_t meeting_of(uint32_t round) { return START + round * PERIOD; }

static uint32_t slow(uint32_t hart) { return hart / threads() % 2; }

/* What reading takes, and a little: one instruction of a hart comes after one of each of the others. */
static uint32_t longest_reading(uint32_t hart) { return 8 * threads() * (slow(hart) ? 2 : 1); }

static uint32_t longest_skew(void) { return 60 + 24 * threads(); }

static uint32_t patience(void) { return 2000 + 100 * bare_harts(); }

static uint32_t chance(struct hart *hart, uint32_t below)
{
    hart->random = hart->random * 1664525 + 1013904223;
    return (hart->random >> 16) % below;
}

/* ---- what disturbs: a timer's interrupt, in which something more urgent runs ---- */

static void arm(struct hart *hart, uint32_t number)
{
    uint32_t next = hart->alarm;
    if (hart->rang || (int32_t)(hart->urgent - next) < 0)
        next = hart->urgent;
    REGISTER(CLINT_MTIMECMP + 8 * number) = next;
}

/* In about a third of the periods when the counters are read, else anywhere. */
static void plan(struct hart *hart)
{
    uint32_t moment = meeting_of(hart->round), spread = 300 + 300 * threads();
    hart->urgent = moment + (chance(hart, 3) ? PERIOD / 4 + chance(hart, PERIOD / 2) : chance(hart, spread));
    hart->length = 300 + chance(hart, 3000);
}

__attribute__((interrupt("machine"), aligned(4))) static void handler(void)
{
    uint32_t number = CSR_READ(mhartid);
    struct hart *hart = &harts[number];
    if (!hart->rang && come(hart->alarm))
        hart->rang = 1;
    if (come(hart->urgent)) {
        uint32_t end = now() + hart->length;
        while (!come(end))
            ;
        hart->round++;
        plan(hart);
    }
    arm(hart, number);
}

/* ---- what it disturbs ---- */

static void hold_interrupts(void) { __asm__ volatile("csrci mstatus, 8" ::: "memory"); }

static void let_interrupts(void) { __asm__ volatile("csrsi mstatus, 8" ::: "memory"); }

static void set_alarm(struct hart *hart, uint32_t number, uint32_t moment)
{
    hold_interrupts();
    hart->alarm = moment;
    hart->rang = 0;
    arm(hart, number);
    let_interrupts();
}

/* The interrupt may come between looking and sleeping: it is held back there, and wakes WFI all the same. */
static void sleep_until(struct hart *hart, uint32_t number, uint32_t moment)
{
    set_alarm(hart, number, moment);
    while (!hart->rang) {
        hold_interrupts();
        if (!hart->rang)
            __asm__ volatile("wfi");
        let_interrupts();
    }
}

/* Until the moment: work for hart 1's 5, hart 2's 23 … per cent of each slice, sleep for the rest. */
static void work_until(struct hart *hart, uint32_t number, uint32_t moment)
{
    uint32_t share = 5 + number * 18 % 108, begin = now();
    while (!come(moment)) {
        while ((int32_t)(now() - begin) < (int32_t)(SLICE * share / 100) && !come(moment))
            ;
        begin += SLICE;
        sleep_until(hart, number, (int32_t)(begin - moment) < 0 ? begin : moment);
    }
}

/* ---- the two ways of reading ---- */

static void read_naively(struct reading *into)
{
    into->unhalted = (uint32_t) COUNTER_READ(CSR_COUNTER + COUNTER_UNHALTED, CSR_COUNTER_HIGH + COUNTER_UNHALTED);
    into->reference = (uint32_t) COUNTER_READ(CSR_COUNTER + COUNTER_REFERENCE, CSR_COUNTER_HIGH + COUNTER_REFERENCE);
    into->time = (uint32_t) COUNTER_READ(time, timeh);
}

/* Answers when it was done. In one line of the instruction cache, or reading would take a miss longer. */
__attribute__((noinline, aligned(64))) static uint32_t read_between(struct reading *into)
{
    uint32_t from = CSR_READ(time), unhalted = CSR_READ(CSR_COUNTER + COUNTER_UNHALTED);
    uint32_t reference = CSR_READ(CSR_COUNTER + COUNTER_REFERENCE), until = CSR_READ(time);
    *into = (struct reading){from, unhalted, reference};
    return until;
}

static uint32_t look(void) { return __atomic_load_n(&meeting, __ATOMIC_SEQ_CST); }

/* Closes a meeting that not all have come to; not if somebody comes just now. */
static int call_off(uint32_t seen)
{
    return __atomic_compare_exchange_n(&meeting, &seen, seen & ~(OPEN | COME), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* Everybody is here: read, and say so. */
static void take_part(struct hart *hart)
{
    hart->until = read_between(&hart->now);
    __atomic_fetch_add(&finished, 1, __ATOMIC_SEQ_CST);
}

/* Whether nothing came between; the reading of each hart is written down in any case. */
static uint32_t judge(uint32_t parts)
{
    uint32_t first = harts[0].now.time, last = first, good = 1;
    for (uint32_t part = 0; part < parts; part++) {
        uint32_t from = harts[part].now.time;
        if ((int32_t)(from - first) < 0)
            first = from;
        if ((int32_t)(from - last) > 0)
            last = from;
        good &= harts[part].until - from <= longest_reading(part);
    }
    good &= last - first <= longest_skew();
    for (uint32_t part = 0; part < parts; part++)
        utilisation_tries[part][utilisation_tried] = (struct try){harts[part].now.time, harts[part].until, good};
    utilisation_tried++;
    return good;
}

/* Hart 0 announces, and judges. */
static void conduct(uint32_t round, uint32_t parts)
{
    static uint32_t number;
    uint32_t good = 0, began = now();
    for (uint32_t try = 0; try < TRIES && !good; try++) {
        uint32_t seen, limit;
        number++;
        finished = 0;
        read_between(&harts[0].now); /* only to have its code in the cache */
        __atomic_store_n(&meeting, number << 16 | OPEN | 1, __ATOMIC_SEQ_CST); /* Wait Sync Event */
        limit = now() + patience();
        do
            seen = look();
        while ((seen & COME) != parts && !(come(limit) && call_off(seen)));
        if ((seen & COME) != parts) {
            absent++;
            continue;
        }
        take_part(&harts[0]);
        while (__atomic_load_n(&finished, __ATOMIC_SEQ_CST) != parts)
            ;
        good = judge(parts);
        disturbed += !good;
    }
    for (uint32_t part = 0; part < parts && good; part++)
        utilisation_kept[part][round] = harts[part].now;
    lost += !good;
    utilisation_rounds[round] = good;
    __atomic_store_n(&meeting, number << 16, __ATOMIC_SEQ_CST);
    over = round + 1; /* Done Sync Event */
    if (now() - began > harts[0].held)
        harts[0].held = now() - began;
}

/* The others acknowledge each try, and hold until the reading is over. */
static void attend(struct hart *hart, uint32_t round, uint32_t parts)
{
    uint32_t began = now();
    while (over <= round) {
        uint32_t seen = look(), number = seen >> 16;
        if (!(seen & OPEN) || hart->joined == number)
            continue;
        read_between(&hart->now);
        seen = __atomic_fetch_add(&meeting, 1, __ATOMIC_SEQ_CST); /* ACK */
        if (!(seen & OPEN))
            continue; /* it has been called off meanwhile, so it does not matter who is counted */
        hart->joined = number = seen >> 16;
        do
            seen = look();
        while (seen >> 16 == number && seen & OPEN && (seen & COME) != parts);
        if (seen >> 16 == number && seen & OPEN)
            take_part(hart);
    }
    if (now() - began > hart->held)
        hart->held = now() - began;
}

static void live(uint32_t number, uint32_t parts)
{
    struct hart *hart = &harts[number];
    hart->random = 12345 + 7919 * number;
    CSR_WRITE(CSR_PWSTATE, 1 + number % 2);
    if (slow(number)) {
        CSR_WRITE(CSR_PWCLOCK, CLOCK_FULL * 3 / 4);
        CSR_WRITE(CSR_PWDUTY, 1);
    }
    CSR_WRITE(mtvec, &handler);
    CSR_WRITE(mie, MIE_TIMER);
    plan(hart);
    REGISTER(CLINT_MTIMECMP + 8 * number + 4) = 0;
    set_alarm(hart, number, meeting_of(0));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        work_until(hart, number, meeting_of(round));
        read_naively(&utilisation_naive[number][round]);
        if (number == 0)
            conduct(round, parts);
        else
            attend(hart, round, parts);
    }
    hold_interrupts();
    CSR_WRITE(mie, number ? MIE_SOFTWARE : 0); /* as it was */
}

/* ---- what came of it ---- */

struct range {
    uint32_t least, most, impossible;
    struct reading first, last;
};

/* Effective frequencies in kHz, of the time from one reading to the next. No hart runs faster than the machine's clock; 1 %
 * is left to what its two looks are apart. */
static struct range frequencies(const struct reading *readings, const uint32_t *kept)
{
    struct range found = {.least = UINT32_MAX};
    const struct reading *before = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const struct reading *after = &readings[round];
        if (kept && !kept[round])
            continue;
        if (before) {
            uint32_t busy = (after->unhalted - before->unhalted) * CLOCK_MHZ, span = after->time - before->time;
            uint32_t khz = busy / span * 1000 + busy % span * 1000 / span;
            found.least = khz < found.least ? khz : found.least;
            found.most = khz > found.most ? khz : found.most;
            found.impossible += khz > CLOCK_MHZ * 1010;
        } else
            found.first = *after;
        found.last = *after;
        before = after;
    }
    return found;
}

int main(void)
{
    uint32_t impossible = 0, naively = 0, held = 0;
    bare_everywhere(live);
    for (uint32_t hart = 0; hart < bare_harts(); hart++) {
        struct range naive = frequencies(utilisation_naive[hart], 0);
        struct range kept = frequencies(utilisation_kept[hart], utilisation_rounds);
        uint32_t reference = kept.last.reference - kept.first.reference, span = kept.last.time - kept.first.time;
        if (span && reference)
            bare_print("hart %u: %u %% busy at %u MHz; effective %u to %u kHz synchronised, %u to %u naively\n", hart,
                       reference * 100 / span, (kept.last.unhalted - kept.first.unhalted) * CLOCK_MHZ / reference,
                       kept.least, kept.most, naive.least, naive.most);
        impossible += kept.impossible;
        naively += naive.impossible;
        held = harts[hart].held > held ? harts[hart].held : held;
    }
    bare_print("held for %u ticks at most; tried again: %u somebody did not come, %u disturbed\n", held, absent, disturbed);
    bare_print("utilisation: kept %u of %u readings; faster than the clock: %u synchronised, %u naive\n", ROUNDS - lost,
               ROUNDS, impossible, naively);
    return impossible || lost > ROUNDS / 4;
}
