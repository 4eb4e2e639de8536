/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the eBPF programs and the reader in user space share: the numbers of the states and the layout of the memory that
 * both have mapped. A state's name is given in states.py.
 *
 * This header is the one source: the programs include it, Cython's modules take it by `cdef extern`, and list_layout.py
 * makes the module _layout of it, which Python uses (layout.py). Every enumeration and structure therefore has a name.
 */
#ifndef HEADWAY_LAYOUT_H
#define HEADWAY_LAYOUT_H

#ifdef __bpf__
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;
#else
#include <linux/types.h>
#endif

enum size {
	N_CALLS = 512, /* system call numbers that have a state of their own; higher ones share KERNEL_OTHER */
	KERNEL_CALL = 128, /* kernel.<call> */
	WAIT_CALL = KERNEL_CALL + N_CALLS, /* wait.<call>, for calls without a reason of their own */
	N_CHECKS = 32, /* system calls that ask whether something is ready */
	N_ERRORS = 4, /* errors by which a status check says that nothing is ready */
	N_NEUTRAL = 32, /* system calls that do nothing for a thread */
	N_PENDING = 4, /* states that may turn out to have been polling */
	N_FILES = 8, /* kinds of files, see FILE_NONE */
	POLL = WAIT_CALL + N_CALLS, /* poll.<call>.<kind of file>: + check * N_FILES + kind */
	N_TAGS = 128, /* names of marked regions and functions, over all programs measured */
	TAG = POLL + N_CHECKS * N_FILES, /* noneffective.<tag>, poll.<tag> */
	N_STATES = TAG + N_TAGS,
	N_CELLS = 128, /* states that one thread can be in before the rest share its last cell */
	N_NESTED = 8, /* states that can be interrupted one within the other */
	N_LOSSES = 32, /* a power of two */
	N_COUNTED = 8, /* events that can be counted by state */
	N_STACK = 127, /* frames of a stack that are kept: kernel.perf_event_max_stack unless told otherwise */
};

enum state {
	STATE_NONE,
	USER,
	READY,
	UNKNOWN,
	STOLEN,
	OVERHEAD,
	IDLE,
	UNMEASURED,
	ELSEWHERE,
	STOPPED,
	KERNEL_FAULT,
	KERNEL_THREAD,
	KERNEL_OTHER,
	WAIT_FUTEX = 16,
	WAIT_DISK,
	WAIT_NET,
	WAIT_PIPE,
	WAIT_POLL,
	WAIT_EPOLL,
	WAIT_SLEEP,
	WAIT_CHILD,
	WAIT_FAULT,
	WAIT_SIGNAL,
	WAIT_IPC,
	WAIT_IO_URING,
	WAIT_FLOCK,
	WAIT_KTHREAD,
	WAIT_FILE,
	WAIT_OTHER,
	WAIT_BY_FILE, /* not a state: the file that the call is about decides */
	IRQ_DEVICE = 48,
	IRQ_TIMER,
	IRQ_RESCHEDULE,
	IRQ_CALL_FUNCTION,
	IRQ_CALL_FUNCTION_SINGLE,
	IRQ_WORK,
	IRQ_THERMAL,
	IRQ_THRESHOLD,
	IRQ_ERROR,
	IRQ_SPURIOUS,
	IRQ_DEFERRED_ERROR,
	IRQ_PLATFORM,
	IRQ_IPI,
	SOFTIRQ = 64, /* + vector, 0 to 9 */
	N_SOFTIRQS = 10,
	N_INTERRUPTS = 32, /* states from IRQ_DEVICE on */
};

enum file_kind {
	FILE_NONE, /* the call is about no file */
	FILE_PIPE,
	FILE_SOCKET,
	FILE_DISK,
	FILE_DEVICE,
	FILE_EPOLL,
	FILE_EVENT, /* eventfd, timerfd, signalfd, inotify */
	FILE_OTHER,
};

enum event { /* what a handler was called for, as far as its cost differs */
	AT_ENTER,
	AT_LEAVE,
	AT_SWITCH,
	AT_WAKE,
	AT_FAULT,
	AT_FAULT_END,
	AT_INTERRUPT,
	AT_INTERRUPT_END,
	AT_ASK, /* beside AT_ENTER: the call may be a status check */
	AT_LOOK, /* beside that: the file that it is about was looked at */
	AT_ANSWER, /* beside AT_LEAVE: it was a check */
	AT_FUNCTION_END,
	AT_FUNCTION, /* these by how the kernel carries out the instruction that the probe is on (calibration.py) */
	AT_FUNCTION_ENDBR,
	AT_FUNCTION_OTHER,
	N_EVENTS,
};

enum loss { /* what can be lost, each counted */
	LOST_THREADS, /* threads not measured for want of a thread record */
	LOST_EXITS, /* threads whose totals did not fit the ring when they ended */
	LOST_STATES, /* states that had to share a thread's last cell */
	LOST_NESTED, /* interrupts nested too deep: charged to the state they interrupted */
	LOST_SKIPPED, /* handlers that met another one at work twice over: likewise */
	LOST_UNMATCHED, /* ends of interrupts whose beginning was not seen */
	LOST_STEAL, /* ns stolen that no state could be found for */
	LOST_SWITCHES, /* switches from a measured thread that did not show */
	LOST_STORAGE, /* threads not measured for want of kernel memory */
	LOST_BLOCKS, /* blocks of marked regions that were refused, or could not be read when it mattered */
	LOST_LIES, /* impossible times of marked regions, limited to what is possible */
	LOST_TAGS, /* tags beyond N_TAGS: they share noneffective.other */
	LOST_FRAMES, /* marked functions nested too deep */
	LOST_CAUSES, /* causes for which there was no room */
	LOST_STACKS, /* stacks for which there was no room: their time is charged to one that is not known */
	LOST_STACK_TIMES, /* times off the processor for which there was no room by stack */
	LOST_SAMPLE_EVENTS, /* states of samples, which the ring had no room for */
	LOST_WAKES, /* wake-ups that did not show, nor when they were: the wait seems to last until the thread runs */
	N_KNOWN_LOSSES,
};

struct cell {
	__u64 time; /* ns */
	__u64 count; /* occurrences; in a thread's cells the state stands in the upper 16 bits */
};

#define COUNT_BITS 48
#define COST_BITS 10

/* One thread. Written by the processor that runs it; off the processor by whoever wakes or dispatches it, in turn. */
struct thread_record {
	__u64 birth; /* since when it is measured; 0: the thread record is free */
	__u64 end; /* its exit */
	__u64 since; /* since when it is in `state`, when off the processor */
	__u64 runtime; /* the kernel's sum_exec_runtime when it last left a processor, less what it had before */
	__u64 runtime_before;
	__u64 overhead; /* taken out of its cells: headway's own */
	__u64 block; /* address of its marked regions in its own memory; 0: none */
	__u32 tid;
	__u32 pid;
	__u32 cpu; /* the processor that it runs on, + 1; 0: on none */
	__u32 snapshot; /* number of the last snapshot that has it */
	__u16 state; /* off the processor: what it does there */
	__u16 resume; /* what it goes on with when it is dispatched */
	__u16 depth; /* of `nested` */
	__u16 used; /* cells in use */
	__u32 number; /* of the thread record, if transitions are recorded */
	__u32 spare;
	__u16 flags;
	__u16 user; /* what its own code is: USER, or a marked function's state */
	__u16 current_check; /* 1 + the status check that it is making, or NEUTRAL + the neutral call; 0: none */
	__u16 last_poll_state; /* the state of polling of its last call, a check that found nothing; 0: another call */
	__u16 nested[N_NESTED]; /* states interrupted by `resume`, outermost first */
	char name[16];
	struct cell cells[N_CELLS]; /* as far as used, in order of first use */
	__u8 index[N_STATES]; /* state -> 1 + its cell; 0: none yet */
	__u16 current_poll_state; /* the state of polling for the check that it is making */
	__u16 polling; /* OTHERS or REPEATED (polling.h): its last check was not the first in a row to find nothing */
	__u32 object_kind; /* what it waits for, see OBJECT_NONE */
	__u64 about; /* what its last check asked about */
	__u64 asked_at; /* when that returned */
	__u64 neutral_since; /* when its last neutral call began */
	__u64 in_neutral; /* ns in neutral calls since the last check returned */
	__u64 object;
	__u32 waker_kind; /* who is waking it: OBJECT_NONE, WAKER_THREAD or WAKER_STATE */
	__u32 waker; /* its id, or the interrupt's state */
	char waker_name[16];
	__u32 checked_snapshot; /* the last snapshot when its last check began or returned */
	__u32 waker_record; /* of the thread that wakes it, if transitions are recorded and it is measured */
	__u32 sampled; /* in its own code, while it may turn out to have been polling */
	__u32 disturbed; /* ns of the interrupts for that, since its last check returned */
	__u64 run_delay; /* the kernel's sched_info.run_delay when it left the processor */
	__u64 user_stack, kernel_stack; /* with which it left the processor: their hashes; 0: not known */
};

enum thread_flag {
	THREAD_NEW = 1,
	THREAD_KERNEL = 2,
	THREAD_EXECUTES = 4, /* opened while it executes a program */
	THREAD_RAN = 8, /* when it was opened: the kernel's clock of it lagged behind, so `runtime` has too much */
};

/* What a reader gets of a thread record, at a snapshot and when the thread ends: all up to the index. */
struct thread_snapshot {
	__u64 birth, end, since, runtime, runtime_before, overhead, block;
	__u32 tid, pid, cpu, snapshot;
	__u16 state, resume, depth, used;
	__u32 number, spare;
	__u16 flags, user, current_check, last_poll_state;
	__u16 nested[N_NESTED];
	char name[16];
	struct cell cells[N_CELLS];
};

enum current_check { NEUTRAL = 256 }; /* thread_record.current_check */

/* What was charged to a state since the last check began, by this processor and in one turn of the thread. */
struct pending {
	__u64 time;
	__u32 state;
	__u32 count; /* occurrences that were counted of the state */
	__u32 checks; /* of these, checks that found nothing */
	__u32 spare;
};

/* One processor. Written by that processor alone. */
struct processor {
	__u64 since; /* since when it is in `state`; 0: not measuring yet */
	__u32 thread_record; /* of the thread it runs; 0: one that is not measured, or none */
	__u16 state;
	__u16 depth;
	__u16 nested[N_NESTED];
	__u32 busy; /* a handler is at work: 1, and 2 when an interrupt's handler met it */
	__u32 snapshot;
	__u32 overflow; /* interrupts begun beyond N_NESTED */
	__u32 selected; /* threads are measured here */
	__u64 events;
	__u64 cost_pending; /* headway's own time that falls into the open span, ns << COST_BITS */
	__u64 span; /* what was charged last, to the state it was spent in */
	__u64 pending_user; /* 1 + the time after the last check, until one of something else began; 0: none */
	__u32 early; /* interrupts under way that began before it was time to measure */
	__u32 settled; /* what began here is known: there was a switch, when no interrupt is under way, and no look since */
	__u32 running; /* the id of the thread that we take to be running, if causes are recorded */
	__u32 n_pending;
	struct pending pending[N_PENDING]; /* the last check and what came after it, charged as if it were no polling */
	__u64 steal; /* the kernel's own count of stolen time at the last look */
	__u64 debt; /* stolen time not yet taken out of a state */
	__u64 task; /* the thread that we take to be running */
	__u64 switched, switched_clock; /* when it came, on our clock and on the run queue's */
	__u64 held; /* until when it is known who had the processor (holders.h); 0: nobody has been seen yet */
	__u64 longest; /* the longest span since the last look, and its state */
	__u64 floor; /* spans count from here on for `longest` */
	__u32 longest_state;
	__u32 steal_known;
	/* Interrupts that came while a handler was at work: gathered by theirs, taken over by the next handler. */
	__u64 deferred_since;
	__u64 deferred_total, absorbed_total;
	__u16 deferred_state, deferred_depth;
	__u16 deferred_nested[N_NESTED];
	__u32 spare;
	struct cell deferred[N_INTERRUPTS];
	struct cell absorbed[N_INTERRUPTS];
	__u64 losses[N_LOSSES];
	/* The rings of transitions (transition_rings.h): words written, up to where there is room, and what did not fit. */
	__u64 written, room, lost_spans;
	__u64 told_until; /* until when all is said, and of which thread record it was last */
	__u32 told_record;
	__u32 spare2;
	__u64 written_absences, room_absences, lost_absences;
	struct cell cells[N_STATES];
};

/* How far the reader has read the rings of a processor, in words. */
struct tails {
	__u64 spans, absences;
	__u64 spare[6]; /* a cache line */
};

/*
 * What is on the rings of transitions: words of 64 bits. A word whose lowest bit is 0 is a span: whether its state ended
 * with it, its state, how much of the duration was not this state's, and the duration. Otherwise the lowest RECORD_BITS
 * bits say what the word is.
 */
enum ring_record {
	RECORD_THREAD = 1 | 1 << 1, /* what follows is of this thread: + its record's number */
	RECORD_TIME = 1 | 2 << 1, /* and begins at this moment: the next word */
	RECORD_LONG = 1 | 3 << 1, /* a span that does not fit: + state and count; then the duration, and taken */
	RECORD_AMOUNT = 1 | 4 << 1, /* without a place: + state and count; then the time */
	RECORD_MOVE = 1 | 5 << 1, /* + from, to, and count, 1 bit; then the time */
	/* Off the processor. + state, the thread record's number, WOKEN_BY and by what; then from when, and until when. */
	RECORD_ABSENCE = 1 | 6 << 1,
};

/* Widths of the parts of a word, and where each begins. What has no width goes up to the highest bit. */
enum ring_word {
	STATE_BITS = 11,
	TAKEN_BITS = 15,
	DURATION_BITS = 36,
	SPAN_ENDED = 1,
	SPAN_STATE = SPAN_ENDED + 1,
	SPAN_TAKEN = SPAN_STATE + STATE_BITS,
	SPAN_DURATION = SPAN_TAKEN + TAKEN_BITS,
	RECORD_BITS = 5,
	RECORD_NUMBER = RECORD_BITS, /* of RECORD_THREAD */
	RECORD_STATE = RECORD_BITS, /* of the others */
	RECORD_COUNT = RECORD_STATE + STATE_BITS,
	MOVE_TO = RECORD_STATE + STATE_BITS,
	MOVE_COUNT = MOVE_TO + STATE_BITS,
	THREAD_RECORD_BITS = 22,
	WOKEN_BY_BITS = 2,
	ABSENCE_NUMBER = RECORD_STATE + STATE_BITS,
	ABSENCE_WOKEN_BY = ABSENCE_NUMBER + THREAD_RECORD_BITS,
	ABSENCE_WAKER = ABSENCE_WOKEN_BY + WOKEN_BY_BITS,
};
#define STATE_MASK ((1 << STATE_BITS) - 1)

enum woken_by { WOKEN_BY_NOBODY, WOKEN_BY_MEASURED, WOKEN_BY_TID, WOKEN_BY_STATE };

/* A system call that asks whether something is ready. Arguments are numbered from 1; 0: none. */
struct check {
	__u16 call;
	__u8 always;
	__u8 if_zero; /* it is a check if this argument is 0, */
	__u8 if_no_time; /* or this one points to a length of time of 0, */
	__u8 if_flag; /* or this one has a bit of `flag`, */
	__u8 if_nonblocking; /* or the file `about` does not block */
	__u8 about; /* this argument says what is asked for */
	__u8 about_file; /* which is a file */
	__u8 zero; /* a return value of 0 means: not ready */
	__u16 errors[N_ERRORS]; /* so do these errors */
	__u32 flag;
	__u32 gap; /* ns: a longer time until the next check was for something else; 0: there is no limit */
};

/* A system call that does nothing for a thread, so that it ends no row of checks. */
struct neutral {
	__u16 call;
	__u8 if_zero; /* it is neutral only if this argument is 0 */
	__u8 any; /* whatever it returns. Otherwise only if it returned */
	__u8 zero; /* 0, */
	__u8 spare;
	__u16 errors[N_ERRORS]; /* or one of these errors */
	__u16 spare2;
	__u32 at_most; /* ns: a longer one waited for something else; 0: there is no limit */
};

/* What was counted of a thread, cell by cell as in its record. It is sent to the reader when the thread ends. */
struct thread_counts {
	__u64 zero; /* where a thread record has its birth: so that the two are told apart */
	__u64 birth;
	__u32 tid;
	__u32 used;
	__u64 cells[N_CELLS][N_COUNTED];
};

struct processor_counts {
	__u64 last[N_COUNTED]; /* at the last reading */
	__u64 enabled[N_COUNTED], running[N_COUNTED]; /* ns, then: less running than enabled is sharing a counter */
	__u64 span[N_COUNTED]; /* of the span charged last, and of those that are pending */
	__u64 pending_user[N_COUNTED];
	__u64 pending[N_PENDING][N_COUNTED];
	__u64 cells[N_STATES][N_COUNTED];
};

enum cause_kind { /* what a cause is */
	OBJECT_NONE,
	OBJECT_ADDRESS, /* in the thread's memory: a futex */
	OBJECT_FILE, /* + kind of file, see FILE_NONE; the object is its inode's number and device */
	OBJECT_LINE = OBJECT_FILE + N_FILES, /* an interrupt's number */
	OBJECT_STATE, /* the state that time was taken from */
	WAKER_THREAD, /* its id, and above it the lower half of the address, if it was for one */
	WAKER_STATE, /* the interrupt that ended the wait, by its state, and likewise */
	HOLDER_THREAD, /* its id, or what there is instead of a thread: see HELD_IDLE */
	HOLDER_HIDDEN, /* a thread whose own events do not show: its id, 0 if that is not known */
	HOLDER_STATE, /* the interrupt, by its state */
};

enum holder {
	HELD_STILL_READY = 0xfffffffd, /* the thread has not got a processor yet, so it is not known whose history counts */
	HELD_FORGOTTEN = 0xfffffffe, /* so many had the processor since that the first are forgotten */
	HELD_IDLE = 0xffffffff,
};

struct cause_key {
	__u64 birth;
	__u64 object;
	__u32 tid; /* with `birth`: the thread */
	__u32 pid; /* whose addresses are meant */
	__u16 state;
	__u16 kind;
	__u32 spare;
};

struct cause {
	__u64 time, count;
	char name[32];
};

enum stack_hash { STACK_LOST = 1 }; /* instead of a stack's hash: there was no room for it */

struct stack {
	__u32 depth, spare;
	__u64 frames[N_STACK]; /* return addresses, the innermost first */
};

struct stack_key {
	__u64 birth;
	__u64 user, kernel; /* hashes of stacks */
	__u32 tid; /* with `birth`: the thread */
	__u32 pid;
	__u32 state, spare;
};

enum sample_event_kind { /* what the reader is told of at once */
	/* A sample was taken at `time`, in `state`. If that may be polling, a check found nothing at `since`. */
	SAMPLE_TAKEN,
	SAMPLE_POLLING, /* what seemed to be user code from `since` to `time` was `state` */
};

struct sample_event {
	__u64 time, since;
	__u32 tid, pid;
	__u16 kind, state, cpu, spare;
};

enum thread_number { THREAD_UNSEEN = 0xffffffff }; /* processor.thread_record: find out which thread is running */

/* The memory in which a program marks its regions: headway.h, which explains it. */
enum block_size { N_BLOCK_TAGS = 32, TAG_LENGTH = 32 };
#define BLOCK_MAGIC 0x316b636f6c627768ull /* "hwblock1" */
/* prctl(2)'s first argument; the second is the address of the block, the third the version. */
enum block_call { REGISTER_CALL = 0x48574159 };

struct block_tag {
	__u64 word; /* 2 A + n modulo 2^64: the time in it until t is A + n t, n being 1 while it is charged */
	__u64 entries;
};

struct block {
	__u64 magic;
	__u32 tid;
	__u32 n_tags;
	__u64 names;
	__u64 since; /* when the thread took it; its words began at 0 then */
	__u32 depth;
	__u32 open;
	__u32 errors;
	__u32 spare;
	__u8 stack[16];
	struct block_tag tags[N_BLOCK_TAGS];
};

struct tag_name {
	char name[TAG_LENGTH];
};

/* Fixed before the programs are loaded: the verifier removes what is then unused. */
struct settings {
	__u32 everything; /* measure every thread */
	__u32 follow; /* measure what measured threads create */
	__u32 some_cpus; /* only on the processors selected */
	__u32 intervals; /* readers want snapshots other than the last one */
	__u32 has_steal; /* the kernel accounts for stolen time */
	__u32 has_prev_state; /* sched_switch says why the thread leaves: commit fa2c3254d7cf, 5.18 */
	__u32 has_fetch; /* atomic instructions that fetch: arm64's JIT has them since commit 1902472b4fa9, 5.18 */
	__u32 max_thread_records;
	__u32 namespace_inum; /* the reader's pid namespace; 0: the initial one */
	__u32 cgroup_level; /* at this level below the root, or deeper */
	__u64 cgroup; /* 0: not by cgroup */
	__u32 name_length; /* 0: not by name */
	__u32 name_prefix;
	char name[16];
	__u32 why; /* record causes */
	__u32 functions; /* functions are marked */
	__u32 n_counted; /* events counted */
	__u32 record; /* transitions */
	__u32 ring_words; /* a power of two: words of a processor's ring of spans */
	__u32 absence_words; /* likewise of its ring of absences */
	__u32 stacks; /* charge time to stacks, and tell the states of samples */
	__u32 timer_line; /* the interrupt line of the processors' own timer, where that has one (arm64); 0: it has none */
	__u8 check_of[N_CALLS]; /* call -> 1 + its check; 0: none */
	struct check checks[N_CHECKS];
	__u8 neutral_of[N_CALLS]; /* call -> 1 + its place in `neutrals`; 0: none */
	struct neutral neutrals[N_NEUTRAL];
	__u16 wait_of[N_CALLS]; /* call -> its state when it waits; 0: one of its own */
	__u16 compat_call[N_CALLS]; /* 32-bit call -> the native one of the same name; N_CALLS: none */
};

/* Written by user space, read by the programs. */
struct control {
	__u64 snapshot_at; /* all before this moment belongs to the snapshot, all after it does not */
	__u64 told_at; /* the moment of the snapshot before, which has been read completely by now; 0: not known */
	__u32 snapshot; /* its number */
	__u32 last; /* it is the last one: nothing after it is measured */
	__u32 command; /* a process of ours to be measured from its exec on; 0: none */
	__u32 only; /* measure no other process than this one; 0: as selected */
	__u32 thread_records; /* thread records handed out so far; written by the programs */
	__u32 namespace_level; /* of the reader's pid namespace; written by the programs */
	/* What an event costs, ns << COST_BITS: before the handler reads its clock, and after. */
	__u32 before[N_EVENTS];
	__u32 after[N_EVENTS];
};

/* ---- what both sides rely on ---- */

#define POWER_OF_TWO(n) ((n) > 0 && !((n) & ((n) - 1)))
_Static_assert(POWER_OF_TWO(N_CALLS) && POWER_OF_TWO(N_CHECKS) && POWER_OF_TWO(N_NEUTRAL) && POWER_OF_TWO(N_PENDING) &&
		POWER_OF_TWO(N_FILES) && POWER_OF_TWO(N_TAGS) && POWER_OF_TWO(N_CELLS) && POWER_OF_TWO(N_NESTED) &&
		POWER_OF_TWO(N_LOSSES) && POWER_OF_TWO(N_COUNTED) && POWER_OF_TWO(N_INTERRUPTS) && POWER_OF_TWO(N_BLOCK_TAGS),
	"indices are masked");
_Static_assert((int)N_KNOWN_LOSSES <= (int)N_LOSSES, "there is room for every loss");
_Static_assert(N_STATES <= 1 << STATE_BITS, "a state fits a word of a ring");
_Static_assert(N_STATES <= 1 << (64 - COUNT_BITS), "a state fits a cell");
_Static_assert(SPAN_DURATION + DURATION_BITS == 64, "a span fills a word");
_Static_assert(N_CELLS < 256, "a cell's number fits the index");
_Static_assert(WAIT_BY_FILE < IRQ_DEVICE && IRQ_IPI < SOFTIRQ && KERNEL_OTHER < WAIT_FUTEX, "states do not overlap");
_Static_assert(IRQ_DEVICE + N_INTERRUPTS >= SOFTIRQ + N_SOFTIRQS && IRQ_DEVICE + N_INTERRUPTS <= KERNEL_CALL,
	"interrupts are one row of states");
_Static_assert((int)NEUTRAL > (int)N_CHECKS, "a neutral call is told from a check");
_Static_assert((int)FILE_OTHER < (int)N_FILES, "there is a state for every kind of file");

#define SAME(field) \
	(__builtin_offsetof(struct thread_record, field) == __builtin_offsetof(struct thread_snapshot, field))
_Static_assert(SAME(birth) && SAME(end) && SAME(since) && SAME(runtime) && SAME(runtime_before) && SAME(overhead) &&
		SAME(block) && SAME(tid) && SAME(pid) && SAME(cpu) && SAME(snapshot) && SAME(state) && SAME(resume) &&
		SAME(depth) && SAME(used) && SAME(number) && SAME(flags) && SAME(user) && SAME(current_check) &&
		SAME(last_poll_state) && SAME(nested) && SAME(name) && SAME(cells),
	"a thread record begins with what a snapshot has of it");
_Static_assert(__builtin_offsetof(struct thread_record, state) % 4 == 0 &&
		__builtin_offsetof(struct thread_record, resume) == __builtin_offsetof(struct thread_record, state) + 2,
	"both are exchanged as one word");
_Static_assert(__builtin_offsetof(struct thread_counts, zero) == __builtin_offsetof(struct thread_snapshot, birth),
	"what comes out of the ring of exits is told apart by its first word");
_Static_assert(sizeof(struct thread_record) % 8 == 0 && sizeof(struct thread_snapshot) % 8 == 0 &&
		sizeof(struct processor) % 8 == 0 && sizeof(struct thread_counts) % 8 == 0 &&
		sizeof(struct processor_counts) % 8 == 0 && sizeof(struct tag_name) % 8 == 0,
	"the kernel sets the entries of an array in multiples of 8 bytes");
_Static_assert(sizeof(struct tails) == 64, "a cache line");

#endif
