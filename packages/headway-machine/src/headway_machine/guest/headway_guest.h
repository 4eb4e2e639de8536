/* The interface of the guest kernel to programs: threads, locks, devices, memory, counters and marked regions.
 *
 * A function that can fail names its errors. Times are in ticks of the machine's `time`. */
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

/* Start a thread. Return its id, or 0 if there are too many. hw_join returns what `body` returned. */
static inline uint32_t hw_spawn(const char *name, uint32_t (*body)(void *), void *argument)
{
    struct hw_start start = {name, body, argument, 0};
    return hw_call(CALL_SPAWN, (uint32_t) &start, 0, 0);
}

/* Start a thread on a stack of the caller; `stack` is its highest address, 16-aligned. */
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

/* Wait for a thread to end. Return what it returned; 0xFFFFFFFF if it does not exist or another thread waits for it. */
static inline uint32_t hw_join(uint32_t id) { return hw_call(CALL_JOIN, id, 0, 0); }

static inline void hw_yield(void) { hw_call(CALL_YIELD, 0, 0, 0); }

static inline uint64_t hw_time(void) { return COUNTER_READ(time, timeh); }

static inline void hw_sleep_until(uint64_t tick) { hw_call(CALL_SLEEP, (uint32_t) tick, (uint32_t)(tick >> 32), 0); }

/* ---- locks ---- */

static inline void hw_lock(struct hw_mutex *mutex) { hw_call(CALL_LOCK, (uint32_t) mutex, 0, 0); }

static inline void hw_unlock(struct hw_mutex *mutex) { hw_call(CALL_UNLOCK, (uint32_t) mutex, 0, 0); }

/* Release the mutex, wait for a signal, and take the mutex again. */
static inline void hw_wait(struct hw_condition *condition, struct hw_mutex *mutex)
{
    hw_call(CALL_WAIT, (uint32_t) condition, (uint32_t) mutex, 0);
}

static inline void hw_signal(struct hw_condition *condition) { hw_call(CALL_SIGNAL, (uint32_t) condition, 1, 0); }

static inline void hw_broadcast(struct hw_condition *condition)
{
    hw_call(CALL_SIGNAL, (uint32_t) condition, UINT32_MAX, 0);
}

/* Append a value; wait while the queue is full. */
static inline void hw_send(struct hw_queue *queue, uint32_t value) { hw_call(CALL_SEND, (uint32_t) queue, value, 0); }

/* Remove a value and return it; wait while the queue is empty. */
static inline uint32_t hw_receive(struct hw_queue *queue) { return hw_call(CALL_RECEIVE, (uint32_t) queue, 0, 0); }

/* ---- devices, by interrupt: the thread waits off the processor ---- */

static inline void hw_write(const void *bytes, uint32_t length)
{
    hw_call(CALL_WRITE, (uint32_t) bytes, length, 0);
}

/* Read at least one byte and at most `length` bytes. Return how many. */
static inline uint32_t hw_read(void *bytes, uint32_t length) { return hw_call(CALL_READ, (uint32_t) bytes, length, 0); }

/* Read `count` sectors of 512 bytes. Return 0, or 0xFFFFFFFF if the device refused. */
static inline uint32_t hw_block_read(uint32_t sector, void *to, uint32_t count)
{
    return hw_call(CALL_BLOCK_READ, sector, (uint32_t) to, count);
}

static inline uint32_t hw_block_write(uint32_t sector, const void *from, uint32_t count)
{
    return hw_call(CALL_BLOCK_WRITE, sector, (uint32_t) from, count);
}

/* ---- devices, by polling: the thread checks the status in a loop, which counts as IOPC; one thread at a time ---- */

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

/* Do a command of the block device. Return 0, or 0xFFFFFFFF if the device refused. */
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

/* The open regions of a thread. tp points to them; the kernel sets them to zero. */
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

/* Opening a region writes hwsw first, and closing one writes it last. The rest of the cost is therefore inside the
 * region, and hwcorr takes out the one instruction that is not. Of more than 15 nested regions the innermost keep the
 * tag of the sixteenth. */
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

/* Begin a region that is not progress, but work of the system (KPC), up to the matching clear. Tags 0 to 31. */
static inline void hw_noneffective_set(uint32_t tag) { hw_region_open(HWSW_SWNE | HWSW_KPSW | tag << 8); }

static inline void hw_noneffective_clear(void) { hw_region_close(); }

/* Begin a region of busy waiting (IOPC), up to the matching clear. Tags 0 to 23. */
static inline void hw_poll_set(uint32_t tag) { hw_region_open(HWSW_SWNE | HWSW_IOSW | tag << 8); }

static inline void hw_poll_clear(void) { hw_region_close(); }

/* ---- the thread's own counters, live (docs/machine.md, section 4), in cycles ---- */

#define hw_counter(number) COUNTER_READ(CSR_COUNTER + number, CSR_COUNTER_HIGH + number)

/* Return a thread's block, as of when it last left a hart; NULL if there is no such thread. */
static inline const volatile struct hw_block *hw_block_of(uint32_t id)
{
    return (const volatile struct hw_block *) hw_call(CALL_BLOCK_OF, id, 0, 0);
}

/* ---- memory: marked as non-effective with the tag `malloc` ---- */

/* Return 8-aligned memory; NULL if there is not enough. */
void *malloc(size_t size);
void free(void *memory);

/* ---- text ---- */

/* Print to the console, at most 120 bytes in one call: %s, %u, %x (eight digits), %U (64 bits). */
void hw_print(const char *format, ...);

#endif
