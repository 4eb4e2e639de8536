/* Memory for the threads: first fit in one list of free pieces; a freed piece is merged with its neighbours at once.
 *
 * All of it is a marked region (tag `malloc`), including the wait for its lock. The cost of an allocation depends on what
 * other threads have allocated, so it does not count as a thread's progress. */

#include "headway_guest.h"

#define USED 1u

/* The header of each piece: the length of the piece before it, and its own length, both including the header. */
struct piece {
    uint32_t before;
    uint32_t size; /* a multiple of 8; lowest bit: USED */
    struct piece *next, *previous; /* in the list of free pieces */
};
#define HEADER 8u
#define MIN 16u

extern uint8_t heap_start[], heap_end[];
static struct hw_mutex heap;
static struct piece list = {0, USED, &list, &list};
static int prepared;

static struct piece *after(struct piece *piece) { return (struct piece *) ((uint8_t *) piece + (piece->size & ~USED)); }

static void link(struct piece *piece)
{
    piece->next = list.next;
    piece->previous = &list;
    list.next->previous = piece;
    list.next = piece;
}

static void unlink(struct piece *piece)
{
    piece->next->previous = piece->previous;
    piece->previous->next = piece->next;
}

static void prepare(void)
{
    struct piece *whole = (struct piece *) heap_start;
    whole->before = 0;
    whole->size = (uint32_t)(heap_end - heap_start) - HEADER;
    after(whole)->before = whole->size;
    after(whole)->size = USED; /* the end of the heap, which is never freed */
    link(whole);
    prepared = 1;
}

static void *allocate(uint32_t size)
{
    for (struct piece *piece = list.next; piece != &list; piece = piece->next) {
        if (piece->size < size)
            continue;
        unlink(piece);
        if (piece->size - size >= MIN) {
            struct piece *rest = (struct piece *) ((uint8_t *) piece + size);
            rest->before = size;
            rest->size = piece->size - size;
            after(rest)->before = rest->size;
            link(rest);
            piece->size = size;
        }
        piece->size |= USED;
        return (uint8_t *) piece + HEADER;
    }
    return NULL;
}

static void release(struct piece *piece)
{
    piece->size &= ~USED;
    struct piece *next = after(piece);
    if (!(next->size & USED)) {
        unlink(next);
        piece->size += next->size;
    }
    if (piece->before) {
        struct piece *previous = (struct piece *) ((uint8_t *) piece - piece->before);
        if (!(previous->size & USED)) {
            unlink(previous);
            previous->size += piece->size;
            piece = previous;
        }
    }
    after(piece)->before = piece->size;
    link(piece);
}

void *malloc(size_t size)
{
    void *memory = NULL;
    hw_noneffective_set(TAG_MALLOC);
    if (size < (size_t)(heap_end - heap_start)) {
        uint32_t whole = (size + HEADER + 7) & ~7u;
        hw_lock(&heap);
        if (!prepared)
            prepare();
        memory = allocate(whole < MIN ? MIN : whole);
        hw_unlock(&heap);
    }
    hw_noneffective_clear();
    return memory;
}

void free(void *memory)
{
    hw_noneffective_set(TAG_MALLOC);
    if (memory) {
        hw_lock(&heap);
        release((struct piece *) ((uint8_t *) memory - HEADER));
        hw_unlock(&heap);
    }
    hw_noneffective_clear();
}
