/* Profile buffers and state totals of threads. This file stands between the kernel and its entry by the linker's --wrap:
 * what is not profiled runs the kernel as it is without it. */

#include "profiles.h"

#include "kernel.h"

#define USER_CALL 8
#define MEMORY 0x80000000u
#define MEMORY_SIZE 0x10020008

HW_NAME("headway_call_17_profile");
HW_NAME("headway_call_18_profiled");

/* What a thread has: that with this id, whose place in the kernel's table this is. */
static struct profiled {
    uint32_t id;
    struct hw_profile profile;
    uint32_t filled; /* bytes of the buffer */
    bool authorised;
} profiles[THREADS_MAX];

struct thread *__real_trap(struct thread *self, uint32_t cause);
struct thread *__real_choose(struct hart *hart, struct thread *self);
struct thread *__wrap_trap(struct thread *self, uint32_t cause);
struct thread *__wrap_choose(struct hart *hart, struct thread *self);

static struct profiled *profile_of(const struct thread *thread)
{
    uint32_t id = thread->block.id;
    struct profiled *found = &profiles[(id - 1) % THREADS_MAX];
    return id && found->id == id ? found : NULL;
}

/* Take the buffer and the table from the hart, which runs another thread next. */
static void take_away(struct profiled *had)
{
    if (had->profile.records) {
        had->authorised = CSR_SWAP(CSR_HWAUTH, 0) & 1;
        had->filled = CSR_READ(CSR_PBHEAD);
        CSR_WRITE(CSR_PBCTL, 0);
    }
    if (had->profile.states)
        CSR_WRITE(CSR_HWMON, 0);
}

static void give(const struct profiled *has)
{
    const struct hw_profile *profile = &has->profile;
    if (profile->states)
        CSR_WRITE(CSR_HWMON, (uint32_t) profile->states);
    if (!profile->records)
        return;
    CSR_WRITE(CSR_PBBASE, (uint32_t) profile->records);
    CSR_WRITE(CSR_PBSIZE, profile->size);
    CSR_WRITE(CSR_PBHEAD, has->filled);
    CSR_WRITE(CSR_PBPERIOD, profile->period);
    CSR_WRITE(CSR_PBCTL, profile->each);
    if (has->authorised)
        CSR_WRITE(CSR_HWAUTH, 1);
}

static bool in_memory(const void *from, uint32_t size)
{
    uint32_t offset = (uint32_t) from - MEMORY, all = REGISTER(MEMORY_SIZE);
    return offset <= all && size <= all - offset && !(offset & 7);
}

static bool is_possible(const struct hw_profile *profile)
{
    if (profile->states && !in_memory(profile->states, HW_STATES * sizeof(struct hw_state)))
        return false;
    return !profile->records ||
           (in_memory(profile->records, profile->size) && !(profile->size & 15) && profile->period &&
            profile->each >= HW_EACH_CYCLES && profile->each <= HW_EACH_BRANCHES);
}

static uint32_t set_profile(const struct thread *self, const struct hw_profile *profile)
{
    struct profiled *had = profile_of(self);
    if (!is_possible(profile))
        return UINT32_MAX;
    if (had)
        take_away(had);
    had = &profiles[(self->block.id - 1) % THREADS_MAX];
    *had = (struct profiled){self->block.id, *profile, 0, false};
    give(had);
    return 0;
}

static uint32_t bytes_filled(const struct thread *self)
{
    struct profiled *has = profile_of(self);
    if (!has)
        return 0;
    take_away(has);
    give(has);
    return has->filled;
}

struct thread *__wrap_choose(struct hart *hart, struct thread *self)
{
    struct thread *next = __real_choose(hart, self);
    if (next != self) {
        struct profiled *had = profile_of(self), *has = profile_of(next);
        if (had)
            take_away(had);
        if (has)
            give(has);
    }
    return next;
}

struct thread *__wrap_trap(struct thread *self, uint32_t cause)
{
    uint32_t number = self->x[A7];
    if (cause == USER_CALL && (number == CALL_PROFILE || number == CALL_PROFILED)) {
        self->x[A0] = number == CALL_PROFILE ? set_profile(self, (const struct hw_profile *) self->x[A0])
                                             : bytes_filled(self);
        self->x[0] += 4;
        return self;
    }
    return __real_trap(self, cause);
}
