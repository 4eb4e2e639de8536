/* Programs for what_if_machine.py, on the guest kernel: task=NAME, and changed=1 for the version that is really changed. */
#include "arguments.h"
#include "headway_guest.h"

HW_TAG(1, parse);

static const char *const tasks[] = {"function", "pipeline", "lock", "computing", "sleep", "balance", NULL};
enum { FUNCTION, PIPELINE, LOCK, COMPUTING, SLEEP, BALANCE };
static uint32_t task, changed;
static const struct argument known[] = {{"task", &task, tasks}, {"changed", &changed, NULL}};

#define WORKERS 4

static struct hw_mutex locks[WORKERS];
static uint32_t ring[4];
static struct hw_queue queue = {.ring = ring, .capacity = 4};

static void work(uint32_t times)
{
    for (volatile uint32_t left = times; left; left--)
        ;
}

static void parse(uint32_t times)
{
    hw_noneffective_set(1);
    work(times);
    hw_noneffective_clear();
}

/* Each thread parses, and does as much else. */
static uint32_t function(void *nothing)
{
    (void) nothing;
    for (uint32_t round = 0; round < 40; round++) {
        parse(changed ? 200 : 400);
        work(400);
    }
    return 0;
}

static uint32_t produce(void *nothing)
{
    (void) nothing;
    for (uint32_t n = 1; n <= 60; n++) {
        work(200);
        hw_send(&queue, n);
    }
    hw_send(&queue, 0);
    return 0;
}

static uint32_t consume(void *nothing)
{
    (void) nothing;
    while (hw_receive(&queue))
        parse(changed ? 200 : 800);
    return 0;
}

/* Two threads that share one lock; changed: each has its own. */
static uint32_t lock(void *which)
{
    struct hw_mutex *mutex = &locks[changed ? (uint32_t) which : 0];
    for (uint32_t round = 0; round < 30; round++) {
        hw_lock(mutex);
        work(300);
        hw_unlock(mutex);
        work(60);
    }
    return 0;
}

static uint32_t compute(void *nothing)
{
    (void) nothing;
    work(12000);
    return 0;
}

static uint32_t sleep(void *nothing)
{
    (void) nothing;
    for (uint32_t round = 0; round < 20; round++) {
        hw_sleep_until(hw_time() + (changed ? 4000 : 8000));
        work(300);
    }
    return 0;
}

static uint32_t slow(void *nothing)
{
    (void) nothing;
    parse(changed ? 6000 : 18000);
    return 0;
}

int main(void)
{
    static const struct {
        uint32_t threads;
        const char *names[WORKERS];
        uint32_t (*bodies[WORKERS])(void *);
    } all[] = {
        [FUNCTION] = {2, {"worker", "worker"}, {function, function}},
        [PIPELINE] = {2, {"producer", "consumer"}, {produce, consume}},
        [LOCK] = {2, {"worker", "worker"}, {lock, lock}},
        [COMPUTING] = {4, {"worker", "worker", "worker", "worker"}, {compute, compute, compute, compute}},
        [SLEEP] = {2, {"worker", "worker"}, {sleep, sleep}},
        [BALANCE] = {2, {"slow", "fast"}, {slow, compute}},
    };
    uint32_t ids[WORKERS];
    if (arguments_read(known, sizeof known / sizeof *known))
        return 1;
    for (uint32_t n = 0; n < all[task].threads; n++)
        ids[n] = hw_spawn(all[task].names[n], all[task].bodies[n], (void *) n);
    for (uint32_t n = 0; n < all[task].threads; n++)
        hw_join(ids[n]);
    return 0;
}
