/* What a program on the guest kernel can use: threads, locks, devices, memory, its own counters and marked regions.
 *
 * Each function names its errors; one that names none cannot fail. Times are in ticks of the machine's `time`. */
#ifndef HEADWAY_GUEST_H
#define HEADWAY_GUEST_H

#include <stddef.h>
#include <stdint.h>

#include "calls.h"
#include "machine.h"

static inline uint32_t hw_call(uint32_t number, uint32_t a, uint32_t b, uint32_t c)
{
    register uint32_t a0 __asm__("a0") = a;
    register uint32_t a1 __asm__("a1") = b;
    register uint32_t a2 __asm__("a2") = c;
    register uint32_t a7 __asm__("a7") = number;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a1), "r"(a2), "r"(a7) : "memory");
    return a0;
}

/* ---- threads ---- */

/* Start a thread: its id, or 0 if there are too many. What `body` returns is what hw_join answers. */
static inline uint32_t hw_spawn(const char *name, uint32_t (*body)(void *), void *argument)
{
    struct hw_start start = {name, body, argument, 0};
    return hw_call(CALL_SPAWN, (uint32_t) &start, 0, 0);
}

/* The same on a stack of the caller's: `stack` is its highest address, 16-aligned. */
static inline uint32_t hw_spawn_on(const char *name, uint32_t (*body)(void *), void *argument, void *stack)
{
    struct hw_start start = {name, body, argument, stack};
    return hw_call(CALL_SPAWN, (uint32_t) &start, 0, 0);
}

static inline void hw_exit(uint32_t value)
{
    hw_call(CALL_EXIT, value, 0, 0);
    __builtin_unreachable();
}

/* Wait for the end of a thread: what it returned; 0xFFFFFFFF if there is no such thread or somebody waits already. */
static inline uint32_t hw_join(uint32_t id) { return hw_call(CALL_JOIN, id, 0, 0); }

static inline void hw_yield(void) { hw_call(CALL_YIELD, 0, 0, 0); }

static inline uint64_t hw_time(void) { return COUNTER_READ(time, timeh); }

static inline void hw_sleep_until(uint64_t tick) { hw_call(CALL_SLEEP, (uint32_t) tick, (uint32_t)(tick >> 32), 0); }

/* ---- locks ---- */

static inline void hw_lock(struct hw_mutex *mutex) { hw_call(CALL_LOCK, (uint32_t) mutex, 0, 0); }

static inline void hw_unlock(struct hw_mutex *mutex) { hw_call(CALL_UNLOCK, (uint32_t) mutex, 0, 0); }

/* Give the mutex back and wait for a signal; with the mutex again afterwards. */
static inline void hw_wait(struct hw_condition *condition, struct hw_mutex *mutex)
{
    hw_call(CALL_WAIT, (uint32_t) condition, (uint32_t) mutex, 0);
}

static inline void hw_signal(struct hw_condition *condition) { hw_call(CALL_SIGNAL, (uint32_t) condition, 1, 0); }

static inline void hw_broadcast(struct hw_condition *condition)
{
    hw_call(CALL_SIGNAL, (uint32_t) condition, UINT32_MAX, 0);
}

/* Waits while the queue is full. */
static inline void hw_send(struct hw_queue *queue, uint32_t value) { hw_call(CALL_SEND, (uint32_t) queue, value, 0); }

/* Waits while the queue is empty. */
static inline uint32_t hw_receive(struct hw_queue *queue) { return hw_call(CALL_RECEIVE, (uint32_t) queue, 0, 0); }

/* ---- devices, by interrupt: the thread waits off the processor ---- */

static inline void hw_write(const void *bytes, uint32_t length)
{
    hw_call(CALL_WRITE, (uint32_t) bytes, length, 0);
}

/* At least one byte, at most `length`: how many. */
static inline uint32_t hw_read(void *bytes, uint32_t length) { return hw_call(CALL_READ, (uint32_t) bytes, length, 0); }

/* `count` sectors of 512 bytes: 0, or 0xFFFFFFFF if the device refused. */
static inline uint32_t hw_block_read(uint32_t sector, void *to, uint32_t count)
{
    return hw_call(CALL_BLOCK_READ, sector, (uint32_t) to, count);
}

static inline uint32_t hw_block_write(uint32_t sector, const void *from, uint32_t count)
{
    return hw_call(CALL_BLOCK_WRITE, sector, (uint32_t) from, count);
}

/* ---- devices, by polling: the thread asks again and again, which is charged to IOPC; one thread at a time ---- */

static inline void hw_polled_put(uint8_t byte)
{
    while (!REGISTER(UART_TXSTATUS))
        ;
    REGISTER(UART_TXDATA) = byte;
}

static inline uint8_t hw_polled_get(void)
{
    while (!REGISTER(UART_RXSTATUS))
        ;
    return (uint8_t) REGISTER(UART_RXDATA);
}

/* 0, or 0xFFFFFFFF if the device refused. */
static inline uint32_t hw_polled_block(uint32_t command, uint32_t sector, void *bytes, uint32_t count)
{
    uint32_t status;
    REGISTER(BLOCK_SECTOR) = sector;
    REGISTER(BLOCK_ADDRESS) = (uint32_t) bytes;
    REGISTER(BLOCK_COUNT) = count;
    REGISTER(BLOCK_COMMAND) = command;
    while ((status = REGISTER(BLOCK_STATUS)) == BLOCK_BUSY)
        ;
    return status == BLOCK_FAILED ? UINT32_MAX : 0;
}

/* ---- marked regions ---- */

/* A thread's open regions. tp points to it; the kernel has made it zero. */
struct hw_nesting {
    uint32_t depth;
    uint32_t before[15];
};

static inline struct hw_nesting *hw_nesting(void)
{
    struct hw_nesting *nesting;
    __asm__("mv %0, tp" : "=r"(nesting));
    return nesting;
}

/* The write of hwsw is the first of what opening a region does and the last of what closing one does: the rest of the
 * cost lies inside the region, and hwcorr takes out the one instruction that does not. Of more than 15 nested regions
 * the innermost keep the tag of the sixteenth. */
static inline void hw_region_open(uint32_t signals)
{
    uint32_t before = CSR_SWAP(CSR_HWSW, signals);
    struct hw_nesting *nesting = hw_nesting();
    if (nesting->depth < 15)
        nesting->before[nesting->depth] = before;
    nesting->depth++;
}

static inline void hw_region_close(void)
{
    struct hw_nesting *nesting = hw_nesting();
    if (!nesting->depth)
        return;
    if (--nesting->depth < 15)
        CSR_WRITE(CSR_HWSW, nesting->before[nesting->depth]);
}

/* From here to the matching clear: not progress, but work of the system (KPC). Tags 0 to 31. */
static inline void hw_noneffective_set(uint32_t tag) { hw_region_open(HWSW_SWNE | HWSW_KPSW | tag << 8); }

static inline void hw_noneffective_clear(void) { hw_region_close(); }

/* From here to the matching clear: busy waiting (IOPC). Tags 0 to 23. */
static inline void hw_poll_set(uint32_t tag) { hw_region_open(HWSW_SWNE | HWSW_IOSW | tag << 8); }

static inline void hw_poll_clear(void) { hw_region_close(); }

/* ---- the thread's own counters, live (docs/machine.md, section 4), in cycles ---- */

#define hw_counter(number) COUNTER_READ(CSR_COUNTER + number, CSR_COUNTER_HIGH + number)

/* A thread's block, as of when it last left a hart; NULL if there is no such thread. */
static inline const volatile struct hw_block *hw_block_of(uint32_t id)
{
    return (const volatile struct hw_block *) hw_call(CALL_BLOCK_OF, id, 0, 0);
}

/* ---- memory: marked as non-effective with the tag `malloc` ---- */

/* 8-aligned; NULL if there is not that much. */
void *malloc(size_t size);
void free(void *memory);

/* ---- text ---- */

/* To the console, in one piece of at most 120 bytes: %s, %u, %x (eight digits), %U (64 bits). */
void hw_print(const char *format, ...);

#endif
