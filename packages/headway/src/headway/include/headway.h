/* headway.h: mark regions of a program whose time is not progress, or is polling, or is progress with a name, and say what
   its threads work on.

   One header, no library, C99 and C++11 and later, gcc and clang. A mark costs two readings of the clock and a few stores
   to memory of the thread, whether anybody observes or not. `headway stat` sees it from outside.

       #include <headway.h>

       HEADWAY_NONEFFECTIVE("parse") { ... }              // return and break end it correctly, too
       HEADWAY_POLL("ring") { ... }
       HEADWAY_STATE("render") { ... }                    // progress, with a name: the state user.render

       static headway_tag_t parse;                        // or the bare pair, with the tag looked up once
       parse = headway_tag("parse");
       headway_set_noneffective(parse);  ...  headway_clear_noneffective();

       static headway_tag_t render;
       render = headway_state_tag("render");
       headway_set_state(render);  ...  headway_clear_state();

       headway::noneffective region{"parse"};             // C++: until the end of the scope

   Regions nest, and time is charged to the innermost. Code that leaves regions by longjmp must restore the depth
   afterwards: `headway_restore(depth)`, with the depth that `headway_depth()` returned where setjmp was called.

   A task is what a thread works on: a request, a job. A thread works on one task at a time, or on none:

       HEADWAY_TASK(request_id) { ... }                   // until the end of the block; then the task before goes on
       headway_task(request_id);  ...  headway_task(0);   // or the bare calls; 0: no task

       static headway_task_name_t checkout;               // tasks of one name are added up
       checkout = headway_task_name("checkout");
       headway_named_task(request_id, checkout);

       headway::task task{request_id, checkout};          // C++: until the end of the scope

   A thread that is measured can ask what it has made of its time so far. That makes no system call, and takes some dozens
   of ns; `headway stat --publish` and other observers provide the figures:

       headway_progress_t mine;
       if (headway_progress(&mine)) printf("ready for %llu ns\n", (unsigned long long)mine.ready);

   `headway_states` tells it by state, and `headway_threads` tells of other threads.

   For other languages, one C file with `#define HEADWAY_IMPLEMENTATION` before the #include makes all of these plain
   functions. On anything but 64-bit Linux, everything here compiles to nothing.

   "The mark", "The task" and "Own progress" below explain how it works, and why it stays right when signal handlers mark
   regions or set tasks in the middle of it.

   SPDX-License-Identifier: Apache-2.0 */
#ifndef HEADWAY_H
#define HEADWAY_H

#include <stdint.h>

typedef uint32_t headway_tag_t;
typedef uint32_t headway_task_name_t;

/* What a thread has made of its time since its measurement began, ns. rpi + ready + wait + other is all time since then, and
   rpi = epi + kpi + iopi where all three are known. */
typedef struct headway_progress_figures {
    uint64_t since; /* when its measurement began, CLOCK_MONOTONIC */
    uint64_t at;    /* the moment of these figures */
    uint64_t rpi;   /* all processor time that it had */
    uint64_t epi;   /* in its own code; waiting for memory is in it */
    uint64_t kpi;   /* in the kernel, in interrupts, and in regions that are marked as no progress */
    uint64_t iopi;  /* polling in vain, and in regions that are marked as polling */
    uint64_t ready; /* able to run, but without a processor */
    uint64_t wait;  /* waiting for something, or stopped */
    uint64_t other; /* stolen by the hypervisor, taken by the observer, or not seen */
} headway_progress_t;

/* What a thread has made of its time, state by state. The times of all states are at - since together: what the observer took
   is the state `overhead`. */
typedef struct headway_state_time {
    int64_t time;   /* ns */
    int64_t count;  /* occurrences; the one that goes on is not among them, nor are those of regions since the last event */
    uint32_t state; /* its number, for headway_state_name */
    uint32_t spare;
} headway_state_time_t;

#define HEADWAY_STATES 100 /* at most */

typedef struct headway_states {
    headway_progress_t progress;
    uint32_t n;     /* of `states` */
    uint32_t state; /* what the thread is in */
    headway_state_time_t states[HEADWAY_STATES];
} headway_states_t;

/* A thread that is measured by the same observer, as it was when it was last read. */
typedef struct headway_thread {
    uint32_t tid, pid; /* in the pid namespace of the caller, which is the thread's */
    uint32_t state;    /* what it is in, for headway_state_name */
    uint32_t running;  /* 1: it has a processor */
    char name[16];
    headway_progress_t progress; /* regions that the thread has begun or ended since its last event are not in it yet */
    uint32_t place, spare;       /* where it was found */
} headway_thread_t;

#define HEADWAY_UNKNOWN UINT64_MAX /* of epi, kpi and iopi: the observer does not tell them apart */

#ifdef HEADWAY_IMPLEMENTATION
#define HEADWAY_API_ __attribute__((visibility("default")))
#else
#define HEADWAY_API_ static inline __attribute__((unused))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Return the number of the state `noneffective.NAME` (`noneffective` if the name is empty). Keep it, because looking it up
   is slow. Characters other than [A-Za-z0-9_.-] become `_`, and the whole name is cut to 31 characters. A process has room
   for 31 tags; the time of further tags is charged to `noneffective.other`. */
HEADWAY_API_ headway_tag_t headway_tag(const char *name);
/* Return the number of the state `poll.NAME`, or `poll`, in the same way. */
HEADWAY_API_ headway_tag_t headway_poll_tag(const char *name);
/* Return the number of the state `user.NAME`, in the same way (`user.unnamed` if the name is empty): its time is progress.
   Regions for whose state there is no room change nothing: the time stays where it would be without them. */
HEADWAY_API_ headway_tag_t headway_state_tag(const char *name);
/* Begin a region of this thread, inside those in which it already is. */
HEADWAY_API_ void headway_set_noneffective(headway_tag_t tag);
/* End the innermost region of this thread. Without an open region this only counts an error. */
HEADWAY_API_ void headway_clear_noneffective(void);
/* The same two, for regions of the tags of `headway_state_tag`. */
HEADWAY_API_ void headway_set_state(headway_tag_t tag);
HEADWAY_API_ void headway_clear_state(void);
/* Return the number of regions in which this thread is. */
HEADWAY_API_ uint32_t headway_depth(void);
/* End regions until this thread is in at most `depth`. */
HEADWAY_API_ void headway_restore(uint32_t depth);

/* Return the number of a name of tasks; 0 if the name is empty, or if there is no room. Keep it, because looking it up is
   slow. The name is cut to 63 bytes. A process has room for 4,095 names. */
HEADWAY_API_ headway_task_name_t headway_task_name(const char *name);
/* This thread works on the task of this id from now on. 0: on none. */
HEADWAY_API_ void headway_task(uint64_t id);
/* Likewise, and the task has a name. Tasks of one name are added up, whatever their ids. */
HEADWAY_API_ void headway_named_task(uint64_t id, headway_task_name_t name);
/* Return the id of this thread's task; 0: none. */
HEADWAY_API_ uint64_t headway_current_task(void);
/* Return the name of this thread's task; 0: none. */
HEADWAY_API_ headway_task_name_t headway_current_task_name(void);

/* Tell what this thread has made of its time so far. Return 1, or 0 if nobody measures it who tells it, or has not seen yet
   that the thread is back on a processor: then all figures are 0. The first call, and one a second where nobody measures,
   looks for an observer and may take 40 ms. `rpi` never goes back: what turns out to have been stolen is taken out of what
   it grows by, and is in `epi` until then, where that is known. */
HEADWAY_API_ int headway_progress(headway_progress_t *into);

/* Tell the same by state. Return 1, or 0 as headway_progress does, or if the observer does not tell states. */
HEADWAY_API_ int headway_states(headway_states_t *into);
/* Tell what a thread did between two moments: `into` may be one of them. A time is negative if the observer has learnt
   meanwhile that earlier time was of another state. Return 1; 0 if they are not of one measurement of one thread. */
HEADWAY_API_ int headway_states_between(const headway_states_t *before, const headway_states_t *after,
                                        headway_states_t *into);
/* Write the name of a state (`kernel.read`, `wait.futex`, `user.TAG`), with a final zero. Return whether it is known. */
HEADWAY_API_ int headway_state_name(uint32_t state, char into[32]);

/* Tell what other threads of this pid namespace have done that the same observer measures: those of this user, or all if
   whoever measures has given that right. `pid`: of this process only; 0: of all. Write `room` of them at most. Return how
   many there are. */
HEADWAY_API_ uint32_t headway_threads(uint32_t pid, headway_thread_t *into, uint32_t room);
/* Tell the same of one thread. Return whether it is measured. */
HEADWAY_API_ int headway_thread(uint32_t tid, headway_thread_t *into);
/* Read a thread again. Return 0 if it has ended, and leave its figures as they are. It takes some dozens of ns. */
HEADWAY_API_ int headway_thread_again(headway_thread_t *thread);
/* Tell what a thread was in. Return as the one above. */
HEADWAY_API_ int headway_thread_states(headway_thread_t *thread, headway_states_t *into);

#ifdef __cplusplus
}
#endif

#if !defined(__linux__) || !defined(__GNUC__) || __SIZEOF_POINTER__ < 8

#ifdef __cplusplus
extern "C" {
#endif
HEADWAY_API_ headway_tag_t headway_tag(const char *name) { (void)name; return 0; }
HEADWAY_API_ headway_tag_t headway_poll_tag(const char *name) { (void)name; return 0; }
HEADWAY_API_ headway_tag_t headway_state_tag(const char *name) { (void)name; return 0; }
HEADWAY_API_ void headway_set_noneffective(headway_tag_t tag) { (void)tag; }
HEADWAY_API_ void headway_clear_noneffective(void) {}
HEADWAY_API_ void headway_set_state(headway_tag_t tag) { (void)tag; }
HEADWAY_API_ void headway_clear_state(void) {}
HEADWAY_API_ uint32_t headway_depth(void) { return 0; }
HEADWAY_API_ void headway_restore(uint32_t depth) { (void)depth; }
HEADWAY_API_ headway_task_name_t headway_task_name(const char *name) { (void)name; return 0; }
HEADWAY_API_ void headway_task(uint64_t id) { (void)id; }
HEADWAY_API_ void headway_named_task(uint64_t id, headway_task_name_t name) { (void)id; (void)name; }
HEADWAY_API_ uint64_t headway_current_task(void) { return 0; }
HEADWAY_API_ headway_task_name_t headway_current_task_name(void) { return 0; }
HEADWAY_API_ int headway_progress(headway_progress_t *into) {
    into->since = into->at = into->rpi = into->epi = into->kpi = into->iopi = into->ready = into->wait = into->other = 0;
    return 0;
}
HEADWAY_API_ int headway_states(headway_states_t *into) {
    into->n = into->state = 0;
    return headway_progress(&into->progress);
}
HEADWAY_API_ int headway_states_between(const headway_states_t *before, const headway_states_t *after,
                                        headway_states_t *into) {
    (void)before; (void)after;
    return headway_states(into);
}
HEADWAY_API_ int headway_state_name(uint32_t state, char into[32]) { (void)state; into[0] = 0; return 0; }
HEADWAY_API_ uint32_t headway_threads(uint32_t pid, headway_thread_t *into, uint32_t room) {
    (void)pid; (void)into; (void)room;
    return 0;
}
HEADWAY_API_ int headway_thread(uint32_t tid, headway_thread_t *into) { (void)tid; (void)into; return 0; }
HEADWAY_API_ int headway_thread_again(headway_thread_t *thread) { (void)thread; return 0; }
HEADWAY_API_ int headway_thread_states(headway_thread_t *thread, headway_states_t *into) {
    (void)thread;
    return headway_states(into);
}
#ifdef __cplusplus
}
#endif

#define HEADWAY_NONEFFECTIVE(name)
#define HEADWAY_POLL(name)
#define HEADWAY_STATE(name)
#define HEADWAY_TASK(id)
#define HEADWAY_NAMED_TASK(id, name)

#else

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#ifndef SO_PEERCRED /* what a strict -std=c99 hides */
#include <asm/socket.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- What an observer reads ---------------------------------------------------------------------------------------------

   All regions of a process are in one arena: a private mapping of a memfd called "headway". Anybody who may read the
   process finds it in /proc/PID/maps, and a child has its own after fork. Each thread has a block in it, which only that
   thread writes.

   `word` holds the time R that the thread has been in the state, as a function of CLOCK_MONOTONIC: R(t) = A + n t, with
   n = 1 while the state is charged, else 0; word = 2 A + n. Entering a state at t therefore adds 1 - 2 t, and leaving it
   adds 2 t - 1. A single load of the word gives R at any moment, whatever the thread is doing. */

#define HEADWAY_VERSION_ 1u
#define HEADWAY_TAGS_ 32u
#define HEADWAY_NAME_ 32u  /* bytes, including the final zero */
#define HEADWAY_STACK_ 16u
#define HEADWAY_ARENA_MAGIC_ UINT64_C(0x31616e6572617768) /* "hwarena1" */
#define HEADWAY_BLOCK_MAGIC_ UINT64_C(0x316b636f6c627768) /* "hwblock1" */
#define HEADWAY_BLOCKS_AT_ 4096u
#ifndef HEADWAY_BLOCKS
#define HEADWAY_BLOCKS 65536u /* threads that can be marked at the same time; blocks that were never used take no memory */
#endif
#define HEADWAY_REGISTER_ 0x48574159 /* prctl option "HWAY": fails with EINVAL, but observers of system calls see it */

struct headway_block_tag {
    uint64_t word, entries;
};

struct headway_block {
    uint64_t magic;   /* 0: HEADWAY_BLOCK_MAGIC_ */
    uint32_t tid;     /* 8: id of its thread (gettid); 0: free */
    uint32_t n_tags;  /* 12: all tags used in this block are below this */
    uint64_t names;   /* 16: address of the arena's names */
    uint64_t since;   /* 24: when its thread took it, with all words 0; of two blocks of one tid the later one is valid */
    uint32_t depth;   /* 32: depth of nesting */
    uint32_t open;    /* 36: 1 + the tag that is charged; 0: none */
    uint32_t errors;  /* 40: clears without a set, and sets nested deeper than the stack */
    uint32_t spare;   /* 44 */
    uint8_t stack[HEADWAY_STACK_]; /* 48: the regions' tags, outermost first; HEADWAY_NOTHING_: free, or about to be */
    struct headway_block_tag tags[HEADWAY_TAGS_]; /* 64 */
};

struct headway_arena {
    uint64_t magic;           /* 0: HEADWAY_ARENA_MAGIC_, stored last */
    uint32_t version;         /* 8 */
    uint32_t pid;             /* 12: by getpid */
    uint32_t n_blocks;        /* 16: blocks for which there is room */
    uint32_t n_tags;          /* 20: names that are in use */
    uint32_t refused_threads; /* 24: threads for which there was no block */
    uint32_t refused_tags;    /* 28: tags for which there was no name */
    char names[HEADWAY_TAGS_][HEADWAY_NAME_]; /* 32: full names of states, by tag */
    uint32_t used;            /* 1056: number of the first block that was never used */
    uint32_t hand;            /* 1060: where the next search for a free block begins */
    uint64_t created;         /* 1064: CLOCK_MONOTONIC; of several arenas the first is the process's */
    uint32_t key;             /* 1072: pthread_key_t of the calling thread's block */
    uint32_t lock;            /* 1076: lock of the names */
    uint64_t tasks;           /* 1080: address of its struct headway_tasks; 0: no thread has had a task */
};

/* Tasks came later than regions. They have memory of their own, so that blocks and arenas stay as they were, and programs
   and observers with and without tasks understand each other. */

#define HEADWAY_TASKS_MAGIC_ UINT64_C(0x31736b7361747768) /* "hwtasks1" */
#define HEADWAY_LOG_MAGIC_ UINT64_C(0x31676f6c6b747768) /* "hwtklog1" */
#define HEADWAY_TASKS_VERSION_ 1u
#define HEADWAY_TASK_NAMES_ 4096u
#define HEADWAY_TASK_NAME_ 64u /* bytes, including the final zero */
#define HEADWAY_CHANGES_ 256u
#define HEADWAY_REGISTER_TASKS_ 0x48574154 /* prctl option "HWAT", likewise */

struct headway_task_change {
    uint64_t at;     /* 0: when the thread began to work on the task, CLOCK_MONOTONIC */
    uint64_t task;   /* 8: its id */
    uint32_t name;   /* 16: its name's number; 0: none. No task: both are 0 */
    uint32_t number; /* 20: 1 + the change's number, modulo 2^32; stored last */
};

/* What one thread worked on last: the change number i is in changes[i % HEADWAY_CHANGES_]. */
struct headway_task_log {
    uint64_t magic;    /* 0: HEADWAY_LOG_MAGIC_ */
    uint32_t tid;      /* 8: id of its thread (gettid) */
    uint32_t size;     /* 12: HEADWAY_CHANGES_ */
    uint64_t names;    /* 16: address of the names in struct headway_tasks */
    uint64_t since;    /* 24: when its thread took it */
    uint64_t n;        /* 32: number of changes so far */
    uint64_t spare[3]; /* 40 */
    struct headway_task_change changes[HEADWAY_CHANGES_]; /* 64 */
};

struct headway_tasks {
    uint64_t magic;         /* 0: HEADWAY_TASKS_MAGIC_, stored last */
    uint32_t version;       /* 8 */
    uint32_t pid;           /* 12: by getpid */
    uint32_t n_names;       /* 16: names that are in use, of which the first is empty */
    uint32_t refused_names; /* 20: names for which there was no room */
    uint32_t n_logs;        /* 24 */
    uint32_t lock;          /* 28: lock of the names */
    uint64_t logs;          /* 32: address of the logs' addresses, one for each block of the arena; 0: none yet */
    char names[HEADWAY_TASK_NAMES_][HEADWAY_TASK_NAME_]; /* 40 */
};

/* What an observer lets the measured threads read, in one memory that nobody in user space can write. It begins with
   struct headway_publication, and each entry behind that is of one thread. "Own progress" below says how it is read. */

#define HEADWAY_PUBLICATION_MAGIC_ UINT64_C(0x3172676f72707768) /* "hwprogr1" */
#define HEADWAY_PUBLICATION_VERSION_ 1u

#define HEADWAY_STATE_LENGTH_ 32u
#define HEADWAY_UNIT_CELLS_ 8u
#define HEADWAY_UNIT_TAGS_ 8u
#define HEADWAY_UNIT_NAMES_ 4u
#define HEADWAY_PUBLISHED_STATES_ 64u
#define HEADWAY_COUNT_BITS_ 48u

enum headway_published_kind {
    HEADWAY_OTHER_, /* stolen, or not seen */
    HEADWAY_EFFECTIVE_,
    HEADWAY_KERNEL_,
    HEADWAY_POLL_,
    HEADWAY_READY_,
    HEADWAY_WAIT_,
    HEADWAY_UNDIVIDED_, /* on the processor, and not told what in */
    HEADWAY_PUBLISHED_KINDS_ = 8,
    HEADWAY_ABSENT_ = 8 /* + a kind: the thread has no processor */
};

struct headway_publication {
    uint64_t magic;        /* 0: HEADWAY_PUBLICATION_MAGIC_ */
    uint32_t version;      /* 8 */
    uint32_t entry_size;   /* 12: of this, and of each thread */
    uint32_t entries;      /* 16: of threads, with this one */
    uint32_t kernel_known; /* 20: 1: all time in the kernel is told from user code */
    uint64_t until;        /* 24: nothing is measured from this moment on */
    uint32_t states_at;    /* 32: the first entry with states of threads; 0: the observer does not tell them */
    uint32_t state_units;  /* 36: entries of each thread there, by the place of its entry above */
    uint32_t names_at;     /* 40: the first entry with names of states */
    uint32_t n_names;      /* 44 */
    uint32_t threads_used; /* 48: entries of threads that were ever used are below this; 0: not told */
    uint32_t overhead;     /* 52: the state in which the observer itself is */
    uint64_t spare[9];     /* 56 */
};

struct headway_published_thread {
    uint32_t tid;           /* 0: in the thread's own pid namespace; 0: free */
    uint32_t pid_namespace; /* 4: the number of its inode */
    uint64_t birth;         /* 8: when its measurement began; 0: it has not had an event yet */
    uint32_t sequence;      /* 16: changes with each event, and is odd while an event is written */
    uint32_t kind;          /* 20: of the time since `since` */
    uint64_t since;         /* 24: all time before is in `times`; the observer's own is in none of them */
    uint64_t deferred;      /* 32: ns since then that belong to the kernel */
    uint64_t times[HEADWAY_PUBLISHED_KINDS_]; /* 40: ns by kind */
    uint64_t regions[2];    /* 104: ns in marked regions until `since`: no progress, polling */
    uint32_t open_region;   /* 120: 1 + the place there of the region that is charged; 0: none */
    uint32_t marked;        /* 124: 1: the observer knows the thread's block */
};

/* The first of a thread's entries with states. Behind it are those with cells, then those with tags. */
struct headway_published_states {
    uint64_t told;           /* 0: the most processor time that the thread can have read of itself until `since` */
    uint64_t rpi;            /* 8: its processor time until then, without what was found to be stolen */
    uint64_t since;          /* 16: as above */
    uint32_t cells_used;     /* 24 */
    uint32_t state;          /* 28: of the time since then */
    uint32_t deferred_state; /* 32: of `deferred` above */
    uint32_t open_tag;       /* 36: 1 + the tag that was charged at `since` */
    uint32_t pid;            /* 40: its process, in the thread's own pid namespace */
    uint32_t spare_word;     /* 44 */
    char name[16];           /* 48 */
    uint64_t spare[8];       /* 64 */
};

struct headway_published_cell {
    uint64_t time;  /* 0 */
    uint64_t count; /* 8: occurrences that have ended; the state is in the bits from HEADWAY_COUNT_BITS_ on */
};

struct headway_published_cells {
    struct headway_published_cell cells[HEADWAY_UNIT_CELLS_];
};

/* A tag of its block. */
struct headway_published_tag {
    uint64_t value; /* 0: time in its regions until `since`, ns */
    uint32_t state; /* 8: 0: there is no such tag */
    uint32_t spare; /* 12 */
};

struct headway_published_tags {
    struct headway_published_tag tags[HEADWAY_UNIT_TAGS_];
};

struct headway_published_names {
    char names[HEADWAY_UNIT_NAMES_][HEADWAY_STATE_LENGTH_];
};

typedef char headway_blocks_are_at_most_65536_[HEADWAY_BLOCKS >= 1 && HEADWAY_BLOCKS <= 65536 ? 1 : -1];
typedef char headway_layout_is_as_documented_[
    sizeof(struct headway_block) == 576 && offsetof(struct headway_block, tags) == 64
    && offsetof(struct headway_arena, names) == 32 && offsetof(struct headway_arena, used) == 1056
    && offsetof(struct headway_arena, tasks) == 1080 && sizeof(struct headway_arena) <= HEADWAY_BLOCKS_AT_
    && sizeof(struct headway_task_change) == 24 && offsetof(struct headway_task_log, changes) == 64
    && offsetof(struct headway_tasks, names) == 40 && sizeof(struct headway_publication) == 128
    && sizeof(struct headway_published_thread) == 128 && sizeof(struct headway_published_states) == 128
    && sizeof(struct headway_published_cells) == 128 && sizeof(struct headway_published_tags) == 128
    && sizeof(struct headway_published_names) == 128 ? 1 : -1];

/* ---- What exists once in each program and each shared object ------------------------------------------------------------

   These are hidden, so that objects compiled with different versions of this header do not conflict. The objects share the
   arena, which the second one finds as an observer would, and each thread's block, by a key in the arena. */

#define HEADWAY_ONCE_ __attribute__((weak, visibility("hidden")))
#define HEADWAY_SLOW_ HEADWAY_ONCE_ __attribute__((noinline, cold))
#define HEADWAY_NONE_ ((uintptr_t)1) /* in place of an address: there is none, do not try again */
#define HEADWAY_NOTHING_ 0xff

extern HEADWAY_ONCE_ __thread struct headway_block *headway_self_;
extern HEADWAY_ONCE_ struct headway_arena *headway_arena_;
extern HEADWAY_ONCE_ uint32_t headway_lock_;
extern HEADWAY_ONCE_ __thread struct headway_task_log *headway_log_;
extern HEADWAY_ONCE_ struct headway_tasks *headway_tasks_;
HEADWAY_ONCE_ __thread struct headway_task_log *headway_log_ = 0;
HEADWAY_ONCE_ struct headway_tasks *headway_tasks_ = 0;
HEADWAY_ONCE_ __thread struct headway_block *headway_self_ = 0;
HEADWAY_ONCE_ struct headway_arena *headway_arena_ = 0;
HEADWAY_ONCE_ uint32_t headway_lock_ = 0;

/* Where this thread finds its figures. */
struct headway_own_ {
    const struct headway_published_thread *at; /* NULL: not known */
    uint64_t again;                            /* when to search again */
    uint32_t tid, pid_namespace;
    uint64_t patience;                         /* that long after the last search */
};
/* What the process has of an observer. */
struct headway_published_ {
    const struct headway_publication *at; /* NULL: there was never one. The place is never given back */
    uint64_t size;                        /* of that place, bytes */
    uint64_t again;                       /* when to ask again */
    uint32_t generation;                  /* odd while the memory at that place is exchanged */
    uint32_t lock, on_fork, pid_namespace;
};
extern HEADWAY_ONCE_ __thread struct headway_own_ headway_own_;
extern HEADWAY_ONCE_ struct headway_published_ headway_published_;
HEADWAY_ONCE_ __thread struct headway_own_ headway_own_ = {0, 0, 0, 0, 0};
HEADWAY_ONCE_ struct headway_published_ headway_published_ = {0, 0, 0, 0, 0, 0, 0};

/* Functions of libc that a strict -std=c99 hides. */
struct headway_timespec_ { long seconds, nanoseconds; };
extern int headway_clock_gettime_(int clock, struct headway_timespec_ *into) __asm__("clock_gettime");
extern int headway_ftruncate_(int fd, long size) __asm__("ftruncate");
extern long headway_syscall_(long number, ...) __asm__("syscall");

static inline uint64_t headway_now_(void) {
    struct headway_timespec_ t;
    headway_clock_gettime_(1 /* CLOCK_MONOTONIC */, &t);
    return (uint64_t)t.seconds * 1000000000u + (uint64_t)t.nanoseconds;
}

/* ---- The mark -----------------------------------------------------------------------------------------------------------

   The regions of a thread are its stack, and the wanted state is the innermost region there. The charged state is stored
   separately: it is the one whose word is odd, and `open` tells which one that can be. Marking has two steps: change the
   stack, then settle. Settling stops charging a state that is not wanted, and begins to charge the wanted one.

   A signal handler may run between any two instructions and mark regions, if it ends those that it began. Then

   - the stack is unchanged when a handler returns. Each change of the stack is one store: a region begins when its tag is
     stored in a place that already counts but holds nothing, and ends when that place holds nothing again. A handler in
     between uses the place above;
   - the wanted state is charged when a handler returns, because the handler settled, too. Wherever the handler ran, the
     thread finds its own work either still to do (no handler ran) or done (a handler ran, and changed its word). A word is
     changed by one instruction, and only if it is as it was before the clock was read; otherwise the thread looks again.
     No time is charged twice: a handler stops the charged state when it begins its own. If a signal comes exactly between
     two regions, when one has ended and the other has not begun, the time of its delivery is charged to neither.

   A word cannot change and change back unnoticed: a word that was open in between contains the time that has passed.
   Only this thread writes, so no operation needs a bus lock; it only has to be a single instruction. After each instruction
   an outside reader finds at most one odd word: that of the region that began last, or of the one around it; or none for
   some nanoseconds. */

/* Store `is` if `was` is still there, by one instruction as far as this thread's signal handlers can see. */
static inline int headway_swap_(uint64_t *at, uint64_t was, uint64_t is) {
#if defined(__x86_64__)
    unsigned char done;
    __asm__ __volatile__("cmpxchgq %3, %1\n\tsete %0" : "=q"(done), "+m"(*at), "+a"(was) : "r"(is) : "memory", "cc");
    return done;
#else
    return __atomic_compare_exchange_n(at, &was, is, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#endif
}

static inline void headway_count_(uint64_t *at) {
#if defined(__x86_64__)
    __asm__ __volatile__("addq $1, %0" : "+m"(*at) : : "memory", "cc");
#else
    __atomic_fetch_add(at, 1, __ATOMIC_RELAXED);
#endif
}

/* Access in program order, as signal handlers see it, and nearly so for observers on other processors. */
#define HEADWAY_LOAD_(place) __atomic_load_n(&(place), __ATOMIC_RELAXED)
#define HEADWAY_STORE_(place, value)                          \
    do {                                                      \
        __atomic_signal_fence(__ATOMIC_SEQ_CST);              \
        __atomic_store_n(&(place), (value), __ATOMIC_RELAXED); \
        __atomic_signal_fence(__ATOMIC_SEQ_CST);              \
    } while (0)

/* Return 1 + the tag of the innermost region; 0 if there is none. */
static inline uint32_t headway_wanted_(struct headway_block *self) {
    uint32_t depth = HEADWAY_LOAD_(self->depth);
    if (depth > HEADWAY_STACK_) depth = HEADWAY_STACK_;
    while (depth && HEADWAY_LOAD_(self->stack[depth - 1]) == HEADWAY_NOTHING_) depth--;
    return depth ? (HEADWAY_LOAD_(self->stack[depth - 1]) & (HEADWAY_TAGS_ - 1)) + 1u : 0;
}

static inline void headway_settle_(struct headway_block *self) {
    for (;;) {
        uint32_t wanted = headway_wanted_(self), open = HEADWAY_LOAD_(self->open);
        uint64_t now, word, *at;
        if (open == wanted && (!wanted || HEADWAY_LOAD_(self->tags[wanted - 1].word) & 1)) return;
        now = headway_now_();
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (open != wanted) {
            if (open) {
                at = &self->tags[open - 1].word;
                word = HEADWAY_LOAD_(*at);
                if (word & 1 && !headway_swap_(at, word, word + 2 * now - 1)) continue;
            }
            HEADWAY_STORE_(self->open, wanted);
            if (!wanted) return;
        }
        at = &self->tags[wanted - 1].word;
        word = HEADWAY_LOAD_(*at);
        if (word & 1 || headway_swap_(at, word, word + 1 - 2 * now)) return;
    }
}

static inline void headway_begin_(struct headway_block *self, headway_tag_t tag) {
    uint32_t around = headway_wanted_(self), depth = HEADWAY_LOAD_(self->depth), n = HEADWAY_LOAD_(self->n_tags);
    if (tag >= HEADWAY_TAGS_) {
        if (tag == HEADWAY_NOTHING_) { /* there is no room for its state: what is around it goes on */
            HEADWAY_STORE_(self->depth, depth + 1);
            if (depth >= HEADWAY_STACK_) __atomic_fetch_add(&self->errors, 1, __ATOMIC_RELAXED);
            return;
        }
        tag = 0;
    }
    while (tag >= n && !__atomic_compare_exchange_n(&self->n_tags, &n, tag + 1, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {}
    HEADWAY_STORE_(self->depth, depth + 1);
    if (depth >= HEADWAY_STACK_) {
        __atomic_fetch_add(&self->errors, 1, __ATOMIC_RELAXED);
        return;
    }
    HEADWAY_STORE_(self->stack[depth], (uint8_t)tag);
    if (around != tag + 1) headway_count_(&self->tags[tag].entries);
    headway_settle_(self); /* even if it is the same region: a handler may have interrupted its settling */
}

static inline void headway_end_(struct headway_block *self) {
    uint32_t depth = HEADWAY_LOAD_(self->depth);
    if (!depth) {
        __atomic_fetch_add(&self->errors, 1, __ATOMIC_RELAXED);
        return;
    }
    if (depth <= HEADWAY_STACK_) HEADWAY_STORE_(self->stack[depth - 1], HEADWAY_NOTHING_);
    HEADWAY_STORE_(self->depth, depth - 1);
    headway_settle_(self);
}

/* ---- The arena ----------------------------------------------------------------------------------------------------------

   All of this happens once in a process, or once in a thread, with the thread's signals blocked. */

/* Call rt_sigprocmask, whose set is 64 signals, 128 on MIPS. */
static inline void headway_signals_(int how, const uint64_t *set, uint64_t *old) {
#ifdef __mips__
    headway_syscall_(SYS_rt_sigprocmask, how == 0 ? 1 : 3, set, old, (size_t)16);
#else
    headway_syscall_(SYS_rt_sigprocmask, how, set, old, (size_t)8);
#endif
}

static inline uintptr_t headway_hexadecimal_(const char **text) {
    uintptr_t n = 0;
    for (;; ++*text) {
        char c = **text;
        if (c >= '0' && c <= '9') n = n << 4 | (uintptr_t)(c - '0');
        else if (c >= 'a' && c <= 'f') n = n << 4 | (uintptr_t)(c - 'a' + 10);
        else return n;
    }
}

/* Return the arena in a line of /proc/self/maps; NULL if the line is another mapping. */
static inline struct headway_arena *headway_arena_of_(const char *line, size_t length) {
    static const char name[] = "/memfd:headway (deleted)";
    const char *at = line;
    uintptr_t start, end;
    struct headway_arena *arena;
    uint64_t begun;
    if (length < sizeof name || memcmp(line + length - (sizeof name - 1), name, sizeof name - 1)) return 0;
    start = headway_hexadecimal_(&at);
    if (*at++ != '-') return 0;
    end = headway_hexadecimal_(&at);
    if (memcmp(at, " rw-p ", 6) || end < start + HEADWAY_BLOCKS_AT_ + sizeof(struct headway_block)) return 0;
    arena = (struct headway_arena *)start;
    /* Another object may be creating it. It mapped the arena first, to reserve its turn, and may have lost its processor. */
    begun = headway_now_();
    while (!__atomic_load_n(&arena->magic, __ATOMIC_ACQUIRE) && headway_now_() - begun < UINT64_C(1000000000))
        headway_syscall_(SYS_sched_yield);
    if (__atomic_load_n(&arena->magic, __ATOMIC_ACQUIRE) != HEADWAY_ARENA_MAGIC_ || arena->version != HEADWAY_VERSION_
        || HEADWAY_BLOCKS_AT_ + (uint64_t)arena->n_blocks * sizeof(struct headway_block) > end - start)
        return 0;
    return arena;
}

/* Return the arena of this process, if there is one: the first, if objects that started at the same time made several. */
HEADWAY_SLOW_ struct headway_arena *headway_arena_find_(void);
HEADWAY_SLOW_ struct headway_arena *headway_arena_find_(void) {
    struct headway_arena *first = 0, *arena;
    char text[4352];
    size_t length = 0;
    long n;
    int fd = (int)headway_syscall_(SYS_openat, -100 /* AT_FDCWD */, "/proc/self/maps", 02000000 /* O_CLOEXEC */, 0);
    if (fd < 0) return 0;
    while ((n = headway_syscall_(SYS_read, fd, text + length, sizeof text - length)) > 0) {
        char *line = text, *end;
        length += (size_t)n;
        while ((end = (char *)memchr(line, '\n', length))) {
            arena = headway_arena_of_(line, (size_t)(end - line));
            if (arena && (!first || arena->created < first->created
                          || (arena->created == first->created && arena < first)))
                first = arena;
            length -= (size_t)(end + 1 - line);
            line = end + 1;
        }
        if (length == sizeof text) length = 0; /* no path is that long */
        memmove(text, line, length);
    }
    headway_syscall_(SYS_close, fd);
    return first;
}

HEADWAY_SLOW_ struct headway_arena *headway_arena_make_(void);
HEADWAY_SLOW_ struct headway_arena *headway_arena_make_(void) {
#ifdef SYS_memfd_create
    size_t size = HEADWAY_BLOCKS_AT_ + (size_t)HEADWAY_BLOCKS * sizeof(struct headway_block);
    struct headway_arena *arena;
    pthread_key_t key;
    void *at;
    int fd = (int)headway_syscall_(SYS_memfd_create, "headway", 1u | 8u /* MFD_CLOEXEC | MFD_NOEXEC_SEAL */);
    if (fd < 0) fd = (int)headway_syscall_(SYS_memfd_create, "headway", 1u); /* before Linux 6.3 */
    if (fd < 0) return 0;
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif
    at = headway_ftruncate_(fd, (long)size)
             ? MAP_FAILED : mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    headway_syscall_(SYS_close, fd);
    if (at == MAP_FAILED) return 0;
    if (pthread_key_create(&key, 0)) {
        munmap(at, size);
        return 0;
    }
    arena = (struct headway_arena *)at;
    arena->version = HEADWAY_VERSION_;
    arena->pid = (uint32_t)headway_syscall_(SYS_getpid);
    arena->n_blocks = HEADWAY_BLOCKS;
    arena->n_tags = 1;
    memcpy(arena->names[0], "noneffective", sizeof "noneffective");
    arena->key = (uint32_t)key;
    arena->created = headway_now_(); /* after mapping it: an object that maps one later has a later time, and sees this one */
    __atomic_store_n(&arena->magic, HEADWAY_ARENA_MAGIC_, __ATOMIC_RELEASE);
    return arena;
#else
    return 0;
#endif
}

/* After fork, in the child: give its one thread new ids, and restart its time in regions. The other threads are gone. */
HEADWAY_SLOW_ void headway_forked_(void);
HEADWAY_SLOW_ void headway_forked_(void) {
    struct headway_arena *arena = headway_arena_;
    struct headway_block *blocks = (struct headway_block *)((char *)arena + HEADWAY_BLOCKS_AT_), *self;
    uint32_t pid = (uint32_t)headway_syscall_(SYS_getpid), i;
    int saved = errno;
    uint64_t all[2] = {~UINT64_C(0), ~UINT64_C(0)}, mask[2], now;
    __atomic_store_n(&headway_lock_, 0, __ATOMIC_RELAXED); /* another thread may have held it */
    if (arena->pid == pid) return; /* another shared object's handler was here first */
    headway_signals_(0, all, mask);
    arena->pid = pid;
    arena->lock = 0;
    self = (struct headway_block *)pthread_getspecific((pthread_key_t)arena->key);
    for (i = 0; i < arena->used && i < arena->n_blocks; i++)
        if (&blocks[i] != self && blocks[i].tid) blocks[i].tid = 0;
    if (self) {
        now = headway_now_();
        for (i = 0; i < HEADWAY_TAGS_; i++)
            if (self->tags[i].word || self->tags[i].entries) {
                self->tags[i].word = self->tags[i].word & 1 ? 1 - 2 * now : 0;
                self->tags[i].entries = 0;
            }
        self->since = now;
        self->errors = 0;
        self->tid = (uint32_t)headway_syscall_(SYS_gettid);
        headway_syscall_(SYS_prctl, HEADWAY_REGISTER_, self, (long)HEADWAY_VERSION_, 0L, 0L);
    }
    headway_signals_(2, mask, 0);
    errno = saved;
}

/* Take a lock that is never held for long, except for ever in the child of a process with several threads. */
static inline int headway_lock_take_(uint32_t *lock) {
    int patience;
    for (patience = 0; patience < 100000; patience++) {
        if (!__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) return 1;
        headway_syscall_(SYS_sched_yield);
    }
    return 0;
}

/* Return the arena of this process; NULL if none can be had. */
HEADWAY_SLOW_ struct headway_arena *headway_arena_get_(void);
HEADWAY_SLOW_ struct headway_arena *headway_arena_get_(void) {
    struct headway_arena *arena = __atomic_load_n(&headway_arena_, __ATOMIC_ACQUIRE), *made;
    if (!arena && headway_lock_take_(&headway_lock_)) {
        arena = __atomic_load_n(&headway_arena_, __ATOMIC_ACQUIRE);
        if (!arena) {
            made = headway_arena_find_() ? 0 : headway_arena_make_();
            arena = headway_arena_find_(); /* again: the first search may have missed an older one that was being mapped */
            if (!arena) arena = made;      /* there is no /proc */
            if (!arena || pthread_atfork(0, 0, headway_forked_)) arena = (struct headway_arena *)HEADWAY_NONE_;
            __atomic_store_n(&headway_arena_, arena, __ATOMIC_RELEASE);
        }
        __atomic_store_n(&headway_lock_, 0, __ATOMIC_RELEASE);
    }
    return (uintptr_t)arena == HEADWAY_NONE_ ? 0 : arena;
}

/* Return a block from among those used before that is free, or whose thread is dead; NULL if the search found none.
   Look at `most` blocks, and ask the kernel about at most `asked`. */
static inline struct headway_block *headway_block_used_(struct headway_arena *arena, uint32_t me, uint32_t most,
                                                        uint32_t asked) {
    struct headway_block *blocks = (struct headway_block *)((char *)arena + HEADWAY_BLOCKS_AT_), *block;
    uint32_t used = __atomic_load_n(&arena->used, __ATOMIC_RELAXED), hand, owner;
    if (used > arena->n_blocks) used = arena->n_blocks;
    if (most > used) most = used;
    for (; most; most--) {
        hand = __atomic_fetch_add(&arena->hand, 1, __ATOMIC_RELAXED);
        block = &blocks[hand % used];
        owner = __atomic_load_n(&block->tid, __ATOMIC_RELAXED);
        if (owner && owner != me) { /* a block with this thread's id belonged to an earlier thread */
            if (!asked) continue;
            asked--;
            if (!headway_syscall_(SYS_tgkill, (long)arena->pid, (long)owner, 0L) || errno != ESRCH) continue;
        }
        if (__atomic_compare_exchange_n(&block->tid, &owner, me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) return block;
    }
    return 0;
}

/* Return a block for this thread; NULL if all are taken. It takes a few dozen looks, however many blocks there are. */
HEADWAY_SLOW_ struct headway_block *headway_block_take_(struct headway_arena *arena);
HEADWAY_SLOW_ struct headway_block *headway_block_take_(struct headway_arena *arena) {
    struct headway_block *block;
    uint32_t me = (uint32_t)headway_syscall_(SYS_gettid), used;
    block = headway_block_used_(arena, me, 64, 8);
    used = __atomic_load_n(&arena->used, __ATOMIC_RELAXED);
    while (!block && used < arena->n_blocks) {
        struct headway_block *next = (struct headway_block *)((char *)arena + HEADWAY_BLOCKS_AT_) + used;
        uint32_t nobody = 0;
        if (!__atomic_compare_exchange_n(&arena->used, &used, used + 1, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) continue;
        /* From here on a thread that searches the used blocks may find it free, and take it first. */
        if (__atomic_compare_exchange_n(&next->tid, &nobody, me, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) block = next;
        used = __atomic_load_n(&arena->used, __ATOMIC_RELAXED);
    }
    if (!block) block = headway_block_used_(arena, me, used, used);
    if (!block) {
        __atomic_fetch_add(&arena->refused_threads, 1, __ATOMIC_RELAXED);
        return 0;
    }
    HEADWAY_STORE_(block->magic, 0);
    block->n_tags = block->depth = block->open = block->errors = block->spare = 0;
    block->names = (uintptr_t)arena->names;
    memset(block->tags, 0, sizeof block->tags);
    memset(block->stack, HEADWAY_NOTHING_, sizeof block->stack);
    block->since = headway_now_();
    __atomic_store_n(&block->magic, HEADWAY_BLOCK_MAGIC_, __ATOMIC_RELEASE);
    return block;
}

/* Return the calling thread's block, the first time; NULL if it has none. */
HEADWAY_SLOW_ struct headway_block *headway_register_(void);
HEADWAY_SLOW_ struct headway_block *headway_register_(void) {
    uint64_t all[2] = {~UINT64_C(0), ~UINT64_C(0)}, mask[2];
    struct headway_arena *arena;
    struct headway_block *self;
    int saved = errno;
    if ((uintptr_t)headway_self_ == HEADWAY_NONE_) return 0;
    headway_signals_(0, all, mask);
    self = headway_self_; /* a signal handler may have done it just before signals were blocked */
    if (!self) {
        arena = headway_arena_get_();
        self = arena ? (struct headway_block *)pthread_getspecific((pthread_key_t)arena->key) : 0;
        if (arena && !self) {
            self = headway_block_take_(arena);
            if (self && pthread_setspecific((pthread_key_t)arena->key, self)) {
                __atomic_store_n(&self->tid, 0, __ATOMIC_RELEASE);
                self = 0;
            }
            if (self) headway_syscall_(SYS_prctl, HEADWAY_REGISTER_, self, (long)HEADWAY_VERSION_, 0L, 0L);
        }
        headway_self_ = self ? self : (struct headway_block *)HEADWAY_NONE_;
    }
    headway_signals_(2, mask, 0);
    errno = saved;
    return (uintptr_t)self == HEADWAY_NONE_ ? 0 : self;
}

static inline struct headway_block *headway_block_(void) {
    struct headway_block *self = headway_self_;
    return __builtin_expect((uintptr_t)self > HEADWAY_NONE_, 1) ? self : headway_register_();
}

static inline int headway_tag_find_(struct headway_arena *arena, const char *state) {
    uint32_t n = __atomic_load_n(&arena->n_tags, __ATOMIC_ACQUIRE), i;
    for (i = 0; i < n && i < HEADWAY_TAGS_; i++)
        if (!strcmp(arena->names[i], state)) return (int)i;
    return -1;
}

HEADWAY_SLOW_ headway_tag_t headway_tag_add_(struct headway_arena *arena, const char *state);
HEADWAY_SLOW_ headway_tag_t headway_tag_add_(struct headway_arena *arena, const char *state) {
    static const char other[] = "noneffective.other";
    int none = strncmp(state, "user", 4) ? 0 : HEADWAY_NOTHING_, tag;
    if (!headway_lock_take_(&arena->lock)) return (headway_tag_t)none;
    tag = headway_tag_find_(arena, state);
    if (tag < 0) {
        tag = (int)arena->n_tags;
        if (tag >= (int)HEADWAY_TAGS_ - 1) {
            tag = (int)HEADWAY_TAGS_ - 1;
            if (strcmp(state, other)) arena->refused_tags++;
            if (none) {
                __atomic_store_n(&arena->lock, 0, __ATOMIC_RELEASE);
                return (headway_tag_t)none;
            }
            state = other;
        }
        memcpy(arena->names[tag], state, strlen(state) + 1);
        __atomic_store_n(&arena->n_tags, (uint32_t)tag + 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&arena->lock, 0, __ATOMIC_RELEASE);
    return (headway_tag_t)tag;
}

HEADWAY_SLOW_ headway_tag_t headway_tag_named_(const char *kind, const char *name);
HEADWAY_SLOW_ headway_tag_t headway_tag_named_(const char *kind, const char *name) {
    uint64_t all[2] = {~UINT64_C(0), ~UINT64_C(0)}, mask[2];
    struct headway_arena *arena;
    char state[HEADWAY_NAME_];
    size_t length = strlen(kind);
    int saved = errno, tag = 0;
    memcpy(state, kind, length);
    if (name && *name) state[length++] = '.';
    for (; name && *name && length < HEADWAY_NAME_ - 1; name++) {
        char c = *name;
        int kept = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-';
        state[length++] = kept ? c : '_';
    }
    state[length] = 0;
    arena = __atomic_load_n(&headway_arena_, __ATOMIC_ACQUIRE);
    if ((uintptr_t)arena > HEADWAY_NONE_ && (tag = headway_tag_find_(arena, state)) >= 0) return (headway_tag_t)tag;
    headway_signals_(0, all, mask);
    tag = 0;
    arena = headway_arena_get_();
    if (arena) {
        tag = headway_tag_find_(arena, state);
        if (tag < 0) tag = (int)headway_tag_add_(arena, state);
    }
    headway_signals_(2, mask, 0);
    errno = saved;
    return (headway_tag_t)tag;
}

/* ---- The task -----------------------------------------------------------------------------------------------------------

   A thread writes down when it began to work on which task, in a log of its last changes. An observer in the kernel reads
   what is new at each of the thread's events. So it knows between two events, too, what the thread worked on when.

   A change is added in two steps: it takes the next place by one instruction, and its number is stored last. A signal
   handler that sets tasks in between takes later places, and the thread then finds that the number of changes is not what it
   left. So it adds its change once more, and after a handler the thread has the task that it wanted. An observer that finds
   another number in a place that is taken has come in between: it reads on from there at the next event. A change whose time
   is older than that of the change before was read from the clock before a handler ran.

   When half of the log is new, the thread makes a system call that fails. It is an event, so that a thread that makes no
   others loses no change. */

static inline uint64_t headway_next_(uint64_t *at) {
#if defined(__x86_64__)
    uint64_t n = 1;
    __asm__ __volatile__("xaddq %0, %1" : "+r"(n), "+m"(*at) : : "memory", "cc");
    return n;
#else
    return __atomic_fetch_add(at, 1, __ATOMIC_RELAXED);
#endif
}

static inline void headway_change_(struct headway_task_log *log, uint64_t task, uint32_t name) {
    uint64_t n, now, first = HEADWAY_LOAD_(log->n);
    do {
        struct headway_task_change *change;
        now = headway_now_();
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        n = headway_next_(&log->n);
        change = &log->changes[n % HEADWAY_CHANGES_];
        HEADWAY_STORE_(change->task, task);
        HEADWAY_STORE_(change->name, name);
        HEADWAY_STORE_(change->at, now);
        HEADWAY_STORE_(change->number, (uint32_t)(n + 1));
    } while (HEADWAY_LOAD_(log->n) != n + 1);
    if (__builtin_expect(first / (HEADWAY_CHANGES_ / 2) != (n + 1) / (HEADWAY_CHANGES_ / 2), 0)) {
        int saved = errno;
        headway_syscall_(SYS_prctl, HEADWAY_REGISTER_TASKS_, 0L, (long)HEADWAY_TASKS_VERSION_, 0L, 0L);
        errno = saved;
    }
}

/* After fork, in the child: its thread works on the task on which it worked, in a log that begins anew. */
HEADWAY_SLOW_ void headway_tasks_forked_(void);
HEADWAY_SLOW_ void headway_tasks_forked_(void) {
    struct headway_tasks *tasks = headway_tasks_;
    struct headway_task_log **logs, *log;
    struct headway_block *self;
    uint64_t all[2] = {~UINT64_C(0), ~UINT64_C(0)}, mask[2], task = 0, n;
    uint32_t pid = (uint32_t)headway_syscall_(SYS_getpid), name = 0, at;
    int saved = errno;
    if ((uintptr_t)tasks <= HEADWAY_NONE_ || tasks->pid == pid) return;
    headway_signals_(0, all, mask);
    tasks->pid = pid;
    tasks->lock = 0;
    logs = (struct headway_task_log **)(uintptr_t)tasks->logs;
    self = (struct headway_block *)pthread_getspecific((pthread_key_t)headway_arena_->key);
    if (self) {
        at = (uint32_t)(((uintptr_t)self - (uintptr_t)headway_arena_ - HEADWAY_BLOCKS_AT_) / sizeof *self);
        log = at < tasks->n_logs ? logs[at] : 0;
        if (log && log->tid) {
            n = log->n;
            if (n) {
                task = log->changes[(n - 1) % HEADWAY_CHANGES_].task;
                name = log->changes[(n - 1) % HEADWAY_CHANGES_].name;
            }
            memset(log->changes, 0, sizeof log->changes);
            log->n = 0;
            log->tid = (uint32_t)headway_syscall_(SYS_gettid);
            log->since = headway_now_();
            headway_syscall_(SYS_prctl, HEADWAY_REGISTER_TASKS_, log, (long)HEADWAY_TASKS_VERSION_, 0L, 0L);
            if (task || name) headway_change_(log, task, name);
        }
    }
    headway_signals_(2, mask, 0);
    errno = saved;
}

static inline void *headway_map_(size_t size) {
#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS 0x20
#endif
    void *at = mmap(0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? 0 : at;
}

/* Return what the process has for tasks; NULL if it can have nothing. */
HEADWAY_SLOW_ struct headway_tasks *headway_tasks_get_(void);
HEADWAY_SLOW_ struct headway_tasks *headway_tasks_get_(void) {
    struct headway_tasks *tasks = __atomic_load_n(&headway_tasks_, __ATOMIC_ACQUIRE);
    struct headway_arena *arena;
    if ((uintptr_t)tasks > HEADWAY_NONE_) return tasks;
    arena = tasks ? 0 : headway_arena_get_();
    if (!arena || !headway_lock_take_(&arena->lock)) return 0;
    tasks = (struct headway_tasks *)(uintptr_t)arena->tasks; /* another object has made it */
    if (!tasks) {
        tasks = (struct headway_tasks *)headway_map_(sizeof *tasks);
        void *logs = tasks ? headway_map_(arena->n_blocks * sizeof(uint64_t)) : 0;
        if (!logs && tasks) {
            munmap(tasks, sizeof *tasks);
            tasks = 0;
        }
        if (tasks) {
            tasks->version = HEADWAY_TASKS_VERSION_;
            tasks->pid = arena->pid;
            tasks->n_names = 1;
            tasks->n_logs = arena->n_blocks;
            tasks->logs = (uintptr_t)logs;
            __atomic_store_n(&tasks->magic, HEADWAY_TASKS_MAGIC_, __ATOMIC_RELEASE);
            __atomic_store_n(&arena->tasks, (uintptr_t)tasks, __ATOMIC_RELEASE);
        }
    } else if (tasks->magic != HEADWAY_TASKS_MAGIC_ || tasks->version != HEADWAY_TASKS_VERSION_) {
        tasks = 0; /* of a later version of this header */
    }
    if (tasks && !headway_tasks_ && pthread_atfork(0, 0, headway_tasks_forked_)) tasks = 0;
    __atomic_store_n(&headway_tasks_, tasks ? tasks : (struct headway_tasks *)HEADWAY_NONE_, __ATOMIC_RELEASE);
    __atomic_store_n(&arena->lock, 0, __ATOMIC_RELEASE);
    return tasks;
}

/* Return the calling thread's log, the first time; NULL if it has none. */
HEADWAY_SLOW_ struct headway_task_log *headway_log_take_(void);
HEADWAY_SLOW_ struct headway_task_log *headway_log_take_(void) {
    uint64_t all[2] = {~UINT64_C(0), ~UINT64_C(0)}, mask[2];
    struct headway_block *self = headway_block_();
    struct headway_task_log *log = headway_log_, **place;
    struct headway_tasks *tasks;
    uint32_t at;
    int saved = errno;
    if ((uintptr_t)log == HEADWAY_NONE_) return 0;
    headway_signals_(0, all, mask);
    log = headway_log_; /* a signal handler may have taken it just before signals were blocked */
    if (!log) {
        tasks = self ? headway_tasks_get_() : 0;
        if (tasks) {
            at = (uint32_t)(((uintptr_t)self - (uintptr_t)headway_arena_ - HEADWAY_BLOCKS_AT_) / sizeof *self);
            place = (struct headway_task_log **)(uintptr_t)tasks->logs + at;
            if (at < tasks->n_logs && !*place) *place = (struct headway_task_log *)headway_map_(sizeof *log);
            log = at < tasks->n_logs ? *place : 0;
        }
        if (log && (log->magic != HEADWAY_LOG_MAGIC_ || log->tid != self->tid || log->since < self->since)) {
            memset(log, 0, sizeof *log); /* it is new, or a thread had it that is gone */
            log->tid = self->tid;
            log->size = HEADWAY_CHANGES_;
            log->names = (uintptr_t)tasks->names;
            log->since = headway_now_();
            __atomic_store_n(&log->magic, HEADWAY_LOG_MAGIC_, __ATOMIC_RELEASE);
            headway_syscall_(SYS_prctl, HEADWAY_REGISTER_TASKS_, log, (long)HEADWAY_TASKS_VERSION_, 0L, 0L);
        }
        headway_log_ = log ? log : (struct headway_task_log *)HEADWAY_NONE_;
    }
    headway_signals_(2, mask, 0);
    errno = saved;
    return (uintptr_t)log == HEADWAY_NONE_ ? 0 : log;
}

static inline struct headway_task_log *headway_task_log_(void) {
    struct headway_task_log *log = headway_log_;
    return __builtin_expect((uintptr_t)log > HEADWAY_NONE_, 1) ? log : headway_log_take_();
}

/* ---- Own progress -------------------------------------------------------------------------------------------------------

   An observer keeps the time of each kind that a thread had until its last event, in memory that the process maps and
   nobody in user space can write. A thread adds the time that has passed since, which is of one kind, because a change
   would be an event. Events happen in the kernel on the thread's own processor and so between two instructions of the
   thread, never at the same time: if `sequence` is the same before and after, what was read in between fits together.

   The memory is a map of eBPF. A process asks for it at a socket whose path is that of the environment variable
   HEADWAY_PROGRESS or, without that, at one in a folder of root's, and then at one in a folder of its own user, where it
   believes that user and root. A map cannot be truncated, so reading it raises no signal. When the observer ends, by whatever cause, the kernel writes that
   moment into the map. Then the process maps empty memory in its place, so that a thread which is just reading finds a free
   entry there. */

#define HEADWAY_ASK_AGAIN_ UINT64_C(1000000000)
#define HEADWAY_TRIES_ 10000u /* after so many readings in which something changed, an entry is not read */
#define HEADWAY_PATIENCE_ 20000 /* us, for the observer to accept, and to answer */
#define HEADWAY_ANSWER_MAGIC_ UINT64_C(0x3172736e61707768) /* "hwpansr1" */
#define HEADWAY_FIRST_TIME_NAMESPACE_ 0xeffffffau /* PROC_TIME_INIT_INO of include/linux/proc_ns.h */

/* What an observer sends with the descriptor of its map. */
struct headway_answer_ {
    uint64_t magic;
    uint32_t version, entry_size, entries, units; /* all entries, with those of states and names; 0: there are none */
};

extern char *headway_environment_(const char *name) __asm__("secure_getenv") __attribute__((weak));

/* What is read of a thread at one moment, in which nothing changed. */
struct headway_reading_ {
    uint64_t birth, since, now, deferred, told, times[HEADWAY_PUBLISHED_KINDS_], regions[2];
    uint32_t kind, marked, used, state, deferred_state, open_state, pid;
    char name[16];
};

/* Where the parts of an observer's map are. What is read of it is read once, so that a check of it holds. */
struct headway_parts_ {
    const struct headway_publication *head;
    uint32_t entries, used, states_at, names_at, n_names;
};

/* Find the parts. Return 0 if the observer does not tell states, or if they do not lie in what is mapped. */
static inline int headway_parts_read_(struct headway_parts_ *parts) {
    const struct headway_publication *head = __atomic_load_n(&headway_published_.at, __ATOMIC_ACQUIRE);
    const uint64_t each = 1 + HEADWAY_PUBLISHED_STATES_ / HEADWAY_UNIT_CELLS_ + HEADWAY_TAGS_ / HEADWAY_UNIT_TAGS_;
    uint64_t units = headway_published_.size / sizeof *head;
    parts->head = head;
    if (!head) return 0;
    parts->entries = HEADWAY_LOAD_(head->entries);
    parts->used = HEADWAY_LOAD_(head->threads_used);
    parts->states_at = HEADWAY_LOAD_(head->states_at);
    parts->names_at = HEADWAY_LOAD_(head->names_at);
    parts->n_names = HEADWAY_LOAD_(head->n_names);
    return parts->states_at && HEADWAY_LOAD_(head->state_units) == each && parts->states_at + each * parts->entries <= units
           && parts->names_at + (uint64_t)parts->n_names / HEADWAY_UNIT_NAMES_ <= units;
}

/* Return the first entry with states of the thread whose entry this is; NULL: it is not one of this map. */
static inline const struct headway_published_states *headway_states_at_(const struct headway_parts_ *parts,
                                                                        const struct headway_published_thread *from) {
    const uint64_t each = 1 + HEADWAY_PUBLISHED_STATES_ / HEADWAY_UNIT_CELLS_ + HEADWAY_TAGS_ / HEADWAY_UNIT_TAGS_;
    uint64_t place = ((uintptr_t)from - (uintptr_t)parts->head) / sizeof *from;
    if ((uintptr_t)from < (uintptr_t)parts->head || place >= parts->entries) return 0;
    return (const struct headway_published_states *)(const void *)parts->head + parts->states_at + place * each;
}

static inline uint64_t headway_in_region_(uint64_t word, uint64_t now) {
    return (uint64_t)((int64_t)word >> 1) + (word & 1 ? now : 0);
}

/* Read what this thread's block has more than what is published, in regions of no progress and of polling. */
static inline int headway_growth_read_(const struct headway_published_thread *from, uint64_t now, uint64_t *growth) {
    const struct headway_block *block = headway_block_();
    uint32_t n, i;
    if (!block) return 0;
    n = HEADWAY_LOAD_(block->n_tags);
    for (i = 0; i < n && i < HEADWAY_TAGS_; i++) {
        char first = ((const char *)(uintptr_t)block->names)[i * HEADWAY_NAME_]; /* noneffective, poll or user */
        if (first != 'u') growth[first == 'p'] += headway_in_region_(HEADWAY_LOAD_(block->tags[i].word), now);
    }
    growth[0] -= HEADWAY_LOAD_(from->regions[0]);
    growth[1] -= HEADWAY_LOAD_(from->regions[1]);
    return 1;
}

/* Read the cells, and of the thread itself (`own`) what its tags have more. */
static inline void headway_cells_read_(const struct headway_published_states *from, struct headway_reading_ *reading,
                                       headway_states_t *into, int own) {
    uint32_t used = reading->used < HEADWAY_PUBLISHED_STATES_ ? reading->used : HEADWAY_PUBLISHED_STATES_, i;
    const struct headway_published_cells *cells = (const struct headway_published_cells *)(from + 1);
    const struct headway_published_tags *tags = (const struct headway_published_tags *)(
        cells + HEADWAY_PUBLISHED_STATES_ / HEADWAY_UNIT_CELLS_);
    const struct headway_block *block = own && reading->marked ? headway_block_() : 0;
    uint32_t n = block ? HEADWAY_LOAD_(block->n_tags) : 0, open = block ? HEADWAY_LOAD_(block->open) : 0;
    for (i = 0; i < used; i++) {
        const struct headway_published_cell *cell = &cells[i / HEADWAY_UNIT_CELLS_].cells[i % HEADWAY_UNIT_CELLS_];
        uint64_t count = HEADWAY_LOAD_(cell->count);
        into->states[i].time = (int64_t)HEADWAY_LOAD_(cell->time);
        into->states[i].count = (int64_t)(count & ((UINT64_C(1) << HEADWAY_COUNT_BITS_) - 1));
        into->states[i].state = (uint32_t)(count >> HEADWAY_COUNT_BITS_);
        into->states[i].spare = 0;
    }
    into->n = used;
    for (i = 0; i < n && i < HEADWAY_TAGS_; i++) { /* behind the cells, until headway_tags_add_ adds them */
        const struct headway_published_tag *tag = &tags[i / HEADWAY_UNIT_TAGS_].tags[i % HEADWAY_UNIT_TAGS_];
        headway_state_time_t *more = &into->states[into->n];
        more->state = HEADWAY_LOAD_(tag->state);
        more->time = (int64_t)(headway_in_region_(HEADWAY_LOAD_(block->tags[i].word), reading->now) - HEADWAY_LOAD_(tag->value));
        more->count = 0;
        more->spare = 1;
        if (more->state) into->n++;
        if (open == i + 1) reading->open_state = more->state;
    }
}

/* Read what belongs to a thread's entry: its state, and its cells if `states` is not NULL. */
static inline void headway_states_read_(const struct headway_published_states *from, struct headway_reading_ *reading,
                                        headway_states_t *states, int own) {
    uint32_t i;
    reading->told = HEADWAY_LOAD_(from->told);
    reading->state = HEADWAY_LOAD_(from->state);
    if (!own) {
        reading->pid = HEADWAY_LOAD_(from->pid);
        for (i = 0; i < sizeof reading->name; i++) reading->name[i] = HEADWAY_LOAD_(from->name[i]);
        reading->name[i - 1] = 0;
    }
    if (!states) return;
    reading->used = HEADWAY_LOAD_(from->cells_used);
    reading->deferred_state = HEADWAY_LOAD_(from->deferred_state);
    reading->open_state = 0;
    headway_cells_read_(from, reading, states, own);
}

/* Read an entry. Return 0 if it is not this thread's any more, or if nobody measures; of another thread (not `own`), also
   if it changes all the time. */
static inline int headway_entry_read_(const struct headway_published_thread *from, struct headway_reading_ *reading,
                                      headway_states_t *states, uint32_t tid, int own) {
    const struct headway_published_states *more;
    struct headway_parts_ parts;
    uint32_t generation, sequence, i, tries = 0, space = own ? headway_own_.pid_namespace : headway_published_.pid_namespace;
    do {
        if (++tries > HEADWAY_TRIES_) return 0;
        generation = HEADWAY_LOAD_(headway_published_.generation);
        sequence = __atomic_load_n(&from->sequence, __ATOMIC_ACQUIRE);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        if (HEADWAY_LOAD_(from->tid) != tid || HEADWAY_LOAD_(from->pid_namespace) != space) return 0;
        reading->birth = HEADWAY_LOAD_(from->birth);
        reading->since = HEADWAY_LOAD_(from->since);
        reading->kind = HEADWAY_LOAD_(from->kind);
        reading->deferred = HEADWAY_LOAD_(from->deferred);
        reading->marked = HEADWAY_LOAD_(from->marked);
        reading->told = reading->regions[0] = reading->regions[1] = 0;
        for (i = 0; i <= HEADWAY_UNDIVIDED_; i++) reading->times[i] = HEADWAY_LOAD_(from->times[i]);
        reading->now = headway_now_();
        if (__builtin_expect(reading->marked && own, 0) && !headway_growth_read_(from, reading->now, reading->regions))
            return 0;
        more = headway_parts_read_(&parts) ? headway_states_at_(&parts, from) : 0;
        if (more) headway_states_read_(more, reading, states, own);
        else if (states || !own || !parts.head) return 0;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (HEADWAY_LOAD_(from->sequence) != sequence || HEADWAY_LOAD_(headway_published_.generation) != generation
             || generation & 1 || (!own && sequence & 1));
    return reading->birth && reading->kind <= (own ? HEADWAY_UNDIVIDED_ : HEADWAY_ABSENT_ + HEADWAY_UNDIVIDED_)
           && (reading->kind & (HEADWAY_ABSENT_ - 1)) <= HEADWAY_UNDIVIDED_
           && reading->now < HEADWAY_LOAD_(parts.head->until) && parts.head->magic == HEADWAY_PUBLICATION_MAGIC_;
}

/* Make figures of what was read. What goes on is of one kind since `since`, but for deferred interrupts and regions. */
static inline void headway_progress_of_(struct headway_reading_ *reading, headway_progress_t *into) {
    const struct headway_publication *head = headway_published_.at;
    uint64_t user, all, kernel, poll, undivided, rpi, *times = reading->times;
    int i;
    if (reading->now < reading->since) reading->now = reading->since; /* the clock is read in two ways, some ns apart */
    user = reading->now - reading->since;
    if (reading->deferred > user) reading->deferred = user;
    user -= reading->deferred;
    for (i = 0; i < 2; i++) {
        if ((int64_t)reading->regions[i] < 0) reading->regions[i] = 0;
        if (reading->regions[i] > user) reading->regions[i] = user;
        user -= reading->regions[i];
    }
    times[reading->kind & (HEADWAY_ABSENT_ - 1)] += user;
    kernel = times[HEADWAY_KERNEL_] + reading->deferred + reading->regions[0];
    poll = times[HEADWAY_POLL_] + reading->regions[1];
    undivided = times[HEADWAY_UNDIVIDED_];
    all = reading->now - reading->birth;
    rpi = times[HEADWAY_EFFECTIVE_] + kernel + poll + undivided;
    if (reading->told > rpi && reading->told <= all) { /* it was stolen, and is paid back by what comes */
        times[HEADWAY_EFFECTIVE_] += reading->told - rpi;
        rpi = reading->told;
    }
    into->since = reading->birth;
    into->at = reading->now;
    into->rpi = rpi;
    into->epi = undivided ? HEADWAY_UNKNOWN : times[HEADWAY_EFFECTIVE_];
    into->kpi = undivided || !HEADWAY_LOAD_(head->kernel_known) ? HEADWAY_UNKNOWN : kernel;
    into->iopi = undivided ? HEADWAY_UNKNOWN : poll;
    into->ready = times[HEADWAY_READY_];
    into->wait = times[HEADWAY_WAIT_];
    into->other = all - into->rpi - into->ready - into->wait;
}

/* Return where a state stands among the first `n`, or append it. NULL: there is no room. */
static inline headway_state_time_t *headway_state_of_(headway_states_t *of, uint32_t state, uint32_t n) {
    uint32_t i;
    for (i = 0; i < n; i++)
        if (of->states[i].state == state) return &of->states[i];
    if (of->n >= HEADWAY_STATES) return 0;
    of->states[of->n].time = of->states[of->n].count = 0;
    of->states[of->n].state = state;
    of->states[of->n].spare = 0;
    return &of->states[of->n++];
}

/* Add what goes on to the states that were read, and what the observer took. */
static inline void headway_states_of_(const struct headway_reading_ *reading, headway_states_t *into) {
    uint64_t user = reading->now - reading->since - reading->deferred, sum = 0;
    uint32_t cells = into->n, tags, i;
    headway_state_time_t pending[HEADWAY_TAGS_], *to;
    while (cells && into->states[cells - 1].spare) cells--;
    tags = into->n - cells < HEADWAY_TAGS_ ? into->n - cells : HEADWAY_TAGS_;
    if (tags) memcpy(pending, into->states + cells, tags * sizeof *pending);
    into->n = cells;
    into->state = reading->open_state ? reading->open_state : reading->state;
    for (i = 0; i < tags; i++) {
        uint64_t time = pending[i].time < 0 ? 0 : (uint64_t)pending[i].time;
        if (time > user) time = user;
        if (!time || !(to = headway_state_of_(into, pending[i].state, into->n))) continue;
        user -= time;
        to->time += (int64_t)time;
    }
    if (reading->deferred && (to = headway_state_of_(into, reading->deferred_state, into->n)))
        to->time += (int64_t)reading->deferred;
    if (user && (to = headway_state_of_(into, reading->state, into->n))) to->time += (int64_t)user;
    for (i = 0; i < into->n; i++) sum += (uint64_t)into->states[i].time;
    to = headway_state_of_(into, HEADWAY_LOAD_(headway_published_.at->overhead), into->n);
    if (to) to->time += (int64_t)(reading->now - reading->birth - sum);
}

/* Tell this thread's figures, and its states if they are asked for. Return 0 if the entry is not the thread's any more. */
static inline int headway_progress_read_(const struct headway_published_thread *from, headway_progress_t *into,
                                         headway_states_t *states) {
    struct headway_reading_ reading;
    if (!headway_entry_read_(from, &reading, states, headway_own_.tid, 1)) return 0;
    headway_progress_of_(&reading, into);
    if (states) headway_states_of_(&reading, states);
    return 1;
}

/* Tell the figures of another thread, whose place this is. */
static inline int headway_thread_read_(uint32_t place, uint32_t tid, headway_thread_t *into, headway_states_t *states) {
    const struct headway_published_thread *first;
    struct headway_reading_ reading;
    struct headway_parts_ parts;
    if (!headway_parts_read_(&parts) || !place || place >= parts.entries) return 0;
    first = (const struct headway_published_thread *)(const void *)parts.head;
    if (!headway_entry_read_(first + place, &reading, states, tid, 0)) return 0;
    into->place = place;
    into->spare = 0;
    into->tid = tid;
    into->pid = reading.pid;
    into->state = reading.state;
    into->running = !(reading.kind & HEADWAY_ABSENT_);
    memcpy(into->name, reading.name, sizeof into->name);
    headway_progress_of_(&reading, &into->progress);
    if (states) {
        states->progress = into->progress;
        headway_states_of_(&reading, states);
    }
    return 1;
}

/* After fork, in the child: its thread has another id, and another entry if it has one. */
HEADWAY_SLOW_ void headway_progress_forked_(void);
HEADWAY_SLOW_ void headway_progress_forked_(void) {
    headway_own_.at = 0;
    headway_own_.again = 0;
    headway_published_.lock = 0; /* another thread may have held it */
    headway_published_.again = 0;
    if (headway_published_.generation & 1) headway_published_.generation++;
}

static inline uint32_t headway_inode_(const char *path) {
    struct stat about;
    return stat(path, &about) ? 0 : (uint32_t)about.st_ino;
}

/* Exchange what is mapped for an observer's map, or for empty memory (fd: -1). Return whether that could be done. */
HEADWAY_SLOW_ int headway_published_map_(int fd, uint64_t size);
HEADWAY_SLOW_ int headway_published_map_(int fd, uint64_t size) {
    struct headway_published_ *mine = &headway_published_;
    void *place = (void *)(uintptr_t)mine->at, *made;
    if (fd >= 0 && size > mine->size) { /* threads may still be reading at the old place: it stays, empty */
        made = mmap(0, size, PROT_READ, MAP_SHARED, fd, 0);
        if (made == MAP_FAILED) return 0;
        __atomic_store_n(&mine->generation, mine->generation + 1, __ATOMIC_SEQ_CST);
        mine->size = size;
    } else {
        __atomic_store_n(&mine->generation, mine->generation + 1, __ATOMIC_SEQ_CST);
        made = mmap(place, mine->size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        if (fd >= 0 && made != MAP_FAILED) made = mmap(place, size, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
    }
    if (made != MAP_FAILED) __atomic_store_n(&mine->at, (const struct headway_publication *)made, __ATOMIC_RELEASE);
    __atomic_store_n(&mine->generation, mine->generation + 1, __ATOMIC_SEQ_CST);
    return made != MAP_FAILED;
}

/* Ask at a socket for an observer's map, and map that. `believed`: whoever answers. Return whether it is mapped. */
HEADWAY_SLOW_ int headway_published_ask_(const char *path, int believed);
HEADWAY_SLOW_ int headway_published_ask_(const char *path, int believed) {
    struct { long seconds, microseconds; } patience = {0, HEADWAY_PATIENCE_};
    struct { int pid; uint32_t uid, gid; } peer = {0, 0, 0};
    union { char room[CMSG_SPACE(sizeof(int))]; struct cmsghdr head; } control;
    struct headway_answer_ answer;
    struct sockaddr_un address;
    struct iovec into = {&answer, sizeof answer};
    struct msghdr message;
    struct cmsghdr *head;
    socklen_t length = sizeof peer;
    uint64_t page = 4095, size;
    size_t n;
    long got;
    int with = -1, mapped = 0, fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    memset(&address, 0, sizeof address);
    memset(&message, 0, sizeof message);
    memset(&answer, 0, sizeof answer);
    address.sun_family = AF_UNIX;
    if (strlen(path) < sizeof address.sun_path) memcpy(address.sun_path, path, strlen(path));
    message.msg_iov = &into;
    message.msg_iovlen = 1;
    message.msg_control = control.room;
    message.msg_controllen = sizeof control.room;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (address.sun_path[0] && !connect(fd, (const struct sockaddr *)&address, sizeof address)
        && (believed || (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length)
                         && (!peer.uid || peer.uid == (uint32_t)headway_syscall_(SYS_geteuid))))
        && (got = (long)recvmsg(fd, &message, MSG_CMSG_CLOEXEC)) >= 0) {
        head = CMSG_FIRSTHDR(&message);
        for (n = 0; head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS
             && head->cmsg_len >= CMSG_LEN((n + 1) * sizeof with); n++) {
            if (with >= 0) headway_syscall_(SYS_close, with); /* there is room for more than the one that is expected */
            memcpy(&with, CMSG_DATA(head) + n * sizeof with, sizeof with);
        }
        if (answer.units < answer.entries) answer.units = answer.entries;
        size = ((uint64_t)answer.units * answer.entry_size + page) & ~page;
        if (with >= 0 && got == (long)sizeof answer && answer.magic == HEADWAY_ANSWER_MAGIC_
            && answer.version == HEADWAY_PUBLICATION_VERSION_
            && answer.entry_size == sizeof(struct headway_published_thread) && answer.entries > 1
            && answer.units < 1u << 24 && headway_published_map_(with, size)) {
            const struct headway_publication *at = headway_published_.at;
            mapped = at->magic == HEADWAY_PUBLICATION_MAGIC_ && at->version == answer.version
                     && at->entries == answer.entries;
            if (!mapped) headway_published_map_(-1, 0);
        }
        if (with >= 0) headway_syscall_(SYS_close, with);
    }
    headway_syscall_(SYS_close, fd);
    return mapped;
}

/* Return whether an observer's map is mapped, and measuring goes on. Ask for one if it is time to. */
HEADWAY_SLOW_ int headway_published_get_(uint64_t now);
HEADWAY_SLOW_ int headway_published_get_(uint64_t now) {
    static const char of_user[] = "/run/user/4294967295/headway-progress/socket";
    struct headway_published_ *mine = &headway_published_;
    const char *named = headway_environment_ ? headway_environment_("HEADWAY_PROGRESS") : 0;
    char path[sizeof of_user], digits[10], *at = path + 10;
    uint32_t uid, n = 0, clock;
    if (mine->at && mine->at->magic == HEADWAY_PUBLICATION_MAGIC_) {
        if (now < mine->at->until) return 1;
        headway_published_map_(-1, 0);
    }
    if (now < mine->again) return 0;
    mine->again = now + HEADWAY_ASK_AGAIN_;
    if (!mine->on_fork) {
        if (pthread_atfork(0, 0, headway_progress_forked_)) return 0;
        mine->on_fork = 1;
    }
    mine->pid_namespace = headway_inode_("/proc/self/ns/pid");
    clock = headway_inode_("/proc/self/ns/time");
    if (!mine->pid_namespace || (clock && clock != HEADWAY_FIRST_TIME_NAMESPACE_)) return 0;
    if (named && *named) return headway_published_ask_(named, 1);
    if (headway_published_ask_("/run/headway-progress/socket", 1)) return 1;
    uid = (uint32_t)headway_syscall_(SYS_geteuid);
    memcpy(path, of_user, 10);
    do digits[n++] = (char)('0' + uid % 10);
    while (uid /= 10);
    while (n) *at++ = digits[--n];
    memcpy(at, of_user + 20, sizeof of_user - 20);
    return headway_published_ask_(path, 0);
}

/* Find this thread's entry. Return whether there is one. */
HEADWAY_SLOW_ int headway_progress_find_(void);
HEADWAY_SLOW_ int headway_progress_find_(void) {
    uint64_t all[2] = {~UINT64_C(0), ~UINT64_C(0)}, mask[2], now = headway_now_();
    struct headway_published_ *mine = &headway_published_;
    struct headway_own_ *own = &headway_own_;
    const struct headway_published_thread *entry;
    uint32_t i, used;
    int saved = errno;
    if (now < own->again) return 0;
    headway_signals_(0, all, mask);
    own->at = 0;
    own->again = now + HEADWAY_ASK_AGAIN_ / 1000; /* if another thread is asking now */
    if (!__atomic_exchange_n(&mine->lock, 1, __ATOMIC_ACQUIRE)) {
        own->again = now + HEADWAY_ASK_AGAIN_;
        if (headway_published_get_(now)) { /* its entry may come with its next event, or there is none */
            own->patience = own->patience ? 2 * own->patience : HEADWAY_ASK_AGAIN_ / 1000;
            if (own->patience > HEADWAY_ASK_AGAIN_) own->patience = HEADWAY_ASK_AGAIN_;
            own->again = now + own->patience;
            own->tid = (uint32_t)headway_syscall_(SYS_gettid);
            own->pid_namespace = mine->pid_namespace;
            entry = (const struct headway_published_thread *)mine->at;
            used = mine->at->threads_used;
            if (!used || used > mine->at->entries) used = mine->at->entries;
            for (i = 1; i < used && !own->at; i++)
                if (entry[i].tid == own->tid && entry[i].pid_namespace == own->pid_namespace) own->at = &entry[i];
            if (own->at) own->patience = 0;
        }
        __atomic_store_n(&mine->lock, 0, __ATOMIC_RELEASE);
    }
    headway_signals_(2, mask, 0);
    errno = saved;
    return own->at != 0;
}

/* ---- The interface ------------------------------------------------------------------------------------------------------ */

HEADWAY_API_ headway_tag_t headway_tag(const char *name) { return headway_tag_named_("noneffective", name); }

HEADWAY_API_ headway_tag_t headway_poll_tag(const char *name) { return headway_tag_named_("poll", name); }

HEADWAY_API_ headway_tag_t headway_state_tag(const char *name) {
    return headway_tag_named_("user", name && *name ? name : "unnamed");
}

HEADWAY_API_ void headway_set_noneffective(headway_tag_t tag) {
    struct headway_block *self = headway_block_();
    if (self) headway_begin_(self, tag);
}

HEADWAY_API_ void headway_clear_noneffective(void) {
    struct headway_block *self = headway_block_();
    if (self) headway_end_(self);
}

HEADWAY_API_ void headway_set_state(headway_tag_t tag) { headway_set_noneffective(tag); }

HEADWAY_API_ void headway_clear_state(void) { headway_clear_noneffective(); }

HEADWAY_API_ uint32_t headway_depth(void) {
    struct headway_block *self = headway_block_();
    return self ? HEADWAY_LOAD_(self->depth) : 0;
}

HEADWAY_API_ void headway_restore(uint32_t depth) {
    struct headway_block *self = headway_block_();
    if (!self) return;
    while (HEADWAY_LOAD_(self->depth) > depth) headway_end_(self);
    headway_settle_(self); /* the jump may have interrupted a mark */
}

HEADWAY_SLOW_ uint32_t headway_task_name_add_(struct headway_tasks *tasks, const char *name, size_t length);
HEADWAY_SLOW_ uint32_t headway_task_name_add_(struct headway_tasks *tasks, const char *name, size_t length) {
    uint32_t i, n;
    if (!headway_lock_take_(&tasks->lock)) return 0;
    n = tasks->n_names;
    for (i = 1; i < n && i < HEADWAY_TASK_NAMES_; i++)
        if (!strncmp(tasks->names[i], name, length) && !tasks->names[i][length]) break;
    if (i >= HEADWAY_TASK_NAMES_) {
        tasks->refused_names++;
        i = 0;
    } else if (i == n) {
        memcpy(tasks->names[i], name, length);
        __atomic_store_n(&tasks->n_names, n + 1, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&tasks->lock, 0, __ATOMIC_RELEASE);
    return i;
}

HEADWAY_API_ headway_task_name_t headway_task_name(const char *name) {
    uint64_t all[2] = {~UINT64_C(0), ~UINT64_C(0)}, mask[2];
    struct headway_tasks *tasks;
    size_t length = name ? strlen(name) : 0;
    uint32_t number = 0;
    int saved = errno;
    if (length >= HEADWAY_TASK_NAME_) length = HEADWAY_TASK_NAME_ - 1;
    if (!length) return 0;
    headway_signals_(0, all, mask);
    tasks = headway_tasks_get_();
    if (tasks) number = headway_task_name_add_(tasks, name, length);
    headway_signals_(2, mask, 0);
    errno = saved;
    return number;
}

HEADWAY_API_ void headway_named_task(uint64_t id, headway_task_name_t name) {
    struct headway_task_log *log = headway_task_log_();
    if (log) headway_change_(log, id, name);
}

HEADWAY_API_ void headway_task(uint64_t id) { headway_named_task(id, 0); }

/* Return the last change of this thread's task; NULL: there was none. A thread that had no task takes no memory for it. */
static inline struct headway_task_change *headway_last_change_(void) {
    struct headway_task_log *log = headway_log_;
    uint64_t n = (uintptr_t)log > HEADWAY_NONE_ ? HEADWAY_LOAD_(log->n) : 0;
    return n ? &log->changes[(n - 1) % HEADWAY_CHANGES_] : 0;
}

HEADWAY_API_ uint64_t headway_current_task(void) {
    struct headway_task_change *last = headway_last_change_();
    return last ? HEADWAY_LOAD_(last->task) : 0;
}

HEADWAY_API_ headway_task_name_t headway_current_task_name(void) {
    struct headway_task_change *last = headway_last_change_();
    return last ? HEADWAY_LOAD_(last->name) : 0;
}

HEADWAY_API_ int headway_progress(headway_progress_t *into) {
    const struct headway_published_thread *mine = headway_own_.at;
    if (__builtin_expect(mine && headway_progress_read_(mine, into, 0), 1)) return 1;
    if (headway_progress_find_() && headway_progress_read_(headway_own_.at, into, 0)) return 1;
    memset(into, 0, sizeof *into);
    return 0;
}

HEADWAY_API_ int headway_states(headway_states_t *into) {
    const struct headway_published_thread *mine = headway_own_.at;
    if (__builtin_expect(mine && headway_progress_read_(mine, &into->progress, into), 1)) return 1;
    if (headway_progress_find_() && headway_progress_read_(headway_own_.at, &into->progress, into)) return 1;
    memset(&into->progress, 0, sizeof into->progress);
    into->n = into->state = 0;
    return 0;
}

HEADWAY_API_ int headway_states_between(const headway_states_t *before, const headway_states_t *after,
                                        headway_states_t *into) {
    headway_progress_t from = before->progress, to = after->progress;
    headway_states_t made;
    uint32_t i, at;
    if (!from.since || from.since != to.since || from.at > to.at) return 0;
    made.state = after->state;
    made.n = 0;
    for (i = 0; i < after->n && i < HEADWAY_STATES; i++) made.states[made.n++] = after->states[i];
    for (i = 0; i < before->n && i < HEADWAY_STATES; i++) {
        headway_state_time_t *state;
        at = i < made.n && made.states[i].state == before->states[i].state;
        state = at ? &made.states[i] : headway_state_of_(&made, before->states[i].state, made.n);
        if (!state) continue;
        state->time -= before->states[i].time;
        state->count -= before->states[i].count;
    }
#define HEADWAY_LESS_(field) \
    made.progress.field = to.field == HEADWAY_UNKNOWN || from.field == HEADWAY_UNKNOWN ? HEADWAY_UNKNOWN : to.field - from.field
    made.progress.since = from.at;
    made.progress.at = to.at;
    HEADWAY_LESS_(rpi);
    HEADWAY_LESS_(epi);
    HEADWAY_LESS_(kpi);
    HEADWAY_LESS_(iopi);
    HEADWAY_LESS_(ready);
    HEADWAY_LESS_(wait);
    HEADWAY_LESS_(other);
#undef HEADWAY_LESS_
    memcpy(into, &made, offsetof(headway_states_t, states) + made.n * sizeof *made.states);
    return 1;
}

HEADWAY_API_ int headway_state_name(uint32_t state, char into[32]) {
    const struct headway_published_names *names;
    struct headway_parts_ parts;
    uint32_t i;
    into[0] = 0;
    if (!headway_parts_read_(&parts) || state >= parts.n_names) return 0;
    names = (const struct headway_published_names *)(const void *)parts.head + parts.names_at + state / HEADWAY_UNIT_NAMES_;
    for (i = 0; i < HEADWAY_STATE_LENGTH_ - 1; i++)
        into[i] = HEADWAY_LOAD_(names->names[state % HEADWAY_UNIT_NAMES_][i]);
    into[i] = 0;
    return into[0] != 0;
}

/* Find the entries of threads. Return how many may be in use, with that of none; 0: nobody measures who tells them. */
HEADWAY_SLOW_ uint32_t headway_places_(const struct headway_published_thread **first);
HEADWAY_SLOW_ uint32_t headway_places_(const struct headway_published_thread **first) {
    const struct headway_publication *head = headway_published_.at;
    struct headway_parts_ parts;
    if (!head || head->magic != HEADWAY_PUBLICATION_MAGIC_ || headway_now_() >= head->until) headway_progress_find_();
    if (!headway_parts_read_(&parts) || parts.head->magic != HEADWAY_PUBLICATION_MAGIC_) return 0;
    *first = (const struct headway_published_thread *)(const void *)parts.head;
    return parts.used < parts.entries ? parts.used : parts.entries;
}

HEADWAY_API_ uint32_t headway_threads(uint32_t pid, headway_thread_t *into, uint32_t room) {
    const struct headway_published_thread *first;
    uint32_t places = headway_places_(&first), place, n = 0;
    for (place = 1; place < places; place++) {
        headway_thread_t found;
        uint32_t tid = HEADWAY_LOAD_(first[place].tid);
        if (!tid || !headway_thread_read_(place, tid, &found, 0) || (pid && found.pid != pid)) continue;
        if (n < room) into[n] = found;
        n++;
    }
    return n;
}

HEADWAY_API_ int headway_thread(uint32_t tid, headway_thread_t *into) {
    const struct headway_published_thread *first;
    uint32_t places = headway_places_(&first), place;
    for (place = 1; place < places; place++)
        if (HEADWAY_LOAD_(first[place].tid) == tid && headway_thread_read_(place, tid, into, 0)) return 1;
    return 0;
}

HEADWAY_API_ int headway_thread_again(headway_thread_t *thread) { return headway_thread_states(thread, 0); }

HEADWAY_API_ int headway_thread_states(headway_thread_t *thread, headway_states_t *into) {
    headway_thread_t found;
    if (!headway_thread_read_(thread->place, thread->tid, &found, into)) return 0;
    if (thread->progress.since && found.progress.since != thread->progress.since) return 0; /* the id is another thread's */
    *thread = found;
    return 1;
}

/* The task that goes on when another one ends. */
struct headway_task_before_ {
    uint64_t task;
    uint32_t name;
    int on;
};

static inline struct headway_task_before_ headway_begin_task_(uint64_t id, const char *name, uint32_t *known) {
    struct headway_task_before_ before = {headway_current_task(), headway_current_task_name(), 1};
    uint32_t number = known ? __atomic_load_n(known, __ATOMIC_RELAXED) : 0;
    if (known && !number) __atomic_store_n(known, number = headway_task_name(name), __ATOMIC_RELAXED);
    headway_named_task(id, number);
    return before;
}

static inline void headway_end_task_(struct headway_task_before_ *before) {
    headway_named_task(before->task, before->name);
}

struct headway_region_ { int on; };

/* `known` is 1 + the tag once the tag has been looked up. */
static inline struct headway_region_ headway_enter_(uint32_t *known, headway_tag_t (*look_up)(const char *),
                                                    const char *name) {
    struct headway_region_ region = {1};
    uint32_t tag = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (!tag) __atomic_store_n(known, tag = look_up(name) + 1, __ATOMIC_RELAXED);
    headway_set_noneffective(tag - 1);
    return region;
}

static inline void headway_leave_(struct headway_region_ *region) {
    (void)region;
    headway_clear_noneffective();
}

#ifdef __cplusplus
}
#endif

/* Make a region of the statement that follows; `name` is a string literal. `break` and `continue` in it only leave it. */
#define HEADWAY_NONEFFECTIVE(name) HEADWAY_BLOCK_(headway_tag, name, __LINE__)
#define HEADWAY_POLL(name) HEADWAY_BLOCK_(headway_poll_tag, name, __LINE__)
#define HEADWAY_STATE(name) HEADWAY_BLOCK_(headway_state_tag, name, __LINE__)
#define HEADWAY_BLOCK_(look_up, name, number) HEADWAY_BLOCK2_(look_up, name, number)
#define HEADWAY_BLOCK2_(look_up, name, number)                                                                \
    for (struct headway_region_ headway_region_##number##_ __attribute__((cleanup(headway_leave_))) =         \
             headway_enter_(__extension__({ static uint32_t headway_known_; &headway_known_; }), look_up, "" name ""); \
         headway_region_##number##_.on; headway_region_##number##_.on = 0)

/* The statement that follows works on a task; `name` is a string literal. `break` and `continue` in it only leave it. */
#define HEADWAY_TASK(id) HEADWAY_TASK_(id, 0, 0, __LINE__)
#define HEADWAY_NAMED_TASK(id, name) \
    HEADWAY_TASK_(id, "" name "", __extension__({ static uint32_t headway_known_; &headway_known_; }), __LINE__)
#define HEADWAY_TASK_(id, name, known, number) HEADWAY_TASK2_(id, name, known, number)
#define HEADWAY_TASK2_(id, name, known, number)                                                                  \
    for (struct headway_task_before_ headway_task_##number##_ __attribute__((cleanup(headway_end_task_))) =      \
             headway_begin_task_(id, name, known);                                                               \
         headway_task_##number##_.on; headway_task_##number##_.on = 0)

#endif /* 64-bit Linux */

#ifdef __cplusplus
namespace headway {

/* A region of this thread, until the end of the scope. */
class region {
public:
    explicit region(headway_tag_t tag) { headway_set_noneffective(tag); }
    ~region() { headway_clear_noneffective(); }
    region(const region &) = delete;
    region &operator=(const region &) = delete;
};

/* A task of this thread, until the end of the scope; then the task before goes on. */
class task {
public:
    explicit task(uint64_t id, headway_task_name_t name = 0)
        : task_(headway_current_task()), name_(headway_current_task_name()) {
        headway_named_task(id, name);
    }
    ~task() { headway_named_task(task_, name_); }
    task(const task &) = delete;
    task &operator=(const task &) = delete;

private:
    uint64_t task_;
    headway_task_name_t name_;
};

/* A name is looked up each time. Keep the tag in a static variable to avoid that. */
class noneffective : public region {
public:
    explicit noneffective(const char *name = "") : region(headway_tag(name)) {}
    explicit noneffective(headway_tag_t tag) : region(tag) {}
};

class poll : public region {
public:
    explicit poll(const char *name = "") : region(headway_poll_tag(name)) {}
    explicit poll(headway_tag_t tag) : region(tag) {}
};

class state : public region {
public:
    explicit state(const char *name) : region(headway_state_tag(name)) {}
    explicit state(headway_tag_t tag) : region(tag) {}
};

} /* namespace headway */
#endif

#endif /* HEADWAY_H */
