/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The numbers of the states, and the layout of the memory that the eBPF programs and the reader in user space both map.
 * states.py gives the states' names.
 *
 * This header is the only definition: the programs include it, and list_layout.py makes of it the module _layout, which
 * Python uses (layout.py), and bpf_layout.pxd, from which Cython modules take it. Therefore every enumeration and
 * structure has a name.
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
	N_CHECKS = 64, /* system calls that ask whether something is ready */
	N_ERRORS = 4, /* errors by which a status check says that nothing is ready */
	N_NEUTRAL = 32, /* system calls that do nothing for a thread */
	NAME_WORDS = 16, /* of the name of a file that a status check asks about */
	N_PENDING = 4, /* states that may turn out to have been polling */
	N_FILES = 8, /* kinds of files, see FILE_NONE */
	POLL = WAIT_CALL + N_CALLS, /* poll.<call>.<kind of file>: + check * N_FILES + kind */
	N_TAGS = 128, /* names of marked regions and functions, over all programs measured */
	TAG = POLL + N_CHECKS * N_FILES, /* noneffective.<tag>, poll.<tag> */
	N_STATES = TAG + N_TAGS,
	N_CELLS = 128, /* states that one thread can be in before the rest share its last cell */
	N_NESTED = 8, /* depth of the stack of interrupted states */
	N_SAMPLED = 16, /* states of samples that a thread or a processor has places for; the rest share the last */
	N_LOSSES = 32, /* a power of two */
	N_IDS = 1 << 14, /* groups of thread ids, by their last bits (threads.h) */
	N_COUNTED = 8, /* events that can be counted by state */
	N_CHANGES = 256, /* changes of the task that a thread's log has room for */
	N_TASK_NAMES = 1024, /* names of tasks, over all programs measured; 0: none */
	N_PROGRAM_NAMES = 4096, /* names of tasks that one program has room for */
	N_THREAD_TASKS = 1024, /* tasks of one thread that have a record of their own */
	TASK_NAME_LENGTH = 64,
	N_CONTEXT_NAMES = 4, /* attributes of a thread context that may name its task */
	N_ATTRIBUTES = 64, /* attributes of a thread context that are looked at */
	ATTRIBUTE_BYTES = 1024, /* and their bytes, a power of two */
	TRACE_WORDS = 2, /* words of the id of a trace */
	VECTOR_BASE = 1024, /* musl on arm64 keeps the address of the vector below the thread pointer */
	N_STACK_FRAMES = 128, /* frames of a stack that are kept; the kernel's own walk gives 127 */
	N_STACK = 130, /* and words: why it ends, and the hash of the frames of an interpreter */
	N_BUCKETS = 43, /* powers of two that durations are told apart by; the last has all above 2^41 ns, 37 min */
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
	KERNEL_FAULT, /* in a page fault that failed, or of which it is not known what it is */
	KERNEL_FAULT_MINOR, /* the page was in memory; also a fault that is not over */
	KERNEL_FAULT_MAJOR, /* it was read from a disk */
	KERNEL_RECLAIM, /* the thread itself frees memory, to get some */
	KERNEL_THREAD,
	KERNEL_OTHER,
	RUNNING, /* on the processor, at the level `switches`: not divided */
	OVERHEAD_MARKS, /* what the marks of regions took themselves */
	WAIT_FUTEX = 20,
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
	WAIT_RECLAIM,
	WAIT_OTHER,
	WAIT_BY_FILE, /* not a state: the kind of the call's file decides (wait_by_file) */
	WAIT_SYNCED, /* nor this: for a disk, unless the file's server is waited for */
	READY_PART = 40, /* ready.<part>: + one of enum ready_part. In the rings only; a record is READY */
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
	IRQ_ANY, /* an interrupt or a soft interrupt, in a sample: which one is not told */
	SOFTIRQ = 64, /* + vector, 0 to 9 */
	N_SOFTIRQS = 10,
	N_INTERRUPTS = 32, /* states from IRQ_DEVICE on */
	KERNEL_COREDUMP = IRQ_DEVICE + N_INTERRUPTS, /* a signal ends the process, and its memory may be written */
	KERNEL_TASK_WORK, /* what a call has put off until its end (way_back.h) */
	KERNEL_SIGNAL, /* on the way into a signal handler */
	WAIT_COREDUMP,
	WAIT_FROZEN, /* its control group is frozen */
	WAIT_MMAP_LOCK, /* the lock of an address space (kernel_locks.h) */
	WAIT_FILE_LOCK, /* that of a file or directory, or of a file's position */
	WAIT_KERNEL_LOCK, /* another one of the kernel */
	WAIT_FUSE, /* a file that a process serves */
	WAIT_NFS,
	WAIT_PROC,
	WAIT_OVERLAY,
	POLL_IO_URING, /* the kernel's thread that looks for an io_uring's submissions found none (submissions.h) */
};

/* Why a thread is ready and does not run: time ready is divided in this order (ready_parts.h). */
enum ready_part {
	READY_THROTTLED, /* the quota of its control group, or the runtime of its scheduling class, was used up */
	READY_OWN, /* a thread of its own process had the processor */
	READY_NEIGHBOUR, /* a thread of another process had it */
	READY_INTERRUPT, /* an interrupt had it */
	READY_STOLEN, /* the hypervisor had it */
	READY_WAKEUP, /* the rest: the processor was idle, and on its way out of that */
	N_READY_PARTS,
};

enum file_kind {
	FILE_NONE, /* the call has no file */
	FILE_PIPE,
	FILE_SOCKET,
	FILE_DISK,
	FILE_DEVICE,
	FILE_EPOLL,
	FILE_EVENT, /* eventfd, timerfd, signalfd, inotify */
	FILE_OTHER,
};

enum event { /* kinds of events by what their handlers cost */
	AT_ENTER,
	AT_LEAVE,
	AT_SWITCH,
	AT_WAKE,
	AT_FAULT,
	AT_FAULT_END,
	AT_INTERRUPT,
	AT_INTERRUPT_END,
	AT_ASK, /* in addition to AT_ENTER: the call may be a status check */
	AT_LOOK, /* in addition to AT_ASK: its file was looked up */
	AT_ANSWER, /* in addition to AT_LEAVE: the call was a check */
	AT_SAMPLE, /* the timer's interrupt, and the program that tells the state which it interrupted */
	AT_TASK_PROBE, /* a static probe at which a task begins or ends */
	AT_FUNCTION_END,
	AT_FUNCTION_EXIT, /* seen at the function's own return, and not by a return probe */
	AT_FUNCTION, /* this and the next two: by the instruction under the probe (calibration.py) */
	AT_FUNCTION_ENDBR,
	AT_FUNCTION_OTHER,
	N_EVENTS,
};

enum timed_handler { /* handlers that are timed now and then */
	TIMED_ENTER, /* of a system call that is no status check */
	TIMED_SWITCH,
	N_TIMED,
};

enum loss { /* counts of what headway could not see */
	LOST_THREADS, /* threads not measured for want of a thread record */
	LOST_EXITS, /* threads whose totals did not fit the ring when they ended */
	LOST_STATES, /* states that had to share a thread's last cell */
	LOST_NESTED, /* interrupts nested too deep: their time stays in the state that they interrupted */
	LOST_SKIPPED, /* interrupts that arrived while a handler noted another one (busy is 2): likewise */
	LOST_UNMATCHED, /* ends of interrupts whose beginning was not seen */
	LOST_STEAL, /* ns of stolen time that could be taken out of no state */
	LOST_SWITCHES, /* switches from a measured thread that did not show */
	LOST_STORAGE, /* threads not measured for want of kernel memory */
	LOST_BLOCKS, /* blocks of marked regions that were refused, or could not be read at the end of a span */
	LOST_LIES, /* impossible times in blocks of marked regions: reduced to the possible */
	LOST_TAGS, /* tags beyond N_TAGS: they share noneffective.other */
	LOST_FRAMES, /* marked functions nested too deep */
	LOST_CAUSES, /* causes for which there was no room */
	LOST_STACKS, /* stacks for which there was no room: their time goes to an unknown stack */
	LOST_STACK_TIMES, /* times off the processor that found no room in stack_times */
	LOST_SAMPLE_EVENTS, /* samples, or states of samples, for which the ring had no room */
	LOST_WAKES, /* wake-ups not seen and not dated: the wait seems to last until the thread runs */
	LOST_TASKS, /* tasks for which there was no room: their time is that of other tasks */
	LOST_CHANGES, /* changes of the task that were overwritten before they were read: likewise */
	LOST_LOGS, /* logs of tasks that were refused, or could not be read, and impossible times in them */
	LOST_HISTOGRAMS, /* states of threads for whose durations there was no room */
	LOST_BUCKETS, /* occurrences that were taken back, and whose bucket was no longer known */
	LOST_PROCESSES, /* threads whose process got no number: their time ready is not divided */
	LOST_CODE, /* code objects of Python whose names found no room on the ring */
	LOST_CONTEXTS, /* thread contexts that could not be read, or contradict themselves: the thread works on no task then */
	LOST_ARGUMENTS, /* texts of probes that could not be read: in the names of their tasks is a question mark instead */
	N_KNOWN_LOSSES,
};

struct cell {
	__u64 time; /* ns */
	__u64 count; /* occurrences; in a thread's cells the state stands in the upper 16 bits */
};

/* Samples of a state that were taken while time was not divided. */
struct sample_count {
	__u32 state; /* 0: this place is free, and so are those after it */
	__u32 count;
};

/* What the clocks of a processor show (run_clock.h), for a thread that is ready there. */
struct ready_clocks {
	__u64 own; /* ns that threads of its process had the processor */
	__u64 busy; /* ns that threads had it */
	__u64 interrupts; /* ns in interrupts */
	__u64 stolen; /* ns, by the kernel's count */
	__u64 throttled; /* ns that its run queue was throttled, by the kernel's count */
};

#define COUNT_BITS 48
#define COST_BITS 10

/* What a thread writes down when it begins to work on another task. headway.h explains it. */
struct task_change {
	__u64 at;
	__u64 task;
	__u32 name;
	__u32 number; /* 1 + its number; written last */
};

struct task_name {
	char name[TASK_NAME_LENGTH];
};

/* A task of one thread. What has a name has one record, whatever its ids. */
struct task_key {
	__u64 birth;
	__u64 task; /* 0: it has a name */
	__u32 thread_record; /* `birth` and `thread_record` identify the thread */
	__u32 name; /* its number in the program; OTHER_TASKS: all for which there is no room */
};

/* Protocols of which requests are recognised by their first bytes (socket_requests.h). */
enum protocol { PROTOCOL_HTTP = 1, PROTOCOL_REDIS = 2, PROTOCOL_POSTGRES = 4 };

enum task_probe_size {
	N_TASK_PROBES = 256, /* places where tasks begin or end; the first is none */
	N_ARGUMENTS = 4, /* arguments that a task's name may have */
	N_OPEN_TASKS = 8, /* tasks of probes that a thread has begun and not ended */
	ARGUMENT_BYTES = 256, /* of an argument's text that are looked at */
};

/* Where an argument of a probe is: base + index * scale + value, or in memory there. */
enum operand_flag { OPERAND_BASE = 1, OPERAND_INDEX = 2, OPERAND_MEMORY = 4 };
struct operand {
	__u64 value;
	__u16 flags;
	__u16 base, index; /* registers: where they stand in struct pt_regs */
	__u16 scale;
};

/* A place in a program where a task begins or ends (task_probes.h). User space writes it. */
struct task_probe {
	__u32 task; /* which of those that the user named, from 1 on */
	__u16 begins; /* 0: it ends there */
	__u16 goes_on; /* 1: where it begins anew with the same name, it goes on */
	char name[TASK_NAME_LENGTH]; /* a byte of 1 to N_ARGUMENTS stands for the text of an argument */
	struct operand arguments[N_ARGUMENTS];
};

/* Where the threads of a process have the pointer `otel_thread_ctx_v1` (contexts.h). User space finds it. */
struct context_access {
	__u64 offset; /* from the thread pointer (it may be below), or in the memory that the module has for each thread */
	__u32 module; /* its number in the vector of modules (DTV); 0: the offset is from the thread pointer */
	__u16 vector; /* from the thread pointer, + VECTOR_BASE: the address of that vector */
	__u8 entry; /* the logarithm of the bytes of an entry of the vector */
	__u8 known; /* 1: the process has that pointer; written last */
	__u8 names[N_CONTEXT_NAMES]; /* key indexes of the attributes that name a task, the best first */
	__u8 n_names;
	__u8 announced; /* 1: the thread may have begun to publish: user space searches its process again */
	__u8 spare[2];
};

/* A thread's context, while it is read. The first 28 bytes are as OTEP 4947 has them. */
struct context_record {
	__u64 trace_id[TRACE_WORDS]; /* in the order of W3C Trace Context */
	__u64 span_id;
	__u8 valid;
	__u8 flags;
	__u16 size; /* of the attributes */
	__u32 rank; /* of the name found, in `names` */
	__u64 attributes_at; /* their address in the program */
	__u32 at; /* where the next attribute begins */
	__u32 name_at, name_length;
	__u32 spare;
	__u8 attributes[ATTRIBUTE_BYTES];
};

struct cause_key {
	__u64 birth;
	__u64 object;
	__u32 tid; /* `birth` and `tid` identify the thread */
	__u32 pid; /* the process that addresses are in */
	__u16 state;
	__u16 kind;
	__u32 spare;
};

struct cause {
	__u64 time, count;
	char name[32];
};

/* The other end of a socket, in the 32 bytes of a cause's name. */
struct socket_peer {
	__u16 family; /* AF_UNIX, AF_INET or AF_INET6; 0: it has no other end, or one that is not known */
	__u16 port; /* in the order of the network */
	__u32 pid; /* of the process that made it, in the initial pid namespace */
	char address[16];
	__u64 spare;
};

/* Futexes, in the 32 bytes of a cause's name: their addresses, below how many there are, and which of them ended the wait. */
enum futex_list {
	N_LISTED = 4, /* so many of them */
	LISTED_BITS = 56, /* of an address; above it is one of these, by place: */
	LISTED_NUMBER = 0, /* how many there are */
	LISTED_ENDED = 1, /* 1 + the place of the one at which the thread was woken; 0: not known, or it has no place */
};
#define LISTED_ADDRESS ((1ull << LISTED_BITS) - 1)

/* One thread. The processor that runs it writes it; off the processor, whoever wakes or dispatches it does, in turn. */
struct thread_record {
	__u64 birth; /* when its measurement began; 0: the thread record is free */
	__u64 end; /* its exit */
	__u64 since; /* off the processor: when `state` began */
	__u64 runtime; /* sum_exec_runtime when it last left a processor, less runtime_before */
	__u64 runtime_before; /* sum_exec_runtime when its measurement began */
	__u64 overhead; /* headway's own time, taken out of the cells */
	__u64 undivided_overhead; /* the part of it that was taken out of RUNNING, where events are counted */
	__u64 block; /* address of its marked regions in its own memory; 0: none */
	__u32 tid;
	__u32 pid;
	__u32 cpu; /* the processor that it runs on, + 1; 0: on none */
	__u32 snapshot; /* number of the last snapshot that has it */
	__u16 state; /* off the processor: READY, a wait, STOPPED, ELSEWHERE or UNKNOWN */
	__u16 resume; /* the state that goes on when it is dispatched */
	__u16 depth; /* of `nested` */
	__u16 used; /* cells in use */
	__u32 number; /* of the thread record */
	__u32 deep; /* written by user space: one of enum depth (depth.h); 0: it is not deep */
	__u32 task_record; /* of the task that it works on; 0: it works on none */
	__u32 other_tasks; /* the record of its tasks for which there is no room; 0: it has never had a task */
	__u16 flags;
	__u16 user; /* the state of its own code: USER, or a marked function's state */
	__u16 current_check; /* the call in progress: 1 + status check, or NEUTRAL + neutral call; 0: neither */
	__u16 last_poll_state; /* the state of polling of its last call, a check that found nothing; 0: another call */
	__u16 nested[N_NESTED]; /* states interrupted by `resume`, outermost first */
	char name[16];
	struct cell ready_parts[N_READY_PARTS]; /* of the cell READY; the largest part of a time ready has its count */
	__u64 open_parts[N_READY_PARTS]; /* of a time ready that goes on, */
	__u64 open_since, open_until; /* which began then, until this snapshot */
	struct sample_count samples[N_SAMPLED];
	struct cell cells[N_CELLS]; /* the first `used` of them, in order of first use */
	__u8 index[N_STATES]; /* state -> 1 + its cell; 0: none yet */
	__u16 current_poll_state; /* the state of polling of the check in progress */
	__u16 interrupted_call; /* the state of the call that restart_syscall goes on with */
	__u16 polling; /* OTHERS or REPEATED (polling.h): the row has more than one check; 0: it has not */
	__u32 object_kind; /* what it waits for, see OBJECT_NONE */
	__u64 about; /* the object of its last check */
	__u64 asked_at; /* when its last check returned */
	__u64 neutral_since; /* when its last neutral call began */
	__u64 outside_gap; /* ns since the last check that are no gap: neutral calls, interrupts, time ready or stolen */
	__u64 long_gap; /* ns between its last two checks that were further apart than a short gap; 0: none in this row */
	__u64 object;
	__u32 waker_kind; /* OBJECT_NONE, WAKER_THREAD or WAKER_STATE: what is waking it */
	__u32 waker; /* the thread's id, or the interrupt's state */
	char waker_name[16];
	__u32 waker_record; /* thread record of the waker, if transitions are recorded; 0: it is not measured */
	__u32 sampled; /* 1: a sample was taken in user code that may turn out to be polling */
	__u64 task, started; /* the kernel's task_struct, and when that thread began */
	__u64 run_delay; /* the kernel's sched_info.run_delay when it left the processor */
	__u32 counted_ids[2]; /* its id and its process's when it was opened, both counted in measured_ids */
	__u64 kernel_fault; /* 1 + the faults done when its last fault in a call began (levels.h); 0: none */
	__u64 user_stack, kernel_stack; /* hashes of its stacks when it left the processor; 0: not known */
	__u64 waker_user_stack, waker_kernel_stack; /* of the waker's, if transitions are recorded; likewise */
	__u64 calls; /* its system calls, where samples are taken */
	__u64 task_log; /* address of its log of tasks in its own memory; 0: none */
	__u64 task_names; /* address of the names there; 0: the log has not been read yet */
	__u64 changes; /* changes of the task that were read */
	__u64 task_since, task_left; /* while a span is divided among tasks: where the next part begins, time left for it */
	__u64 task_until, task_span, task_time; /* and its end, its length, and its time */
	__u64 region_time; /* the time in marked regions that the span has beside that */
	__u32 task_first; /* the task when that span began */
	__u32 task_records; /* the first record of its list of tasks */
	__u32 n_tasks;
	__u32 task_ended; /* 1: the state ends with the span */
	struct task_change change; /* while it is taken: the stack of the programs has no room for these */
	struct task_key task_key;
	struct task_name task_name;
	struct context_access context; /* of its process */
	__u64 span_id, trace_id[TRACE_WORDS]; /* of the context in which it works, as they stand there; 0: none */
	__u32 attribute_size; /* of that context */
	__u32 names_known; /* context.n_names when its name was sought */
	__u32 process; /* the number of its process (processes.h); 0: it has none */
	__u32 ready_cpu; /* the processor that it is ready on, + 1; 0: not known, so the time is not divided */
	struct ready_clocks ready; /* the clocks there when it became ready */
	__u64 ready_queue; /* its run queue (cfs_rq) then; 0: it cannot be throttled */
	__u64 ended_parts[N_READY_PARTS]; /* of the time ready that ended last */
	__u64 lock; /* of the kernel, for which it waits (kernel_locks.h); 0: for none */
	__u64 woken_at; /* the address of the futex at which it is being woken; 0: not known */
	__u64 polled_time, polled; /* ns and count of its waits in the poll(2) or select(2) in progress */
	__u64 lock_owner; /* who had the lock when it began to wait: the id that the lock has; 0: not known */
	__u32 publication; /* 1 + the place of the map in which it is told what it has done; 0: in none */
	__u32 publications; /* control.publications when that was decided */
	struct socket_peer peer; /* of the socket that it waits for, while that is noted */
	__u64 futexes[N_LISTED]; /* that it waits for, if it is one of a list (enum futex_list) */
	struct cause_key cause_key; /* while it is charged: likewise */
	struct cause cause;
};

enum thread_flag {
	THREAD_NEW = 1,
	THREAD_KERNEL = 2,
	THREAD_EXECUTES = 4, /* opened in execve */
	THREAD_RAN = 8, /* opened while it ran: sum_exec_runtime lagged behind, so `runtime` is too large */
	THREAD_SUBMITS = 16, /* the kernel's thread that looks for an io_uring's submissions */
};

/* The part of a thread record that a reader gets at a snapshot and at the thread's end: everything before the index. */
struct thread_snapshot {
	__u64 birth, end, since, runtime, runtime_before, overhead, undivided_overhead, block;
	__u32 tid, pid, cpu, snapshot;
	__u16 state, resume, depth, used;
	__u32 number, deep, task_record, other_tasks;
	__u16 flags, user, current_check, last_poll_state;
	__u16 nested[N_NESTED];
	char name[16];
	struct cell ready_parts[N_READY_PARTS];
	__u64 open_parts[N_READY_PARTS];
	__u64 open_since, open_until;
	struct sample_count samples[N_SAMPLED];
	struct cell cells[N_CELLS];
};

enum current_check { NEUTRAL = 256 }; /* thread_record.current_check */

/* Time charged to one state since the last check began, while the thread stayed on this processor. */
struct pending {
	__u64 time;
	__u32 state;
	__u32 count; /* occurrences of the state */
	__u32 checks; /* how many of these were checks that found nothing */
	__u32 spare;
};

/* How long runs of a handler took, from where it read the clock to its end (handler.h). */
struct timed {
	__u64 time, runs;
};

/* One processor. Only that processor writes it. */
struct processor {
	__u64 since; /* when `state` began; 0: not measuring yet */
	__u32 thread_record; /* index of the record of the thread that it runs; 0: none, or a thread that is not measured */
	__u16 state;
	__u16 depth;
	__u16 nested[N_NESTED];
	__u32 busy; /* 1: a handler is at work; 2: an interrupt met it and is being noted */
	__u32 snapshot;
	__u32 overflow; /* interrupts begun beyond N_NESTED */
	__u32 selected; /* 1: threads are measured on this processor */
	__u64 events; /* runs of handlers that charged a span, and wake-ups that ended a wait */
	__u64 occurred[N_EVENTS]; /* events by their kind, where the level may change */
	__u64 cost_pending; /* headway's own time that falls into the open span, ns << COST_BITS */
	__u64 span; /* time charged last: that of the span that ended last, without regions and cost */
	__u64 pending_user; /* 1 + user time between the last check and a check of something else; 0: none */
	__u32 early; /* interrupts in progress that began before measuring did */
	__u32 settled; /* 1: `nested` has all interrupts in progress. A switch sets it, a thread found here clears it */
	__u32 running; /* the expected running thread's id, if causes are recorded */
	__u32 n_pending;
	struct pending pending[N_PENDING]; /* the last check and what followed, charged as if it were not polling */
	__u64 steal; /* the kernel's own count of stolen time at the last look */
	__u64 debt; /* stolen time not yet taken out of a state */
	__u64 task; /* the expected running thread: the last one whose switch or event was seen */
	__u64 switched, switched_clock; /* the last switch, on our clock and on the run queue's */
	__u64 held; /* the holders of the processor are known until this moment (holders.h); 0: none yet */
	__u64 longest; /* the longest span since the last look at `steal` */
	__u64 floor; /* a span's time before this moment does not count for `longest` */
	__u32 longest_state; /* the state of that span */
	__u32 steal_known;
	/* Interrupts that arrived while a handler was at work. Their own handlers add up `deferred`; the next ordinary handler
	 * charges what is new and adds it to `absorbed` (deferred_interrupts.h). */
	__u64 deferred_since;
	__u64 deferred_total, absorbed_total;
	__u16 deferred_state, deferred_depth;
	__u16 deferred_nested[N_NESTED];
	__u32 spare;
	struct cell deferred[N_INTERRUPTS];
	struct cell absorbed[N_INTERRUPTS];
	__u64 losses[N_LOSSES];
	/* The rings of transitions (transition_rings.h): words written, the word up to which there is room, words lost. */
	__u64 written, room, lost_spans;
	__u64 told_until; /* the next span begins here, unless RECORD_TIME says otherwise */
	__u32 told_record; /* and is of this thread record, unless RECORD_THREAD says otherwise */
	__u32 spare2;
	__u64 written_absences, room_absences, lost_absences;
	__u32 undivided; /* time on this processor is not divided: the level is `switches` */
	__u32 spare3;
	__u64 stack_pointer; /* of the last handler that asked for it (levels.h) */
	__u64 undivided_overhead; /* as that of a thread record */
	__u64 undated; /* ns of spans of user code in which a thread's context changed, at a moment that is not known */
	__u64 prepared_at; /* when the last handler with rare work to do read the clock after it (prepare_event) */
	__u64 stacks_took; /* ns in which the last switch kept stacks; until that is over, since when */
	struct timed timed[N_TIMED];
	__u64 asked_name[NAME_WORDS]; /* of a file that a status check asks about, while it is compared */
	__u64 passed_calls, passed_switches; /* of threads that are not measured: begins and ends of calls; switches */
	struct sample_count samples[N_SAMPLED];
	struct cell cells[N_STATES];
};

/* The reader's position in the rings of a processor, in words. */
struct tails {
	__u64 spans, absences;
	__u64 spare[6]; /* a cache line */
};

/*
 * The rings of transitions consist of 64-bit words. A word whose lowest bit is 0 is a span. It holds whether the state
 * ended with the span, the state, how much of the duration was not in the state (`taken`), and the duration. In all other
 * words the lowest RECORD_BITS bits give the kind of record.
 */
enum ring_record {
	RECORD_THREAD = 1 | 1 << 1, /* the following spans are of this thread: + the thread record's number */
	RECORD_TIME = 1 | 2 << 1, /* the next span begins at the moment in the next word */
	RECORD_LONG = 1 | 3 << 1, /* a span too long for one word: + state and count; then the duration, then `taken` */
	RECORD_AMOUNT = 1 | 4 << 1, /* an amount without a position: + state and count; then the time */
	RECORD_MOVE = 1 | 5 << 1, /* time moves from one state to another: + from, to, count (1 bit); then the time */
	/* Time off the processor: + state, thread record's number, WOKEN_BY, the waker; then its begin, then its end. Of
	 * WAIT_FUTEX: then the address of the futex, or 0 if it is not known. Of a part of ready: + state, thread record's
	 * number, and instead of the waker how many other parts the time has: each is a word behind, PART_STATE and PART_TIME.
	 */
	RECORD_ABSENCE = 1 | 6 << 1,
	RECORD_TASK = 1 | 7 << 1, /* the thread works on another task from here on: + the number of its name; then its id */
	RECORD_CONTEXT = 1 | 8 << 1, /* likewise, on a span: behind its id, the upper and the lower half of its trace's */
	RECORD_STACKED = 1 | 9 << 1, /* as RECORD_ABSENCE; and last the hashes of its stacks (enum absence_stack) */
};

/* The width and the lowest bit of each part of a word. A part without a width extends to the highest bit. */
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
	RECORD_TASK_NAME = RECORD_BITS,
	RECORD_STATE = RECORD_BITS, /* of the others */
	RECORD_COUNT = RECORD_STATE + STATE_BITS,
	MOVE_TO = RECORD_STATE + STATE_BITS,
	MOVE_COUNT = MOVE_TO + STATE_BITS,
	THREAD_RECORD_BITS = 22,
	WOKEN_BY_BITS = 2,
	ABSENCE_NUMBER = RECORD_STATE + STATE_BITS,
	ABSENCE_WOKEN_BY = ABSENCE_NUMBER + THREAD_RECORD_BITS,
	ABSENCE_WAKER = ABSENCE_WOKEN_BY + WOKEN_BY_BITS,
	PART_STATE = 0, /* of a word that is a part of ready */
	PART_TIME = PART_STATE + STATE_BITS,
};
#define STATE_MASK ((1 << STATE_BITS) - 1)

/* The ways back to user code whose end is not an event (way_back.h). */
enum way_back { BACK_FROM_TASK_WORK, BACK_FROM_SIGNAL, N_WAYS_BACK };

/* The stacks of an absence: the thread's when it began, and its waker's when it ended; 0: not known. */
enum absence_stack { ABSENT_USER, ABSENT_KERNEL, WAKER_USER, WAKER_KERNEL, N_ABSENCE_STACKS };

enum woken_by { WOKEN_BY_NOBODY, WOKEN_BY_MEASURED, WOKEN_BY_TID, WOKEN_BY_STATE };

/* A system call that asks whether something is ready. Arguments are numbered from 1; 0: none. */
struct check {
	__u16 call;
	__u8 always;
	__u8 if_zero; /* the call is a check if this argument is 0, */
	__u8 if_no_time; /* or this one points to a length of time of 0, */
	__u8 if_flag; /* or this one has a bit of `flag`, */
	__u8 if_equal; /* or this one is `equal`, */
	__u8 if_nonblocking; /* or the file `about` does not block */
	__u8 about; /* this argument is the object that the call asks about */
	__u8 about_file; /* 1: the object is a file descriptor */
	__u8 about_name; /* 1: it is the name of a file, in the directory of the argument before it */
	__u8 answer; /* nothing is ready only if the number that this argument points to is 0 as well */
	__u8 at_once; /* 1: the call overwrites what it is asked with, so that is looked at when it begins */
	__u8 zero; /* 1: a return value of 0 means that nothing is ready */
	__u16 errors[N_ERRORS]; /* these errors mean the same */
	__u32 flag, equal;
	__u32 gap; /* ns: a longer time until the next check ends the row, unless it is like the one before; 0: no limit */
	__u32 alike; /* ns: the longest that may be like the one before; 0: none may */
};

/* A system call that does nothing for a thread, and so does not end a row of checks. */
struct neutral {
	__u16 call;
	__u8 if_zero; /* it is neutral only if this argument is 0 */
	__u8 any; /* 1: neutral whatever it returns. 0: neutral only if */
	__u8 zero; /* this is 1 and it returned 0, */
	__u8 spare;
	__u16 errors[N_ERRORS]; /* or it returned one of these errors */
	__u16 spare2;
	__u32 at_most; /* ns: a longer call is not neutral; 0: no limit */
};

/* The hardware counts of a thread, by the same cells as its record. The reader gets them when the thread ends. */
struct thread_counts {
	__u64 zero; /* distinguishes it in the ring from a thread record, whose birth is here */
	__u64 birth;
	__u32 tid;
	__u32 used;
	__u64 cells[N_CELLS][N_COUNTED];
};

struct processor_counts {
	__u64 last[N_COUNTED]; /* at the last reading */
	__u64 enabled[N_COUNTED], running[N_COUNTED]; /* ns at the last reading; running is less if a counter is shared */
	__u64 span[N_COUNTED]; /* counts of the span charged last; below, of the pending ones */
	__u64 pending_user[N_COUNTED];
	__u64 pending[N_PENDING][N_COUNTED];
	__u64 cells[N_STATES][N_COUNTED];
};

/*
 * The durations of one thread in one state (durations.h). Where a power of two has several buckets, as many histograms
 * follow each other, one for each part of the powers. The first of them has what is not counted by bucket.
 */
struct histogram {
	__u64 longest; /* ns */
	__u64 longest_end; /* when it ended */
	__u64 pieces; /* ns in the state since its last occurrence ended: a part of the next duration */
	__u64 recent; /* the buckets that were counted last, RECENT_BITS each: 1 + the bucket; the last one lowest */
	__u32 snapshot; /* the number of the last snapshot when it was changed last */
	__u32 revoked; /* 1: the longest may have been taken back, so it is a bound */
	__u64 counts[N_BUCKETS];
};

enum histogram_word {
	RECENT_BITS = 10,
	N_RECENT = 6, /* so many fit a word */
	PART_BITS = 3, /* of a bucket's number: above them is its power of two */
};

/* The histograms of a thread, by the cells of its record. The reader gets them when the thread ends. */
struct thread_histograms {
	__u64 kind; /* THREAD_HISTOGRAMS: distinguishes it in the ring from a thread record, whose birth is here */
	__u64 birth;
	__u32 tid;
	__u32 used;
	__u32 numbers[N_CELLS]; /* from 1 on; 0: none */
};

enum exit_kind { THREAD_COUNTS, THREAD_HISTOGRAMS, TASK_RECORD }; /* not a birth: what else is in the ring of exits */

enum cause_kind {
	OBJECT_NONE,
	OBJECT_ADDRESS, /* in the thread's memory: a futex */
	/* + kind of file, see FILE_NONE; the object is the number of its inode. A socket's name is a struct socket_peer */
	OBJECT_FILE,
	OBJECT_LINE = OBJECT_FILE + N_FILES, /* the number of an interrupt line */
	OBJECT_STATE, /* the state that time was taken from */
	OBJECT_FUTEXES, /* any of a list of futexes: a number for the list. The cause's name is `futexes` of the record */
	OBJECT_MEMORY, /* an address space: the id of the process that owns it */
	OBJECT_POSITION, /* the position in an open file: the number of its inode */
	OBJECT_LOCK, /* a lock of the kernel: its address */
	OBJECT_MOVED, /* two futexes, the second of which the thread was moved to, or may be: likewise */
	WAKER_THREAD, /* the waker's id; above it the lower half of the futex address, for a futex wait */
	WAKER_STATE, /* the state of the interrupt that ended the wait; above it likewise */
	HOLDER_THREAD, /* the id of the thread that had the processor, or a value of `enum holder` */
	HOLDER_HIDDEN, /* the id of a thread that is hidden from tracing; 0: not known */
	HOLDER_STATE, /* the state of the interrupt that had the processor */
	HOLDER_LOCK, /* the id, as the lock has it, of the thread that had the lock when the wait began; above it likewise */
};

enum holder {
	HELD_THROTTLED = 0xfffffffc, /* the quota of the thread's control group was used up: who had it does not matter */
	HELD_STILL_READY = 0xfffffffd, /* the thread has no processor yet, so no history applies yet */
	HELD_FORGOTTEN = 0xfffffffe, /* the history of the processor no longer reaches back that far */
	HELD_IDLE = 0xffffffff, /* the idle task */
};

enum stack_hash { STACK_LOST = 1 }; /* stands for a stack that found no room */

struct stack {
	__u32 depth, spare;
	__u64 frames[N_STACK]; /* return addresses, the innermost first */
};

/* The highest byte of a word of a stack that is no address; the kernel's own walk has none. */
enum stack_word {
	STACK_UNSURE = 1, /* an address whose caller was found by a frame pointer that it may not have set up yet */
	STACK_RUNS = 2, /* an address in an interpreter, which executes the next run of its frames there */
	STACK_END = 255, /* the stack ends: below, a byte why, and 48 bits of the address at which it does */
};

enum stack_end {
	END_NOTHING,
	END_OUTERMOST, /* it is whole */
	END_NO_MAPPINGS, /* it is not known yet what the process has mapped */
	END_NO_INFORMATION, /* nothing says how the caller is found */
	END_NOT_SUPPORTED, /* it is described in a way that a rule cannot hold */
	END_NOT_READABLE, /* of the stack's memory */
	END_NO_CODE, /* what should be the return address is none */
	END_DEEP, /* there are more frames than are kept */
	END_BACKWARDS, /* the caller's frame would not be above this one */
	END_32_BIT,
	END_MADE, /* code that was made at run time */
	END_NO_ROOM, /* there is no room for the rows of the module */
	END_PYTHON_NOT_READABLE, /* a frame of Python, or its code */
	END_PYTHON_NO_CODE, /* what should be the code of a frame is none */
	END_PYTHON_DEEP, /* there are more frames of Python than are kept */
};

/* ---- how callers are found (unwinding/unwinding.h) ---- */

enum cfa_kind {
	CFA_NONE, /* nothing is known here */
	CFA_OFFSET, /* register + offset */
	CFA_DEREF, /* the word at register + offset, + more */
	CFA_PLT, /* register + offset, + 8 if the last four bits of the address are `more` or higher */
	CFA_UNKNOWN, /* described in a way that a rule cannot hold */
};

enum followed { N_FOLLOWED = 6 }; /* registers that functions save */

/* What stands instead of an offset, which is signed. */
enum no_offset { FRAME_KEPT = 0x8000, FRAME_LOST = 0x8001, FRAME_OUTERMOST = 0x8002 };

/* How the caller's frame is found: a rule of DWARF's call frame information. Registers are words of struct pt_regs. */
struct frame_rule {
	__u8 cfa; /* how the canonical frame address is found */
	__u8 cfa_register;
	__u8 base; /* the register from which some offsets count */
	__u8 from_base; /* which: a bit for each of `saved`, then one for the return address; the others: from the CFA */
	__u32 offset, more; /* signed */
	__u16 saved[N_FOLLOWED]; /* where r15, r14, r13, r12, rbp, rbx are saved; FRAME_KEPT: they are not; FRAME_LOST */
	__u16 return_at; /* FRAME_OUTERMOST: there is no caller */
	__u8 signal; /* the caller was interrupted */
	__u8 return_register; /* + 1: the return address is in this register, as in vfork; 0: it is in memory */
	__u32 spare_word;
};

struct frame_row {
	__u32 address; /* from the module's base on */
	__u32 rule; /* 0: nothing is known from here on */
};

enum frame_chunk_size { FRAME_CHUNK = 1 << 17 }; /* rows of a part of memory that is taken at once: 1 MiB */

enum code_kind {
	CODE_FRAME_POINTERS = 1, /* what has no row keeps frame pointers */
	CODE_MADE = 2, /* at run time: no file has it */
	CODE_NO_ROOM = 4, /* its module's rows found no room */
	CODE_TRUSTED = 8, /* whatever calls keeps frame pointers, as Go's and V8's compilers make it */
};

/* Code of a process. */
struct code_mapping {
	__u64 start, end;
	__u32 delta; /* of the address at `start` from the module's base */
	__u32 first, count; /* rows of the module */
	__u32 kind; /* bits of enum code_kind */
};

/* The code of a process: entries of code_mappings, ascending. */
struct code_space {
	__u32 first, count;
	__u64 version; /* another for each that is known */
	__u64 runtime; /* where its _PyRuntime is */
	__u32 python; /* 1 + its entry of python_layouts; 0: it has no Python that is known */
	__u32 spare;
};

enum recent_size { N_SEGMENTS = 2, N_LATE = 48 };

/* A file by which code is recognised when a process maps it. The vdso, which has no file, is all zero. */
struct file_key {
	__u64 inode, size;
};

/* Executable bytes of a file. */
struct code_segment {
	__u64 offset, size;
	__u64 address; /* as linked */
};

/* A file whose rows are known. */
struct code_file {
	__u32 first, count; /* its rows */
	__u32 kind; /* bits of enum code_kind */
	__u32 n_segments;
	__u64 base; /* the address as linked that its rows count from */
	__u64 entry; /* as linked: where the program begins */
	struct file_key interpreter; /* the file that the kernel maps with it; all zero: none that is known */
	__u64 runtime; /* of its _PyRuntime from `base` on */
	__u32 python; /* 1 + its entry of python_layouts; 0: it is no Python */
	__u32 spare;
	struct code_segment segments[N_SEGMENTS];
};

/* Code that a process has mapped, of which the reader may not know yet (recent_code.h). */
struct recent_code {
	__u64 version;
	__u64 runtime; /* as in struct code_space */
	__u32 python;
	__u32 n;
	struct code_mapping mappings[N_LATE];
};

/* ---- frames of Python (interpreters/python.h) ---- */

enum python_size {
	PYTHON_FRAME = 128, /* bytes of a frame that are looked at, at most; a power of two */
	PYTHON_CODE = 256, /* likewise, of a code object */
	PYTHON_NAME = 256, /* bytes of a string object that is the name of a function */
	PYTHON_FILE = 512, /* or of a file */
	PYTHON_LINES = 1 << 14, /* bytes of a table of lines; a power of two */
};

/* How it is known which frames a native frame of the interpreter executes. */
enum python_runs {
	RUN_BY_ADDRESS, /* one each, wherever the interpreter's function is (3.9) */
	RUN_BY_C_FRAME, /* one each; a CFrame is in the native frame (3.10) */
	RUN_BY_FLAG, /* the last one says so; a _PyCFrame is in the native frame (3.11) */
	RUN_BY_OWNER, /* a frame in the native frame ends them (3.12 and later) */
};

/* Where a version of Python keeps things: offsets in bytes. */
struct python_layout {
	__u64 code_type; /* of PyCode_Type from _PyRuntime on */
	__u64 evaluating; /* of the function that executes frames, likewise */
	__u32 evaluating_size;
	__u32 runs; /* one of enum python_runs */
	__u32 runtime_interpreters, interpreter_next, interpreter_threads;
	__u32 thread_previous, thread_next, thread_interpreter, thread_id;
	__u32 thread_frame; /* of the innermost frame, if there is no C frame that has it */
	__u32 thread_c_frame; /* 0: it has none */
	__u32 c_frame_current; /* 1 + that of the innermost frame; 0: the thread has it */
	__u32 c_frame_previous;
	__u32 frame_size; /* bytes in which the following are */
	__u32 frame_previous, frame_code, frame_instruction;
	__u32 frame_entry; /* the flag, or the owner */
	__u32 entry_owner; /* from this one on it is an entry */
	__u32 code_size; /* bytes in which the following are, without the instructions */
	__u32 code_file, code_name, code_lines, code_first_line;
	__u32 code_instructions; /* 0: the frame has the number of the instruction */
	__u32 instruction_size; /* that number counts so many bytes */
	__u32 bytes_size, bytes_data;
};

/* A word of a stack of Python: the number of a code object, above the number of an instruction and a bit. */
enum python_word {
	PYTHON_RUN_ENDS = 1, /* the bit: the native frame that executes this one executes no further one */
	PYTHON_INSTRUCTION_SHIFT = 1,
	PYTHON_NO_INSTRUCTION = 0x7fffffff, /* it is not known */
	PYTHON_NUMBER_SHIFT = 32,
};

/* A code object that was seen for the first time. */
struct python_code {
	__u64 code; /* its address */
	__u64 name_at, file_at, lines_at; /* those of the objects below */
	__u32 number; /* of the code object, among those of all processes */
	__u32 pid; /* as the reader knows it */
	__u32 first_line;
	__u32 python; /* the entry of python_layouts */
	__u32 name_size, file_size; /* bytes that could be read */
	__u32 lines_size; /* bytes of the table of lines; there are PYTHON_LINES of them at most here */
	__u32 lines_read;
	__u8 name[PYTHON_NAME];
	__u8 file[PYTHON_FILE];
	__u8 lines[PYTHON_LINES];
};

struct stack_key {
	__u64 birth;
	__u64 user, kernel; /* hashes of stacks */
	__u32 tid; /* `birth` and `tid` identify the thread */
	__u32 pid;
	__u32 state, spare;
};

enum sample_event_kind {
	/* A sample was taken at `time`, in `state`. If it may be polling, `since` is when the last check returned. */
	SAMPLE_TAKEN,
	SAMPLE_POLLING, /* the time from `since` to `time` seemed to be user code, and was `state` */
};

struct sample_event {
	__u64 time, since;
	__u64 pc; /* where the user code is; 0: not known */
	__u64 stack; /* the hash of the words that follow `pc` in its stack */
	__u32 tid, pid;
	__u16 kind, state, cpu, spare;
	__u32 instruction; /* of the innermost frame of Python, which is 0 in its stack */
	__u32 spare_word;
};

/* How many bytes of code a sample of user code has, from before the instruction and from its beginning on. */
enum code_size { CODE_BEFORE = 256, CODE_BEHIND = 256 };

/* A sample of user code, with the code. If it may be polling, `since` is when the last check returned. */
struct code_sample {
	__u64 time, since, birth;
	__u64 address; /* of the instruction */
	__u64 visible; /* a hash of what can be seen of the thread's state */
	__u32 tid, pid;
	__u32 before, behind; /* so many bytes of the code could be read, before `address` and from there on */
	__u8 code[CODE_BEFORE + CODE_BEHIND]; /* that at `address` is at CODE_BEFORE */
};

enum thread_number { THREAD_UNSEEN = 0xffffffff }; /* processor.thread_record: the next handler identifies the thread */

/* The memory in which a program marks its regions. headway.h explains it. */
enum block_size { N_BLOCK_TAGS = 32, TAG_LENGTH = 32 };
#define BLOCK_MAGIC 0x316b636f6c627768ull /* "hwblock1" */
/* prctl(2)'s first argument; the second is the address of the block, the third the version. */
enum block_call { REGISTER_CALL = 0x48574159 };

struct block_tag {
	__u64 word; /* 2 A + n modulo 2^64: the time in the region until t is A + n t; n is 1 while it is charged */
	__u64 entries;
};

struct block {
	__u64 magic;
	__u32 tid;
	__u32 n_tags;
	__u64 names;
	__u64 since; /* when the thread took the block; its words were 0 then */
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

/*
 * What measured threads read of themselves, and of each other, without a system call (publishing.h). headway.h has the same
 * structures, as struct headway_publication and so on, and explains them. All are entries of one size of one map: the first
 * is a struct publication; behind it one of each thread, by the number of its record; behind those, of each thread
 * STATE_UNITS entries with its states; and at last the names of the states.
 */
#define PUBLICATION_MAGIC 0x3172676f72707768ull /* "hwprogr1" */
enum publication_version { PUBLICATION_VERSION = 1 };

enum published_size {
	PUBLISHED_UNIT = 128, /* bytes of an entry */
	N_PUBLISHED_STATES = 64, /* states that are told of a thread; the rest share the last */
	UNIT_CELLS = 8, /* so many fit an entry, likewise below */
	UNIT_TAGS = 8,
	UNIT_NAMES = 4,
	STATE_UNITS = 13, /* of a thread: one, then its cells, then its tags */
	N_PUBLICATIONS = 64, /* users that can read at a time */
	EVERYBODY = 0xffffffff, /* no user: whoever reads, reads all */
};

/* Kinds of time. The indices are made of them. */
enum published_kind {
	PUBLISHED_OTHER, /* stolen, or not seen. headway's own time is what is missing in the sum of all kinds */
	PUBLISHED_EFFECTIVE,
	PUBLISHED_KERNEL,
	PUBLISHED_POLL,
	PUBLISHED_READY,
	PUBLISHED_WAIT,
	PUBLISHED_UNDIVIDED, /* on the processor, and not told what in */
	N_PUBLISHED = 8,
	PUBLISHED_ABSENT = 8, /* + a kind: the thread has no processor */
};

/* Only programs write it once it is frozen. */
struct publication {
	__u64 magic;
	__u32 version;
	__u32 entry_size;
	__u32 entries; /* of threads, with this one */
	__u32 kernel_known; /* 1: all time in the kernel is told from user code */
	__u64 until; /* nothing is measured from this moment on; 2^64 - 1: measuring goes on */
	__u32 states_at; /* the first entry with states of threads; 0: states are not told */
	__u32 state_units; /* entries of each thread there */
	__u32 names_at; /* the first entry with names of states */
	__u32 n_names;
	__u32 threads_used; /* entries of threads that were ever used are below this */
	__u32 overhead; /* the number of the state in which headway itself is */
	__u64 spare[9];
};

/* Only the processor that runs the thread writes these, and whoever wakes it. `sequence` is odd meanwhile. */
struct published_thread {
	__u32 tid; /* in the thread's own pid namespace; 0: free */
	__u32 pid_namespace; /* the number of its inode */
	__u64 birth; /* when its measurement began; 0: it has not had an event yet */
	__u32 sequence; /* changes with each handler */
	__u32 kind; /* of the time since `since` */
	__u64 since; /* all time before is in `times` */
	__u64 deferred; /* ns since then that belong to the kernel: interrupts that met a handler */
	__u64 times[N_PUBLISHED];
	__u64 regions[2]; /* ns in its marked regions until `since`, as its block has them: no progress, polling */
	__u32 open_region; /* 1 + the place there of the region that is charged; 0: none */
	__u32 marked; /* 1: it has a block */
};

/* The first of a thread's entries with states. */
struct published_states {
	__u64 told; /* the most processor time that it can have read of itself until `since` */
	__u64 rpi; /* its processor time until then, without what was found to be stolen */
	__u64 since; /* as that of its struct published_thread, but for regions that are being read */
	__u32 cells_used;
	__u32 state; /* of the time since then */
	__u32 deferred_state; /* of the deferred time there, or of a part of it */
	__u32 open_tag; /* 1 + the tag of the region that is charged; 0: none */
	__u32 pid; /* its process, in the thread's own pid namespace */
	__u32 spare_word;
	char name[16];
	__u64 spare[8];
};

struct published_cells {
	struct cell cells[UNIT_CELLS]; /* with the state, as those of a thread record */
};

/* A tag of the thread's marked regions, as its block has it. */
struct published_tag {
	__u64 value; /* ns in its regions until `since` */
	__u32 state; /* 0: the thread has no such tag */
	__u32 spare;
};

struct published_tags {
	struct published_tag tags[UNIT_TAGS];
};

struct published_names {
	struct tag_name names[UNIT_NAMES];
};

/* The memory in which a thread writes down what it works on. headway.h explains it. */
#define TASK_LOG_MAGIC 0x31676f6c6b747768ull /* "hwtklog1" */
/* prctl(2)'s first argument; the second is the address of the log, or 0, which only says that the log is full. */
enum task_call { REGISTER_TASKS_CALL = 0x48574154 };

struct task_log {
	__u64 magic;
	__u32 tid;
	__u32 size;
	__u64 names;
	__u64 since;
	__u64 n;
	__u64 spare[3];
	struct task_change changes[N_CHANGES];
};

enum task_record_kind {
	OTHER_TASKS = 0xffffffff,
};

/* What a thread did for a task: a part of what it did. The cells are those of its thread record, one by one. */
struct task_record {
	__u64 kind; /* TASK_RECORD */
	__u64 opened; /* 0: the record is free */
	struct task_key key;
	__u64 changes; /* how often the thread began to work on it */
	__u64 overhead;
	__u32 pid;
	__u32 name; /* its number in task_names; 0: none */
	__u32 snapshot; /* number of the last snapshot that has it */
	__u32 next; /* the next record of the thread's list */
	__u32 used; /* cells that are sent when the thread ends */
	__u32 spare;
	__u64 undated; /* ns of spans of user code in which the thread began to work on it, at a moment that is not known */
	__u64 span_id, trace_id[TRACE_WORDS]; /* of the last context in which it did; as a program has them, 0: none */
	__u64 began; /* in that one, ns */
	struct cell cells[N_CELLS];
};

/* CHOSEN_UNDIVIDED: the time of each thread is divided or not (depth.h). */
enum undivided { NEVER_UNDIVIDED, SOMETIMES_UNDIVIDED, ALWAYS_UNDIVIDED, CHOSEN_UNDIVIDED };

/* Why a thread is deep, and so which threads that it creates are deep too. */
enum depth {
	DEEP_THREAD = 1, /* none */
	DEEP_PROCESS, /* those of its process */
	DEEP_CGROUP, /* all */
};

/* Who can read what a thread has done: the processes of its user, or all that are measured. */
enum publish { PUBLISH_NOTHING, PUBLISH_TO_USER, PUBLISH_TO_ALL };

/* Fixed before the programs are loaded. The verifier removes the code that they make unreachable. */
struct settings {
	__u32 everything; /* measure every thread */
	__u32 follow; /* measure what measured threads create */
	__u32 some_cpus; /* only on the processors selected */
	__u32 intervals; /* readers take snapshots during the measurement, not only the last one */
	__u32 has_steal; /* the kernel accounts for stolen time */
	__u32 has_prev_state; /* sched_switch has the argument prev_state: commit fa2c3254d7cf, 5.18 */
	__u32 has_fetch; /* the JIT has atomic instructions that fetch: arm64 since commit 1902472b4fa9, 5.18 */
	__u32 max_thread_records;
	__u32 namespace_inum; /* the reader's pid namespace; 0: the initial one */
	__u32 cgroup_level; /* of `cgroup` below the reader's root; in a cgroup namespace its real level is deeper */
	__u64 cgroup; /* 0: not by cgroup */
	__u32 name_length; /* 0: not by name */
	__u32 name_prefix;
	char name[16];
	__u32 why; /* record causes */
	__u32 functions; /* functions are marked */
	__u32 n_counted; /* number of events counted */
	__u32 record; /* record transitions */
	__u32 ring_words; /* words of a processor's ring of spans, a power of two */
	__u32 absence_words; /* words of its ring of absences, a power of two */
	__u32 stacks; /* charge time to stacks, and report the states of samples */
	__u32 unwind; /* user stacks are walked by call frame information, not by frame pointers */
	__u32 samples; /* samples are taken of threads whose time is divided: `stacks`, or samples of code */
	__u32 threads_only; /* what processors do without a measured thread is not divided */
	__u32 undivided; /* whether the level of detail is `switches`: one of enum undivided */
	__u32 stack_size; /* bytes of a thread's stack in the kernel */
	__u32 tasks; /* charge time to tasks, too */
	__u32 timer_line; /* the interrupt line of the processors' own timer (arm64); 0: it has none */
	__u32 durations; /* keep histograms of durations: 1 + the logarithm of the buckets of each power of two; 0: none */
	__u32 max_histograms; /* so many, times the buckets of each power of two */
	__u32 divide_ready; /* divide the time in which threads are ready */
	__u32 n_processes; /* numbers of processes, of which the first is none */
	__u32 publish; /* threads can read what they have done so far: one of enum publish */
	__u32 published; /* threads that there is room for in a publication, of which the first is none */
	__u32 requests; /* requests of these protocols are tasks: of enum protocol */
	__u32 other_accounts; /* `tasks` or `publish`: what is added to a thread's cell is added elsewhere too */
	__u8 check_of[N_CALLS]; /* call -> 1 + its check; 0: none */
	struct check checks[N_CHECKS];
	__u8 neutral_of[N_CALLS]; /* call -> 1 + its place in `neutrals`; 0: none */
	struct neutral neutrals[N_NEUTRAL];
	__u16 wait_of[N_CALLS]; /* call -> its state when it waits; 0: WAIT_CALL + the call */
	__u16 compat_call[N_CALLS]; /* 32-bit call -> the native call of the same name; N_CALLS: none */
};

/* Written by user space, read by the programs. */
enum way_back_price { WAY_BACK_SOUGHT = 0xffffffff };

struct control {
	__u64 snapshot_at; /* the snapshot's moment: time before it belongs to the snapshot, time after it does not */
	__u64 told_at; /* the moment of the previous snapshot, which has been read completely; 0: not known */
	__u32 snapshot; /* the snapshot's number */
	__u32 last; /* 1: it is the last one, and nothing after it is measured */
	__u32 command; /* the command's process, to be measured from its exec on; 0: none */
	__u32 only; /* measure only this process; 0: as selected */
	__u32 thread_records; /* thread records used so far; written by the programs */
	__u32 namespace_level; /* the level of the reader's pid namespace; written by the programs */
	__u32 filtered; /* 1: a measured thread has a filter of system calls (seccomp); written by the programs */
	__u32 processes; /* numbers of processes used so far; written by the programs */
	__u32 observer; /* the kernel's id of the reader's process, where threads are published; written by the programs */
	__u32 publications; /* maps of users that there are */
	__u32 publication_users[N_PUBLICATIONS]; /* whose they are, by the kernel's numbers of users */
	__u32 spare;
	/* What a pair of marks takes, ns << COST_BITS: the part in the region, and the part around it. */
	__u32 mark_inside, mark_around;
	/* What the kernel takes on each way back after the last event there, ns; WAY_BACK_SOUGHT: all time until the next. */
	__u32 ways_back[N_WAYS_BACK];
	__u64 level; /* the lowest bit, undivided: 1 if the level is `switches` for all; above it: from which snapshot on */
	/* The cost of an event, ns << COST_BITS: the part before the handler reads its clock, and the part after it. */
	__u32 before[N_EVENTS];
	__u32 after[N_EVENTS];
};

/* ---- assumptions of both sides ---- */

#define POWER_OF_TWO(n) ((n) > 0 && !((n) & ((n) - 1)))
_Static_assert(POWER_OF_TWO(N_CALLS) && POWER_OF_TWO(N_CHECKS) && POWER_OF_TWO(N_NEUTRAL) && POWER_OF_TWO(N_PENDING) &&
		POWER_OF_TWO(N_FILES) && POWER_OF_TWO(N_TAGS) && POWER_OF_TWO(N_CELLS) && POWER_OF_TWO(N_NESTED) &&
		POWER_OF_TWO(N_LOSSES) && POWER_OF_TWO(N_COUNTED) && POWER_OF_TWO(N_SAMPLED) && POWER_OF_TWO(N_INTERRUPTS) &&
		POWER_OF_TWO(N_BLOCK_TAGS) && POWER_OF_TWO(N_CHANGES) && POWER_OF_TWO(N_TASK_NAMES) &&
		POWER_OF_TWO(ATTRIBUTE_BYTES),
	"indices are masked");
_Static_assert((int)N_KNOWN_LOSSES <= (int)N_LOSSES, "there is room for every loss");
_Static_assert(N_STATES <= 1 << STATE_BITS, "a state fits a word of a ring");
_Static_assert(N_STATES <= 1 << (64 - COUNT_BITS), "a state fits a cell");
_Static_assert(SPAN_DURATION + DURATION_BITS == 64, "a span fills a word");
_Static_assert(N_CELLS < 256, "a cell's number fits the index");
_Static_assert(WAIT_SYNCED < READY_PART && READY_PART + (int)N_READY_PARTS <= (int)IRQ_DEVICE && IRQ_ANY < SOFTIRQ &&
		OVERHEAD_MARKS < WAIT_FUTEX,
	"states do not overlap");
_Static_assert(IRQ_DEVICE + N_INTERRUPTS >= SOFTIRQ + N_SOFTIRQS && IRQ_DEVICE + N_INTERRUPTS <= KERNEL_CALL,
	"interrupts are one row of states");
_Static_assert((int)NEUTRAL > (int)N_CHECKS, "a neutral call is distinguished from a check");
_Static_assert(
	sizeof(((struct thread_record *)0)->futexes) <= sizeof(((struct cause *)0)->name), "a name has them all");
_Static_assert((int)FILE_OTHER < (int)N_FILES, "there is a state for every kind of file");

#define SAME(field) \
	(__builtin_offsetof(struct thread_record, field) == __builtin_offsetof(struct thread_snapshot, field))
_Static_assert(SAME(birth) && SAME(end) && SAME(since) && SAME(runtime) && SAME(runtime_before) && SAME(overhead) &&
		SAME(undivided_overhead) && SAME(block) && SAME(tid) && SAME(pid) && SAME(cpu) && SAME(snapshot) &&
		SAME(state) && SAME(resume) && SAME(depth) && SAME(used) && SAME(number) && SAME(task_record) &&
		SAME(other_tasks) && SAME(flags) && SAME(user) && SAME(current_check) && SAME(last_poll_state) &&
		SAME(nested) && SAME(name) && SAME(ready_parts) && SAME(open_parts) && SAME(open_since) && SAME(open_until) &&
		SAME(samples) && SAME(cells),
	"a thread record begins with the fields of its snapshot");
_Static_assert(__builtin_offsetof(struct thread_record, state) % 4 == 0 &&
		__builtin_offsetof(struct thread_record, resume) == __builtin_offsetof(struct thread_record, state) + 2,
	"both are exchanged as one word");
_Static_assert(__builtin_offsetof(struct thread_counts, zero) == __builtin_offsetof(struct thread_snapshot, birth),
	"records in the ring of exits are distinguished by their first word");
_Static_assert(__builtin_offsetof(struct task_record, kind) == __builtin_offsetof(struct thread_snapshot, birth),
	"and those of tasks, too");
_Static_assert(
	sizeof(struct task_record) % 8 == 0 && sizeof(struct task_name) % 8 == 0 && sizeof(struct task_key) == 24,
	"likewise, and a key has no holes");
_Static_assert(__builtin_offsetof(struct context_record, rank) == 28 && sizeof(struct context_access) == 24 &&
		sizeof(struct context_record) % 8 == 0,
	"a context begins as OTEP 4947 has it, and what names it is one word");
_Static_assert(__builtin_offsetof(struct thread_histograms, kind) == __builtin_offsetof(struct thread_snapshot, birth),
	"and so are those of histograms");
_Static_assert(N_BUCKETS << PART_BITS < 1 << RECENT_BITS, "a bucket's number fits");
_Static_assert(sizeof(struct thread_record) % 8 == 0 && sizeof(struct thread_snapshot) % 8 == 0 &&
		sizeof(struct processor) % 8 == 0 && sizeof(struct thread_counts) % 8 == 0 &&
		sizeof(struct processor_counts) % 8 == 0 && sizeof(struct tag_name) % 8 == 0 &&
		sizeof(struct histogram) % 8 == 0 && sizeof(struct thread_histograms) % 8 == 0,
	"the kernel sets the entries of an array in multiples of 8 bytes");
_Static_assert(sizeof(struct tails) == 64, "a cache line");
_Static_assert(sizeof(struct publication) == PUBLISHED_UNIT && sizeof(struct published_thread) == PUBLISHED_UNIT &&
		sizeof(struct published_states) == PUBLISHED_UNIT && sizeof(struct published_cells) == PUBLISHED_UNIT &&
		sizeof(struct published_tags) == PUBLISHED_UNIT && sizeof(struct published_names) == PUBLISHED_UNIT,
	"entries of one map, and two cache lines");
_Static_assert((int)STATE_UNITS == 1 + (int)N_PUBLISHED_STATES / (int)UNIT_CELLS + (int)N_BLOCK_TAGS / (int)UNIT_TAGS,
	"a thread's entries have its states and tags");

#endif
