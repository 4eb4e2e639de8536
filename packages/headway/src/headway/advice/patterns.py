"""The known patterns of lost time: the states by which each is recognised, what helps, and a command that shows the
cause.

A command contains ``{tid}`` and ``{pid}`` for the thread's ids. It only looks and changes nothing, unless the pattern
has an ``undo``. It has no space within quotes, so that a view can break the line between words.
"""

from __future__ import annotations

from headway.dataclass import dataclass
from headway.model.calls import CALLS_THAT_FORCE

__all__ = [
    "AT_THE_SAME_MOMENTS",
    "CACHE_DIVIDED",
    "CALLS_ONLY",
    "COPIES",
    "DEVICES",
    "DISK_FAULTS",
    "FAULTS",
    "FORCED",
    "FORCED_ONCE",
    "FORCES",
    "HOST",
    "IDLE_STATES",
    "INTERRUPTED",
    "KEPT_FROM_RUNNING",
    "KERNEL_THREAD",
    "LIVES",
    "LOCK",
    "LOOPBACK",
    "MOVES",
    "NETWORK",
    "NEW_MEMORY",
    "NODES",
    "OBSERVED",
    "OF_BRIEF",
    "OTHER_CALL",
    "OTHER_POLL",
    "PACKETS",
    "QUOTA",
    "READS",
    "RECLAIM",
    "REGION",
    "RESTS",
    "RUNAWAY",
    "SHARED_CACHE",
    "STATUS_REGISTER",
    "SUBMISSIONS",
    "THRASHING",
    "TICKS",
    "TIMERS",
    "UNSEEN_NEIGHBOURS",
    "UNSEEN_WAITS",
    "WAITS",
    "WAITS_FOR_OTHERS",
    "Pattern",
    "of_call",
    "of_interrupt",
    "of_poll",
]


@dataclass(frozen=True, slots=True)
class Pattern:
    """A reason for which a thread loses time, and what helps."""

    text: str
    command: str
    calls: str = ""
    """The words after the first dot of the states by which the pattern is recognised."""
    undo: str | None = None
    """The command that takes back ``command``, if that changes something."""


def _stacks(event: str, whose: str = "-t {tid}") -> str:
    return f"sudo perf record -g -e {event} {whose} -- sleep 2 && sudo perf report --stdio"


def _seen(calls: str) -> str:
    return f"sudo timeout 2 strace -r -e trace={calls} -p {{tid}}"


_RECEIVE = "read readv pread64 recvfrom recvmsg recvmmsg"
_SELECT = "poll ppoll select pselect6"
_EPOLL = "epoll_wait epoll_pwait epoll_pwait2"

_WHICH = "sudo headway stat -p {pid} -d 2 --why wait -v"

_CALLS = (
    Pattern(
        "threads wait for each other, or wake each other, by futexes: hold a lock for a shorter time, split it, or "
        "keep the data per thread; wake fewer threads, and less often",
        _stacks("syscalls:sys_enter_futex"),
        "futex futex_wait futex_wake futex_waitv futex_requeue",
    ),
    Pattern(
        "memory is touched for the first time: use again what it has (GLIBC_TUNABLES=glibc.malloc.trim_threshold=…), "
        "fault it in at once (MAP_POPULATE), or use huge pages (glibc.malloc.hugetlb=1)",
        _stacks("page-faults"),
        "fault fault.minor",
    ),
    Pattern(
        "faults had to wait: for the disk, for another thread that changes the same address space (mmap_lock), or for "
        "a handler of userfaultfd: see for which",
        _WHICH,
        "fault.major",
    ),
    Pattern(
        "memory is short, so it must free pages before it gets one: give the machine or its control group more, or let "
        "it use less",
        "cat /proc/pressure/memory /proc/{pid}/cgroup",
        "reclaim",
    ),
    Pattern(
        "memory is taken from the kernel, or given back to it: keep it and use it again "
        "(GLIBC_TUNABLES=glibc.malloc.trim_threshold=…:glibc.malloc.mmap_threshold=…)",
        "sudo timeout 2 strace -c -e trace=%memory -p {tid}",
        "mmap munmap mremap brk madvise mprotect",
    ),
    Pattern(
        "processes and threads begin and end: start fewer of them, and give each more to do (one program for many "
        "files, a pool, what a shell can do itself)",
        "sudo timeout 2 strace -f -c -e trace=%process -p {pid}",
        "fork vfork clone clone3 execve execveat exit exit_group wait4 waitid",
    ),
    Pattern(
        "every small write is forced to the disk: gather several and force them once",
        "sudo timeout 2 strace -T -e trace=fsync,fdatasync,msync,sync_file_range -p {tid}",
        " ".join(sorted(CALLS_THAT_FORCE)),
    ),
    Pattern(
        "data moves in many calls: use larger buffers, or hand them to the kernel in batches (io_uring)",
        "sudo timeout 2 strace -c -p {tid}",
        f"{_RECEIVE} write pwrite64 writev preadv pwritev preadv2 pwritev2 lseek sendfile splice "
        "sendto sendmsg sendmmsg",
    ),
    Pattern(
        "it spins and yields instead of waiting: use a lock or a condition that blocks",
        _stacks("syscalls:sys_enter_sched_yield"),
        "sched_yield",
    ),
    Pattern(
        "it wakes up often for little work: wait longer, or take more at each wake-up",
        "sudo timeout 2 strace -r -p {tid}",
        f"{_SELECT} {_EPOLL} nanosleep clock_nanosleep",
    ),
)
_BY_CALL = {call: pattern for pattern in _CALLS for call in pattern.calls.split()}
OTHER_CALL = Pattern("ask the kernel less often, or for more at once", "sudo timeout 2 strace -c -p {tid}")
DISK_FAULTS = Pattern(
    "pages of its own memory come from the disk: it needs more memory, or to lock what it uses (mlock)",
    "grep -E 'VmRSS|VmSwap' /proc/{pid}/status",
)
"""Of major faults, where block I/O ended their waits."""
MOVES, FORCED, FAULTS = _BY_CALL["write"], _BY_CALL["fsync"], _BY_CALL["fault.major"]
COPIES = Pattern(
    "single calls take long: if they move much data, copy less (mmap, sendfile, splice), or let several threads do it",
    "sudo timeout 2 strace -T -p {tid}",
)
"""Instead of `MOVES` where single calls take long."""
FORCED_ONCE = Pattern(
    "data is forced out: write it out earlier (sync_file_range), or let another thread do it",
    "sudo timeout 2 strace -T -e trace=fsync,fdatasync,msync,sync_file_range -p {tid}",
)
"""Instead of `FORCED` where there were few such calls."""
KERNEL_THREAD = Pattern("a thread of the kernel makes no calls: see in which functions it is", _stacks("cpu-clock"))
SUBMISSIONS = Pattern(
    "it is the thread of the kernel that looks for submissions (IORING_SETUP_SQPOLL), and goes on until none came for "
    "sq_thread_idle: make that shorter, or submit with io_uring_enter",
    _stacks("cpu-clock"),
)


LIVES = _BY_CALL["clone"]
OF_BRIEF = (LIVES, _BY_CALL["fault"], _BY_CALL["mmap"])
"""The patterns that are one for a thread that lives briefly: its memory is new because it is."""


def of_call(call: str) -> Pattern:
    """Return the pattern for time in a system call, in a fault (``fault.minor``), or in ``reclaim``."""
    return _BY_CALL.get(call, OTHER_CALL)


_POLLS = (
    Pattern(
        "with a timeout of 0 it comes back empty at once: give it the time until there is something else to do, or -1 "
        "to wait as long as it takes",
        _seen("epoll_wait,epoll_pwait,epoll_pwait2"),
        _EPOLL,
    ),
    Pattern(
        "with a timeout of 0 it comes back empty at once: give it the time until there is something else to do, and "
        "none at all to wait as long as it takes",
        _seen("poll,ppoll,select,pselect6"),
        _SELECT,
    ),
    Pattern(
        "there is nothing to receive (MSG_DONTWAIT, O_NONBLOCK): wait in poll or epoll, and read when they say so; on "
        "a socket that must not wait for an interrupt, SO_BUSY_POLL has the kernel ask the device",
        _seen("read,readv,recvfrom,recvmsg,recvmmsg"),
        _RECEIVE,
    ),
    Pattern(
        "no connection waits to be accepted: put the listening socket into epoll, and accept when it says so",
        _seen("accept,accept4"),
        "accept accept4",
    ),
    Pattern(
        "it spins and yields until another thread is done: wait with a futex or a condition variable, after a few "
        "rounds of spinning at most",
        _stacks("syscalls:sys_enter_sched_yield"),
        "sched_yield",
    ),
    Pattern(
        "no request is finished yet: let it wait for one (min_nr of 1 or more), or use io_uring",
        _seen("io_getevents,io_pgetevents"),
        "io_getevents io_pgetevents",
    ),
    Pattern(
        "no request is finished yet: let it wait for one (io_uring_wait_cqe, min_complete of 1 or more)",
        _seen("io_uring_enter"),
        "io_uring_enter",
    ),
    Pattern(
        "no child has ended yet (WNOHANG): wait without it, or for a pidfd in poll or epoll",
        _seen("wait4,waitid"),
        "wait4 waitid",
    ),
    Pattern(
        "somebody else has the lock: wait for it in the call (F_SETLKW, flock without LOCK_NB)",
        _seen("fcntl,flock"),
        "fcntl flock",
    ),
    Pattern(
        "the semaphore is not free (IPC_NOWAIT): wait in the call, with a timeout if there is something else to do",
        _seen("semop,semtimedop"),
        "semop semtimedop",
    ),
    Pattern(
        "the process is still there: wait for its end by a pidfd in poll or epoll",
        _seen("%signal"),
        "kill",
    ),
    Pattern(
        "somebody else has made the file (O_EXCL): wait until it is gone (inotify), or lock a file, which can wait "
        "(flock)",
        _seen("openat"),
        "openat",
    ),
    Pattern(
        "the file has not grown: wait until it has (inotify), or let the writer say so",
        _seen("pread64"),
        "pread64",
    ),
    Pattern(
        "there is nothing to receive yet (FIONREAD): wait in poll or epoll, and ask when they say so",
        _seen("ioctl"),
        "ioctl",
    ),
    Pattern(
        "the file is not there: wait until it is (inotify on its folder), or let whoever makes it say so",
        _seen("access,faccessat,faccessat2,stat,newfstatat,statx"),
        "access faccessat faccessat2 stat newfstatat statx",
    ),
    Pattern(
        "nobody has changed the word (a timeout of 0): give the wait the time until there is something else to do",
        _seen("futex"),
        "futex",
    ),
)
_BY_POLL = {call: pattern for pattern in _POLLS for call in pattern.calls.split()} | {"io_uring": SUBMISSIONS}
OTHER_POLL = Pattern(
    "block until there is something (poll with a timeout, epoll_wait with -1, io_uring), or ask less often",
    "sudo timeout 2 strace -r -p {tid}",
)


STATUS_REGISTER = Pattern(
    "let the device's interrupt say when it is ready, and do something else, or wait off the processor, until then",
    "headway machine show",
)

SPINNING = Pattern(
    "it waits in a loop of its own until another thread changes memory: let it sleep after a few rounds (a futex, a "
    "mutex, a condition variable, OMP_WAIT_POLICY=passive), or see that the other thread has a processor meanwhile",
    _stacks("cpu-clock"),
)


def of_poll(call: str) -> Pattern | None:
    """Return the pattern for polling with this system call, or None if it is not a known polling call."""
    return _BY_POLL.get(call)


REGION = Pattern(
    "make it shorter or call it less often: the program itself marks it as no progress",
    _stacks("cpu-clock"),
)

_IPIS = Pattern(
    "other processors interrupt it, to wake threads or because mappings that it shares have changed: keep threads that "
    "wake each other on one processor, and map and unmap less often",
    "grep -E 'RES|CAL|TLB|IPI' /proc/interrupts",
    "irq.reschedule irq.call_function irq.call_function_single irq.ipi irq.work",
)
TICKS = Pattern(
    "the kernel's own tick and timers of all programs run out there: see who starts them",
    _stacks("timer:hrtimer_start", "-a"),
    "irq.timer softirq.timer softirq.hrtimer softirq.sched softirq.rcu",
)
TIMERS = Pattern(
    "its own timers run out often: sleep for longer, and gather what is due at about the same time (timer slack)",
    _stacks("timer:hrtimer_start"),
)
"""Instead of `TICKS` where the thread itself slept that often."""
PACKETS = frozenset({"softirq.net_rx", "softirq.net_tx"})
"""The interrupts that carry packets, from a network device or from a program of this machine."""
NETWORK = Pattern(
    "packets come from a network device, whose interrupts can go to other processors (/proc/irq/*/smp_affinity_list), "
    "or from a program of this machine (loopback): see from which",
    "cat /proc/interrupts /proc/net/dev",
)
LOOPBACK = Pattern(
    "packets between programs of this machine are received in the sender's own call: send fewer and larger ones, or "
    "use a Unix socket or a pipe",
    "cat /proc/net/dev",
)
DEVICES = Pattern(
    "a device interrupts: send it to other processors (/proc/irq/*/smp_affinity_list), or move the thread",
    "cat /proc/interrupts",
)
_BY_INTERRUPT = {state: pattern for pattern in (_IPIS, TICKS) for state in pattern.calls.split()}


def of_interrupt(state: str) -> Pattern | None:
    """Return the pattern for interrupts of this kind, or None if they come from a device, whose name then matters."""
    return _BY_INTERRUPT.get(state)


SHARED_CACHE = Pattern(
    "it waits for memory: touch less at a time, or in order, or give it processors that share no cache with others",
    "lscpu -e=CPU,CORE,SOCKET,NODE,CACHE",
)
CACHE_DIVIDED = Pattern(
    "it waits for memory: touch less at a time, or give it a part of the shared cache of its own if others use that, "
    "too (resctrl; see which parts there are, and what tells who uses how much)",
    "sudo mount -t resctrl resctrl /sys/fs/resctrl; grep -r . /sys/fs/resctrl/schemata /sys/fs/resctrl/info",
    undo="sudo umount /sys/fs/resctrl",
)
NODES = Pattern(
    "it waits for memory, and this machine has several memories: see how much of it lies on another node than the "
    "thread, and start it where it belongs (numactl --cpunodebind=N --membind=N)",
    "numastat -p {pid}; taskset -acp {pid}",
)

QUOTA = Pattern(
    "raise the quota (cpu.max of the group, or of one above it; in Kubernetes the CPU limit; SCHED_DEADLINE's runtime; "
    "sched_rt_runtime_us for real-time threads), or do less at a time",
    "grep -rs --include=cpu.stat 'nr_throttled.[1-9]' /sys/fs/cgroup; cat /proc/{pid}/cgroup; "
    "grep policy /proc/{pid}/task/{tid}/sched",
)
HOST = Pattern(
    "the host has other work, or limits this machine: ask for dedicated processors, or for another host",
    "vmstat -w 1 5",
)
INTERRUPTED = Pattern(
    "interrupts keep the processors from the programs: find the device or the timer that they come from",
    "cat /proc/interrupts; sudo headway cpu -v -n 1",
)
OBSERVED = Pattern(
    "measuring takes it: measure less (--level, --budget), or for fewer threads",
    "sudo headway stat -a -d 2 --level switches",
)
RECLAIM = Pattern(
    "memory is short, and the kernel looks for pages to take back: run less at once, or give the machine more memory",
    "grep -E 'pgscan|pgsteal|pswp|refault|compact_stall' /proc/vmstat; cat /proc/pressure/memory",
)
THRASHING = Pattern(
    "programs wait for pages: if memory is short, the kernel takes back what they need next (thrashing): run less at "
    "once, or give the machine more memory; if it is not, new memory is touched over and over",
    "grep -E 'pgscan|pgsteal|pswp|refault|pgmajfault' /proc/vmstat; cat /proc/pressure/memory",
)
NEW_MEMORY = Pattern(
    "programs touch new memory over and over, and no fault had to wait: let them keep it, or use huge pages",
    _stacks("page-faults", "-a"),
)
"""Instead of `THRASHING` where all faults are minor ones."""
RUNAWAY = Pattern(
    "a kernel thread works without end: a driver may have run away; see in which of its functions",
    _stacks("cpu-clock"),
)
CALLS_ONLY = Pattern(
    "programs ask the kernel without end, and hardly do anything themselves: see for what, and whether they should",
    "sudo timeout 2 strace -f -c -p {pid}",
)
KEPT_FROM_RUNNING = Pattern(
    "something keeps it from running: its scheduling class (SCHED_DEADLINE's runtime, throttled real-time threads), "
    "the processors that it may use (affinity, cpuset), or the host; see which",
    "taskset -acp {pid}; grep -E 'policy|prio|dl' /proc/{pid}/task/{tid}/sched",
)
AT_THE_SAME_MOMENTS = Pattern(
    "too many threads want one at the same moments, or something keeps it on busy ones: the processors that it may use "
    "(affinity, cpuset), or its scheduling class; see which",
    KEPT_FROM_RUNNING.command,
)
UNSEEN_NEIGHBOURS = Pattern(
    "what else wanted to run was not measured: if it is more than the processors can take, start fewer threads, or "
    "allow it more processors",
    "uptime; taskset -acp {pid}",
)
IDLE_STATES = Pattern(
    "wake it less often, with more to do each time, or keep the processors out of deep idle states (a request to "
    "/dev/cpu_dma_latency; in a virtual machine the guest's halt polling)",
    "grep -s . /sys/devices/system/cpu/cpu0/cpuidle/state*/name /sys/devices/system/cpu/cpu0/cpuidle/state*/latency",
)

WAITS = {
    "futex": Pattern(
        "for a lock, or for another thread's work: if it should be working, see where it waits and who holds what",
        _stacks("syscalls:sys_enter_futex"),
    ),
    "gil": Pattern(
        "for Python's interpreter lock (GIL): other threads of it run Python code meanwhile; use processes, code that "
        "lets go of the lock, or a build without one",
        "sudo headway stat -p {pid} -d 2 --why wait -v",
    ),
    "disk": Pattern(
        "for the disk: see in which calls; what it reads can be read ahead, and what it writes forced out less often",
        "sudo timeout 2 strace -c -w -p {tid}",
    ),
    "fault": Pattern(
        "for pages of its own memory to come from the disk: it needs more memory, or to lock what it uses (mlock)",
        "grep -E 'VmRSS|VmSwap' /proc/{pid}/status",
    ),
    "reclaim": Pattern(
        "for memory to become free: give the machine or its control group more, or let it use less",
        "cat /proc/pressure/memory",
    ),
    "mmap_lock": Pattern(
        "for the lock of an address space (mmap_lock), which threads of one process share: map, give back and fault in "
        "less memory while others run (keep it, fault it in at once with MAP_POPULATE, larger pages), or use processes",
        "sudo timeout 2 strace -f -c -e trace=%memory -p {pid}",
    ),
    "file_lock": Pattern(
        "for the lock of a file or directory that others write, or of its position: write different files, open it "
        "once for each thread, or use pread and pwrite",
        "sudo headway stat -p {pid} -d 2 --why wait -v",
    ),
    "kernel_lock": Pattern(
        "for a lock of the kernel: see who has it, and in which calls",
        "sudo headway stat -p {pid} -d 2 --why wait -v",
    ),
    "pipe": Pattern(
        "for the other end of a pipe: measure the program at that end, it is the slower one",
        "ls -l /proc/{pid}/fd",
    ),
    "net": Pattern(
        "for the network: ask for several things at once, or measure the other end",
        "sudo ss -tinp | grep -A1 'pid={pid},'",
    ),
}
"""The patterns by the word after ``wait.``. The waits that are not here are the thread's own choice."""

READS = Pattern(
    "for the disk to read: read ahead (posix_fadvise), keep several requests on their way (io_uring), or keep the data "
    "in memory",
    "cat /proc/{pid}/io",
)
"""Instead of that for ``disk`` where the thread's calls read."""
FORCES = Pattern(
    "for the disk, to which it forces what it wrote: gather several writes and force them once (a group commit), or "
    "take a disk that answers faster",
    FORCED.command,
)
"""Instead of that for ``disk`` where the thread's calls force out what was written."""
LOCK = Pattern(
    "for a lock: hold it for a shorter time, split it, or keep the data per thread",
    _WHICH,
)
"""Instead of that for ``futex`` where it is one (`headway.advice.locks`)."""
LOCKS_BY_HOLDER = {
    "disk": Pattern(
        "for a lock whose holder waits for a disk meanwhile: read and write before or after it has it; a faster disk "
        "helps, shorter code does not",
        _WHICH,
    ),
    "ready": Pattern(
        "for a lock whose holder is ready meanwhile and gets no processor: start fewer threads, allow it more "
        "processors, or a higher priority; shorter code helps less",
        _WHICH,
    ),
    "lock": Pattern("for a lock whose holder waits for another lock: take them one after the other", _WHICH),
    "socket": Pattern("for a lock whose holder waits for a socket: do not keep it while asking others", _WHICH),
    "pipe": Pattern("for a lock whose holder waits for a pipe: do not keep it while asking others", _WHICH),
    "child": Pattern("for a lock whose holder waits for a child process: start that before it is taken", _WHICH),
    "sleep": Pattern("for a lock whose holder sleeps meanwhile: let it go before that", _WHICH),
    "memory": Pattern("for a lock whose holder waits for memory: give the machine or its group more", _WHICH),
}
"""Instead of `LOCK`, by what its holder did for most of that time (`headway.model.holders`)."""
WAITS_FOR_OTHERS = {
    "disk": Pattern(
        "for a file: no disk keeps it, but who woke it does (it fills or serves the file, or had a lock): measure that",
        _WHICH,
    ),
    "fault": Pattern(
        "in page faults: no disk keeps it, but who woke it does (it serves the pages, or changes the address space "
        "and had mmap_lock): measure that",
        _WHICH,
    ),
}
"""Instead of those in `WAITS`, where causes were recorded and block I/O did not end these waits."""
UNSEEN_WAITS = {
    "disk": Pattern("for a file or the disk: see which, and who ends these waits", _WHICH),
    "fault": Pattern(
        "in page faults: see whether the disk, another thread (mmap_lock) or a handler (userfaultfd) ends them", _WHICH
    ),
}
"""Instead of those in `WAITS`, where it was not recorded who ended these waits."""

RESTS = frozenset({"futex", "pipe", "net"})
"""Those in which a thread that has nothing to do rests: a pool's thread, a worker whose clients are silent."""
