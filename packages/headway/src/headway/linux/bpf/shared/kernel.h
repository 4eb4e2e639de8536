/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The parts of the kernel that the programs use: helpers by their number in the kernel's ABI (include/uapi/linux/bpf.h),
 * and fields of structures. Offsets come from the running kernel's BTF (CO-RE), so a struct here lists only the fields
 * used, in no particular order.
 */
#ifndef HEADWAY_KERNEL_H
#define HEADWAY_KERNEL_H

#include "shared/layout.h"

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;
typedef _Bool bool;
#define true 1
#define false 0
#define NULL ((void *)0)

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define NOINLINE static __attribute__((noinline))
/* The verifier goes through a global function once for each program, however often it is called. The attribute keeps the
 * compiler from inlining it. For functions that are called in a loop, and for rare work that has many paths. */
#define GLOBAL __attribute__((noinline))
#define CORE __attribute__((preserve_access_index))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define ORDER() asm volatile("" ::: "memory") /* the same processor's handlers see stores in program order */

/* Hides a value from the optimiser, so that the value that is compared is the one that is used. Otherwise the compiler may
 * compare a narrower copy, and the verifier learns nothing about the value. */
#define OPAQUE(value) asm volatile("" : "+r"(value))

/*
 * Masks an index to below `size`, a power of two, right where it is used. The compiler would drop the mask if it knows the
 * bound from an earlier comparison. But the verifier forgets that bound when the index was on the stack in between: before
 * commit 354e8f1970f8 ("bpf: Support <8-byte scalar spill and refill", 5.16) always, later if only a copy was compared.
 */
#define MASKED(index, size)   \
	({                        \
		u64 masked = (index); \
		OPAQUE(masked);       \
		masked &((size) - 1); \
	})

/* Map definitions as libbpf reads them from BTF. */
#define UINT(name, value) int (*name)[value]
#define TYPE(name, type) type *name

enum {
	MAP_HASH = 1,
	MAP_ARRAY = 2,
	MAP_PERF_EVENTS = 4,
	MAP_LRU_HASH = 9,
	MAP_ARRAY_OF_MAPS = 12,
	MAP_STACK = 23,
	MAP_RINGBUF = 27,
	MAP_TASK_STORAGE = 29
};
enum { F_NO_PREALLOC = 1 << 0, F_MMAPABLE = 1 << 10 };

static void *(*const bpf_map_lookup_elem)(const void *map, const void *key) = (void *)1;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5; /* CLOCK_MONOTONIC */
struct event_value {
	u64 counter, enabled, running;
};
static long (*const bpf_perf_event_read_value)(
	const void *events, u64 index, struct event_value *value, u32 size) = (void *)55;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_map_push_elem)(const void *map, const void *value, u64 flags) = (void *)87;
static long (*const bpf_map_pop_elem)(const void *map, void *value) = (void *)88;
static long (*const bpf_map_update_elem)(const void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(const void *map, const void *key) = (void *)3;
static long (*const bpf_probe_read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*const bpf_probe_read_user_str)(void *to, u32 size, const void *from) = (void *)114;
static long (*const bpf_probe_read_kernel_str)(void *to, u32 size, const void *from) = (void *)115;
static long (*const bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const bpf_ringbuf_output)(const void *ring, const void *data, u64 size, u64 flags) = (void *)130;
static void *(*const bpf_ringbuf_reserve)(const void *ring, u64 size, u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;
static u64 (*const bpf_ringbuf_query)(const void *ring, u64 what) = (void *)134;
static void *(*const bpf_task_storage_get)(const void *map, void *task, const void *value, u64 flags) = (void *)156;
static long (*const bpf_task_storage_delete)(const void *map, void *task) = (void *)157;
static u64 (*const bpf_get_attach_cookie)(void *ctx) = (void *)174;
enum { NO_ROOM = 7 /* E2BIG: a hash map is full */ };
enum { ONLY_NEW = 1 /* BPF_NOEXIST */ };
enum { STORAGE_CREATE = 1, RING_AVAILABLE = 0, RING_NO_WAKEUP = 1, RING_FORCE_WAKEUP = 2 };

/*
 * Adds to a word that other processors add to. Given the older __sync builtin, some compilers fetch the old value although
 * it is not used, and the JIT of arm64 cannot do that before commit 1902472b4fa9 (5.18). Some turn the addition of 0 into
 * an OR.
 */
INLINE void add_shared(u64 *to, u64 much)
{
	if (much)
		__atomic_fetch_add(to, much, __ATOMIC_RELAXED);
}

/* Keeps the compiler from computing a pointer again: with an offset that the verifier has bounded, it may go to the stack
 * and come back. */
#define KEEP(pointer) asm volatile("" : "+r"(pointer))

struct task_struct;
struct pt_regs;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;
static struct pt_regs *(*const bpf_task_pt_regs)(struct task_struct *task) = (void *)175;

/* __builtin_preserve_field_info and friends, numbered as in clang's documentation and libbpf's bpf_core_read.h. */
#define FIELD_EXISTS(field) __builtin_preserve_field_info(field, 2)
#define FIELD_BYTE_OFFSET 0
#define FIELD_BYTE_SIZE 1
#define FIELD_LSHIFT 4
#define FIELD_RSHIFT 5

/* Reads a bit field of a structure that the verifier knows: loads the word around it, and shifts. */
#define BITFIELD(base, field)                                                                                      \
	({                                                                                                             \
		const char *word = (const char *)(base) + __builtin_preserve_field_info((base)->field, FIELD_BYTE_OFFSET); \
		u64 bits = 0;                                                                                              \
		asm volatile("" : "+r"(word)); /* the load's offset stays a relocation */                                  \
		switch (__builtin_preserve_field_info((base)->field, FIELD_BYTE_SIZE)) {                                   \
		case 1:                                                                                                    \
			bits = *(const u8 *)word;                                                                              \
			break;                                                                                                 \
		case 2:                                                                                                    \
			bits = *(const u16 *)word;                                                                             \
			break;                                                                                                 \
		case 4:                                                                                                    \
			bits = *(const u32 *)word;                                                                             \
			break;                                                                                                 \
		case 8:                                                                                                    \
			bits = *(const u64 *)word;                                                                             \
			break;                                                                                                 \
		}                                                                                                          \
		bits <<= __builtin_preserve_field_info((base)->field, FIELD_LSHIFT);                                       \
		bits >>= __builtin_preserve_field_info((base)->field, FIELD_RSHIFT);                                       \
		bits;                                                                                                      \
	})

/* Returns where a field is in a structure. */
#define OFFSET_OF(type, field)                                                             \
	({                                                                                     \
		u64 offset = __builtin_preserve_field_info(((type *)0)->field, FIELD_BYTE_OFFSET); \
		offset;                                                                            \
	})

/* Reads a field through a pointer that the verifier does not trust. */
#define FOLLOW(from, field)                                                                            \
	({                                                                                                 \
		__typeof__((from)->field) value;                                                               \
		__builtin_memset(&value, 0, sizeof(value));                                                    \
		bpf_probe_read_kernel(&value, sizeof(value), __builtin_preserve_access_index(&(from)->field)); \
		value;                                                                                         \
	})

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long di, si, dx, r10, r8, r9;
	unsigned long sp;
	unsigned long ax;
	unsigned long orig_ax;
	unsigned long cs;
} CORE;
enum {
	CALL_EXECVE = 59,
	CALL_MMAP = 9,
	CALL_EXIT = 60,
	CALL_FUTEX = 202,
	CALL_SPLICE = 275,
	CALL_EXIT_GROUP = 231,
	CALL_RESTART_SYSCALL = 219
};
struct thread_struct {
	unsigned long fsbase;
} CORE;
#define THREAD_POINTER(task) \
	((task)->thread.fsbase) /* programs set it by arch_prctl(2) and clone(2), so it is up to date */
#define CALL_IN_PROGRESS(regs) ((long)(regs)->orig_ax) /* -1: entered the kernel by an interrupt or a fault */
#define STACK(regs) ((regs)->sp)
enum { RETURN_ADDRESS = 8 }; /* bytes by which a return moves the stack pointer */
INLINE u64 argument(struct pt_regs *regs, u32 number) /* of a system call, from 1 */
{
	switch (number) {
	case 1:
		return regs->di;
	case 2:
		return regs->si;
	case 3:
		return regs->dx;
	case 4:
		return regs->r10;
	case 5:
		return regs->r8;
	case 6:
		return regs->r9;
	}
	return 0;
}
#define HAS_NOT_BEGUN(regs) ((regs)->ax == (unsigned long)-38) /* ENOSYS: what a call returns until it has begun */
#define COMPAT_CALL(regs) (((regs)->cs & 0xffff) == 0x23) /* __USER32_CS */
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	u64 orig_x0;
	u64 regs[31];
	u64 sp;
	s32 syscallno;
	u64 pstate;
} CORE;
enum {
	CALL_EXECVE = 221,
	CALL_MMAP = 222,
	CALL_EXIT = 93,
	CALL_FUTEX = 98,
	CALL_SPLICE = 76,
	CALL_EXIT_GROUP = 94,
	CALL_RESTART_SYSCALL = 128
};
struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
} CORE;
#define THREAD_POINTER(task) ((task)->thread.uw.tp_value) /* as of its last switch: 0 until its first */
#define CALL_IN_PROGRESS(regs) ((long)(regs)->syscallno) /* NO_SYSCALL is -1 */
#define STACK(regs) ((regs)->sp)
enum { RETURN_ADDRESS = 0 };
INLINE u64 argument(struct pt_regs *regs, u32 number) /* of a system call, from 1 */
{
	switch (number) {
	case 1:
		return regs->orig_x0;
	case 2:
		return regs->regs[1];
	case 3:
		return regs->regs[2];
	case 4:
		return regs->regs[3];
	case 5:
		return regs->regs[4];
	case 6:
		return regs->regs[5];
	}
	return 0;
}
#define HAS_NOT_BEGUN(regs) ((void)(regs), false) /* not told */
#define COMPAT_CALL(regs) ((regs)->pstate & 0x10) /* PSR_MODE32_BIT */
#else
#error "headway's eBPF programs know x86-64 and arm64"
#endif

enum { CALL_FUTEX_WAITV = 449, CALL_FUTEX_WAKE = 454 }; /* on both */

struct block_device;

struct super_block {
	unsigned long s_magic;
	struct block_device *s_bdev; /* that the file system is on; NULL: on none, or on several */
} CORE;

struct rw_semaphore {
	long count;
} CORE;

struct inode;

struct address_space {
	struct inode *host;
} CORE;

struct hlist_head {
	void *first;
} CORE;

struct hlist_node {
	void *next;
} CORE;

struct inode {
	unsigned short i_mode;
	struct super_block *i_sb;
	unsigned long i_ino;
	long long i_size;
	struct rw_semaphore i_rwsem;
	struct address_space i_data;
	struct hlist_head i_dentry;
} CORE;

struct qstr {
	const unsigned char *name;
} CORE;

struct dentry {
	struct qstr d_name;
	union {
		struct hlist_node d_alias;
	} d_u;
} CORE;

struct path {
	struct dentry *dentry;
} CORE;

struct file_operations;

struct mutex {
	long owner;
} CORE;

struct file {
	struct mutex f_pos_lock;
	const struct file_operations *f_op;
	struct inode *f_inode;
	struct path f_path;
	unsigned int f_flags;
	void *private_data;
} CORE;

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
} CORE;

struct list_head {
	struct list_head *prev;
} CORE;

struct epoll_filefd {
	struct file *file;
} CORE;

struct epitem { /* a file that an epoll watches (fs/eventpoll.c) */
	struct list_head rdllink;
	struct epoll_filefd ffd;
} CORE;

struct eventpoll {
	struct list_head rdllist; /* of those that are ready */
} CORE;

struct in6_addr {
	u8 bytes[16];
} CORE;

struct sock_common {
	unsigned short skc_family;
	u32 skc_daddr;
	u16 skc_dport;
	struct in6_addr skc_v6_daddr;
} CORE;

struct pid;

struct sock {
	struct sock_common __sk_common;
	struct pid *sk_peer_pid;
} CORE;

struct socket {
	struct sock *sk;
} CORE;

struct files_struct {
	struct fdtable *fdt;
} CORE;

struct ns_common {
	unsigned int inum;
} CORE;

struct pid_namespace {
	struct ns_common ns;
	unsigned int level;
} CORE;

struct upid {
	int nr;
	struct pid_namespace *ns;
} CORE;

struct pid {
	unsigned int level;
	struct upid numbers[1];
} CORE;

struct kernfs_node {
	u64 id;
} CORE;

struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup *ancestors[1];
} CORE;

struct
	cgroup___ids { /* before commit 7f203bc89eb6 ("cgroup: Replace cgroup->ancestor_ids[] with ->ancestors[]"), 6.1 */
	u64 ancestor_ids[1];
} CORE;

struct css_set {
	struct cgroup *dfl_cgrp;
} CORE;

struct rt_rq {
	int rt_throttled; /* CONFIG_RT_GROUP_SCHED; before commit 5f6bd380c7bd ("sched/rt: Remove default bandwidth control"),
						 6.12, always */
} CORE;

struct rq {
	struct rt_rq rt;
	u64 clock;
	u64 prev_steal_time_rq; /* CONFIG_PARAVIRT_TIME_ACCOUNTING */
	u64 clock_task; /* without interrupts and stolen time */
	u64 clock_pelt, lost_idle_time;
} CORE;

struct cfs_rq {
	struct rq *rq; /* CONFIG_FAIR_GROUP_SCHED */
	/*
	 * Since when the queue is throttled, by its own quota or that of a group above, and for how long it was before
	 * (CONFIG_CFS_BANDWIDTH). `self`, by the run queue's clock: since commit 677ea015f231 ("sched: add throttled time stat
	 * for throttled children"), 6.6. `pelt`, without interrupts and stolen time: since commit 64eaf50731ac, 5.19.
	 */
	u64 throttled_clock_self, throttled_clock_self_time;
	u64 throttled_clock_pelt, throttled_clock_pelt_time;
	int throttle_count;
} CORE;

struct cfs_rq___task { /* before 5.19 */
	u64 throttled_clock_task, throttled_clock_task_time;
} CORE;

struct task_group {
	struct cfs_rq **cfs_rq; /* of each processor */
} CORE;

struct sched_entity {
	u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
} CORE;

struct sched_dl_entity {
	unsigned dl_throttled : 1; /* it has used its runtime up, and waits for its next period (SCHED_DEADLINE) */
} CORE;

struct sched_rt_entity {
	struct rt_rq *rt_rq; /* CONFIG_RT_GROUP_SCHED */
} CORE;

struct sched_info {
	/* CONFIG_SCHED_INFO, by the run queue's clock. */
	unsigned long run_delay; /* total time ready until it last came onto a processor */
	u64 last_arrival; /* when it last came onto a processor */
	u64 last_queued; /* when it became ready; 0: it is not ready */
} CORE;

struct thread_info {
	u32 cpu; /* in task_struct before commit bcf9033e5449, 5.16 */
} CORE;

struct callback_head;

struct mm_struct {
	struct rw_semaphore mmap_lock;
	struct file *exe_file;
	unsigned long saved_auxv[2]; /* more, in pairs (getauxval(3)) */
} CORE;

struct mm_struct___owned {
	struct task_struct *owner; /* CONFIG_MEMCG */
} CORE;

struct seccomp {
	int mode;
} CORE;

struct sigaction {
	void *sa_handler;
} CORE;

struct k_sigaction {
	struct sigaction sa;
} CORE;

struct cred {
	struct {
		u32 val;
	} euid;
} CORE;

struct task_struct {
	struct thread_info thread_info;
	struct sched_info sched_info;
	unsigned int __state; /* `state` before commit 2f064a59a11f, 5.14 */
	unsigned int flags;
	int exit_state; /* not 0: it has ended, and its parent or the other threads of its process have not noticed */
	u64 start_time;
	int on_cpu;
	int on_rq;
	int pid;
	int tgid;
	int pagefault_disabled;
	unsigned long min_flt, maj_flt;
	void *stack;
	unsigned in_iowait : 1;
	unsigned frozen : 1; /* for its control group (cgroup v2); or it only counts as frozen, as in vfork */
	struct seccomp seccomp;
	unsigned long jobctl;
	struct cred *cred;
	struct callback_head *task_works; /* what it does for the kernel before it goes back to user code */
	char comm[16];
	int prio;
	bool throttled; /* commit e1fad12dcb66 ("sched/fair: Switch to task based throttle model"), 6.18 */
	struct task_group *sched_task_group;
	struct sched_entity se;
	struct sched_rt_entity rt;
	struct sched_dl_entity dl;
	struct pid *thread_pid;
	struct task_struct *group_leader;
	struct files_struct *files;
	struct css_set *cgroups;
	struct mm_struct *mm;
	struct thread_struct thread;
} CORE;

struct task_struct___cpu {
	u32 cpu;
} CORE;

/* The processor that a thread runs on, or ran on last. */
INLINE u32 processor_of(struct task_struct *task)
{
	struct task_struct___cpu *old = (void *)task;
	return FIELD_EXISTS(task->thread_info.cpu) ? task->thread_info.cpu : FIELD_EXISTS(old->cpu) ? old->cpu : 0;
}

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} CORE;

/* include/linux/sched.h; PF_WORKER is PF_IO_WORKER and PF_USER_WORKER. */
enum { PF_KTHREAD = 0x00200000, PF_WORKER = 0x00004010, PF_EXITING = 0x4, PF_DUMPCORE = 0x200 };
enum { SECCOMP_FILTER = 2 };
enum { JOBCTL_TRAP_FREEZE = 1 << 23 }; /* include/linux/sched/jobctl.h: its control group is frozen */
enum { TASK_STATE_STOPPED = 4, TASK_STATE_TRACED = 8, TASK_STATE_DEAD = 0x80, TASK_STATE_FROZEN = 0x8000 };
enum {
	MODE_TYPE = 0170000,
	MODE_SOCKET = 0140000,
	MODE_REGULAR = 0100000,
	MODE_BLOCK = 0060000,
	MODE_DEVICE = 0020000,
	MODE_FIFO = 0010000
};
enum { OPEN_NONBLOCK = 04000 };
enum { RESTART_BLOCK = -516 }; /* ERESTART_RESTARTBLOCK: the call goes on as restart_syscall */

#endif
