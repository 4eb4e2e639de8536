// Goes into the kernel in each way that there is, again and again, with next to no code of its own in between. Each way
// has a process with its name. `ways_into_the_kernel NAME...`: these; without names: all. Prints the names of those that
// the machine has.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { TIMES = 4000, BIG = 192 << 20, PAGE = 4096 };

static char *page;
static int fds[2], other;
static sigjmp_buf back;

static void fail(const char *what)
{
	(void)what;
	_exit(77); // the machine does not have this way
}

static void handle(int sig, siginfo_t *info, void *context) { (void)sig, (void)info, (void)context; }

static void on(int sig, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
	sigaction(sig, &action, NULL);
}

static void send_itself(int sig) { syscall(SYS_tgkill, getpid(), (int)syscall(SYS_gettid), sig); }

// ---- calls ----

static void way_getppid(void) { syscall(SYS_getppid); }
static void way_no_such_call(void) { syscall(100000); }
static void way_sched_yield(void) { sched_yield(); }
static void way_futex_wake(void) { syscall(SYS_futex, page, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0); }
static void way_membarrier(void) { syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0); }
static void way_brk(void) { syscall(SYS_brk, 0); }
static void way_mprotect(void) { mprotect(page, PAGE, PROT_READ | PROT_WRITE); }
static void way_read_zero(void) { if (read(other, page, PAGE) != PAGE) fail("read"); }
static char *volatile nowhere = (char *)8;
static void way_efault(void) { if (read(other, nowhere, 1) != -1) fail("read"); }
static void way_prctl(void) { prctl(PR_GET_DUMPABLE); }
static void way_epoll_asks(void)
{
	struct epoll_event event;
	epoll_wait(other, &event, 1, 0);
}
static void way_pipe_and_back(void)
{
	if (write(fds[1], page, 1) != 1 || read(fds[0], page, 1) != 1) fail("pipe");
}
static void way_process_vm(void)
{
	struct iovec here = {page, 8}, there = {page + 64, 8};
	if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 8) fail("process_vm_readv");
}
static void way_short_sleep(void)
{
	struct timespec time = {0, 1};
	nanosleep(&time, NULL);
}
#if defined(__x86_64__)
static void way_int_80(void)
{
	long call = 64; // getppid of 32-bit programs
	__asm__ volatile("int $0x80" : "+a"(call) : : "memory", "r8", "r9", "r10", "r11");
	if (call == -ENOSYS) fail("int 0x80");
}
static void way_vsyscall(void)
{
	static long (*const vsyscall_time)(long *) = (void *)0xffffffffff600400;
	if (sigsetjmp(back, 1)) fail("vsyscall");
	vsyscall_time(NULL);
}
#endif

// ---- work that a call puts off until its end ----

static void way_unmap_last_file(void)
{
	int fd = memfd_create("f", MFD_CLOEXEC);
	if (ftruncate(fd, PAGE)) fail("memfd");
	char *at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	munmap(at, PAGE);
}
static void way_dup2_over(void)
{
	int fd = memfd_create("f", MFD_CLOEXEC);
	if (dup2(other, fd) < 0) fail("dup2");
	close(fd);
}
static void way_eventfd(void)
{
	uint64_t one = 1;
	if (write(other, &one, 8) != 8 || read(other, &one, 8) != 8) fail("eventfd");
}
static struct io_uring_sqe *entries;
static unsigned *tail, *places;
static void way_io_uring(void) // a request that does nothing
{
	unsigned at = *tail & 1;
	entries[at] = (struct io_uring_sqe){.opcode = IORING_OP_NOP};
	places[at] = at;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, other, 1, 0, 0, NULL, 0) != 1) fail("io_uring_enter");
}
static void way_mremap(void)
{
	static char *at;
	static size_t size;
	if (!at) at = mmap(NULL, size = PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	at = mremap(at, size, size ^ 3 * PAGE, MREMAP_MAYMOVE);
	size ^= 3 * PAGE;
	if (at == MAP_FAILED) fail("mremap");
}
static void way_moved(void) // to another processor, where there is one
{
	static unsigned long turn;
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(turn++ % (sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 2 : 1), &one);
	sched_setaffinity(0, sizeof(one), &one);
}

// ---- faults and traps ----

static void way_minor_fault(void)
{
	madvise(page, PAGE, MADV_DONTNEED);
	*(volatile char *)page = 1;
}
static char *file;
static void way_file_fault(void) // a page that the page cache has
{
	madvise(file, PAGE, MADV_DONTNEED);
	if (*(volatile char *)file != 1) fail("file");
}
static void way_userfault(void) // a fault that is a signal (UFFD_FEATURE_SIGBUS)
{
	if (!sigsetjmp(back, 1)) *(volatile char *)(page + PAGE) = 1;
}
static void way_copied_page(void) // a page that a child has, too
{
	pid_t pid = fork();
	if (!pid) _exit(0);
	*(volatile char *)page = 1;
	waitpid(pid, NULL, 0);
}
static void jump_back(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info, (void)context;
	siglongjmp(back, 1);
}
static void way_segv_handled(void)
{
	if (!sigsetjmp(back, 0)) *(volatile char *)8 = 1;
}
static void way_bus_handled(void)
{
	if (!sigsetjmp(back, 0)) *(volatile char *)(page + PAGE) = 1;
}
static void way_trap_handled(void)
{
#if defined(__x86_64__)
	__asm__ volatile("int3");
#else
	raise(SIGTRAP);
#endif
}
static void way_ill_handled(void)
{
	if (!sigsetjmp(back, 0)) __builtin_trap();
}
#if defined(__x86_64__)
static void way_division_handled(void)
{
	if (!sigsetjmp(back, 0)) __asm__ volatile("xor %%edx, %%edx; xor %%ecx, %%ecx; div %%ecx" : : : "eax", "edx", "ecx");
}
static void way_gp_handled(void)
{
	if (!sigsetjmp(back, 0)) *(volatile char *)0x8000000000000000ul = 1;
}
static void way_single_step(void) // the trap flag: a signal after an instruction
{
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq; nop; pushfq; andq $~0x100, (%%rsp); popfq" : : : "memory", "cc");
}
static void step(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info;
	((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100;
}
#endif

// ---- signals ----

static void way_signal(void) { send_itself(SIGUSR1); }
static void way_signal_queued(void)
{
	union sigval value = {.sival_int = 1};
	sigqueue(getpid(), SIGRTMIN, value);
}
static void way_signal_unblocked(void)
{
	sigset_t set, before;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, &before);
	send_itself(SIGUSR1);
	sigprocmask(SIG_SETMASK, &before, NULL);
}
static void way_signal_ignored(void) { send_itself(SIGWINCH); }
static void way_pipe_broken(void) { if (write(fds[1], page, 1) != -1) fail("write"); }
static void way_signal_taken(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	send_itself(SIGUSR2);
	sigwaitinfo(&set, NULL);
}
static void way_seccomp_trap(void) { syscall(SYS_getsid, 0); }
static void way_seccomp_errno(void) { syscall(SYS_getsid, 0); }
static void way_traced_call(void) { syscall(SYS_getppid); }

static void way_timer_signal(void) // interrupts a call
{
	struct itimerval soon = {{0, 0}, {0, 20}};
	sigset_t none;
	sigemptyset(&none);
	setitimer(ITIMER_REAL, &soon, NULL);
	sigsuspend(&none);
}
#if defined(__x86_64__)
extern const ptrdiff_t __rseq_offset __attribute__((weak)); // glibc 2.35 and later
extern const unsigned int __rseq_size __attribute__((weak));
static char *restartable;
static void way_rseq_abort(void) // a signal to itself within a restartable sequence
{
	int aborted = 0;
	__asm__ volatile(
		".pushsection .data\n .balign 32\n 1: .long 0, 0\n .quad 2f, 3f - 2f, 4f\n .popsection\n"
		"leaq 1b(%%rip), %%rax\n movq %%rax, 8(%[area])\n movl $200, %%eax\n" // tkill
		"2: syscall\n nop\n"
		"3: jmp 5f\n .long 0x53053053\n"
		"4: movl $1, %[aborted]\n"
		"5:\n"
		: [aborted] "+m"(aborted)
		: [area] "r"(restartable), "D"((int)syscall(SYS_gettid)), "S"(SIGUSR1)
		: "rax", "rcx", "r11", "memory", "cc");
	if (!aborted) fail("rseq");
}
#endif

// ---- threads and processes ----

static void *nothing(void *given) { return given; }
static void way_thread(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, nothing, NULL)) fail("pthread_create");
	pthread_join(thread, NULL);
}
static void way_vfork(void)
{
	pid_t pid = vfork();
	if (!pid) _exit(0);
	waitpid(pid, NULL, 0);
}
static void way_fork(void)
{
	pid_t pid = fork();
	if (!pid) _exit(0);
	waitpid(pid, NULL, 0);
}

// ---- the end: it is the kernel's ----

static void fill(void)
{
	if (mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) == MAP_FAILED)
		fail("mmap");
}
static void *wait_for_ever(void *given)
{
	for (;;) pause();
	return given;
}
static void start_idle(void)
{
	pthread_t thread;
	for (int i = 0; i < 3; i++) pthread_create(&thread, NULL, wait_for_ever, NULL);
	usleep(20000);
}
static void end_exit_group(void) { fill(), _exit(0); }
static void end_exit_among_idle(void) { start_idle(), fill(), usleep(20000), _exit(0); }
static void end_main_first(void) { start_idle(), fill(), alarm(1), syscall(SYS_exit, 0); }
static void end_kill(void) { fill(), kill(getpid(), SIGKILL), pause(); }
static void end_term(void) { fill(), kill(getpid(), SIGTERM), pause(); }
static void end_segv(void) { fill(), *(volatile char *)8 = 1; }
static void end_abort(void) { fill(), abort(); }
static void end_exec(void) { fill(), execl("/proc/self/exe", "end_exec", "--nothing", NULL); }
static void end_seccomp_kill(void)
{
	struct sock_filter code = BPF_STMT(BPF_RET + BPF_K, SECCOMP_RET_KILL_PROCESS);
	struct sock_fprog filter = {1, &code};
	fill();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) fail("seccomp");
	syscall(SYS_getppid);
}
static void end_file_unmapped(void)
{
	int fd = memfd_create("f", MFD_CLOEXEC);
	if (fallocate(fd, 0, 0, BIG)) fail("fallocate");
	char *at = mmap(NULL, BIG, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	munmap(at, BIG);
	_exit(0);
}
static void end_file_replaced(void)
{
	int fd = memfd_create("f", MFD_CLOEXEC);
	if (fallocate(fd, 0, 0, BIG)) fail("fallocate");
	dup2(other, fd);
	_exit(0);
}
static void end_big_unmap(void)
{
	char *at = mmap(NULL, BIG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	munmap(at, BIG);
	_exit(0);
}

// ---- what each needs ----

static void need_zero(void) { other = open("/dev/zero", O_RDONLY | O_CLOEXEC); }
static void need_epoll(void) { other = epoll_create1(0); }
static void need_event(void) { other = eventfd(0, 0); }
static void need_pipe(void) { if (pipe(fds)) fail("pipe"); }
static void need_broken_pipe(void) { need_pipe(), close(fds[0]), on(SIGPIPE, handle, 0); }
static void need_handlers(void)
{
	on(SIGUSR1, handle, 0), on(SIGRTMIN, handle, 0), on(SIGTRAP, handle, 0);
	signal(SIGWINCH, SIG_DFL);
}
static void block(int sig)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, sig);
	sigprocmask(SIG_BLOCK, &set, NULL);
}
static void need_blocked(void) { block(SIGUSR2); }
static void need_jump(void)
{
	int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
	for (unsigned i = 0; i < sizeof(signals) / sizeof(*signals); i++) on(signals[i], jump_back, SA_NODEFER);
}
static void need_short_file(void)
{
	int fd = memfd_create("f", MFD_CLOEXEC);
	if (ftruncate(fd, PAGE)) fail("memfd");
	page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	need_jump();
}
#if defined(__x86_64__)
static void need_step(void) { on(SIGTRAP, step, 0); }
#endif
static void filter_getsid(unsigned answer)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD + BPF_W + BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP + BPF_JEQ + BPF_K, SYS_getsid, 0, 1),
		BPF_STMT(BPF_RET + BPF_K, answer),
		BPF_STMT(BPF_RET + BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {4, code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) fail("seccomp");
}
static void need_trap_filter(void) { on(SIGSYS, handle, 0), filter_getsid(SECCOMP_RET_TRAP); }
static void need_errno_filter(void) { filter_getsid(SECCOMP_RET_ERRNO | EPERM); }
static void need_tracer(void)
{
	pid_t pid = fork();
	if (pid < 0) fail("fork");
	if (pid) { // the tracer has another name: the way is the child's
		int status = 0;
		prctl(PR_SET_NAME, "tracer");
		while (waitpid(pid, &status, 0) == pid && !WIFEXITED(status) && !WIFSIGNALED(status))
			if (ptrace(PTRACE_SYSCALL, pid, NULL, NULL)) break;
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL)) fail("ptrace");
	raise(SIGSTOP);
}
static void need_io_uring(void)
{
	struct io_uring_params params = {0};
	other = (int)syscall(SYS_io_uring_setup, 2, &params);
	if (other < 0) fail("io_uring_setup");
	char *ring = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, other, IORING_OFF_SQ_RING);
	entries = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, other, IORING_OFF_SQES);
	if (ring == MAP_FAILED || entries == MAP_FAILED) fail("io_uring");
	tail = (unsigned *)(ring + params.sq_off.tail), places = (unsigned *)(ring + params.sq_off.array);
}
static void need_file(void)
{
	int fd = memfd_create("f", MFD_CLOEXEC);
	if (write(fd, "\1", 1) != 1) fail("memfd");
	file = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
}
static void need_userfault(void)
{
	struct uffdio_api api = {UFFD_API, UFFD_FEATURE_SIGBUS, 0};
	struct uffdio_register pages = {{(uintptr_t)page + PAGE, PAGE}, UFFDIO_REGISTER_MODE_MISSING, 0};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &pages)) fail("userfaultfd");
	need_jump();
}
static void need_alarm(void) { on(SIGALRM, handle, 0), block(SIGALRM); }
#if defined(__x86_64__)
static void need_restartable(void)
{
	if (!&__rseq_size || !__rseq_size) fail("rseq");
	__asm__("movq %%fs:0, %0" : "=r"(restartable));
	restartable += __rseq_offset;
	need_handlers();
}
#endif
static void need_nothing(void) { }

#define WAY(name, times, need) {#name, way_##name, times, need}
#define END(name, need) {#name, end_##name, 1, need}
static const struct {
	const char *name;
	void (*go)(void);
	int times;
	void (*need)(void);
} ways[] = {
	WAY(getppid, TIMES, need_nothing), WAY(no_such_call, TIMES, need_nothing), WAY(sched_yield, TIMES, need_nothing),
	WAY(futex_wake, TIMES, need_nothing), WAY(membarrier, TIMES, need_nothing), WAY(brk, TIMES, need_nothing),
	WAY(mprotect, TIMES, need_nothing), WAY(read_zero, TIMES, need_zero), WAY(efault, TIMES, need_zero),
	WAY(prctl, TIMES, need_nothing), WAY(epoll_asks, TIMES, need_epoll), WAY(pipe_and_back, TIMES, need_pipe),
	WAY(process_vm, TIMES, need_nothing), WAY(short_sleep, 200, need_nothing),
#if defined(__x86_64__)
	WAY(int_80, TIMES, need_nothing), WAY(vsyscall, TIMES, need_jump), WAY(division_handled, TIMES, need_jump),
	WAY(gp_handled, TIMES, need_jump), WAY(single_step, TIMES, need_step), WAY(rseq_abort, TIMES, need_restartable),
#endif
	WAY(io_uring, TIMES, need_io_uring), WAY(mremap, TIMES, need_nothing), WAY(moved, 200, need_nothing),
	WAY(file_fault, TIMES, need_file), WAY(userfault, TIMES, need_userfault), WAY(copied_page, 100, need_nothing),
	WAY(timer_signal, 200, need_alarm), WAY(vfork, 100, need_nothing),
	WAY(unmap_last_file, TIMES, need_nothing), WAY(dup2_over, TIMES, need_zero), WAY(eventfd, TIMES, need_event),
	WAY(minor_fault, TIMES, need_nothing), WAY(segv_handled, TIMES, need_jump), WAY(bus_handled, TIMES, need_short_file),
	WAY(trap_handled, TIMES, need_handlers), WAY(ill_handled, TIMES, need_jump), WAY(signal, TIMES, need_handlers),
	WAY(signal_queued, TIMES, need_handlers), WAY(signal_unblocked, TIMES, need_handlers),
	WAY(signal_ignored, TIMES, need_handlers), WAY(pipe_broken, TIMES, need_broken_pipe),
	WAY(signal_taken, TIMES, need_blocked), WAY(seccomp_trap, TIMES, need_trap_filter),
	WAY(seccomp_errno, TIMES, need_errno_filter), WAY(traced_call, 300, need_tracer), WAY(thread, 300, need_nothing),
	WAY(fork, 100, need_nothing),
	END(exit_group, need_nothing), END(exit_among_idle, need_nothing), END(main_first, need_nothing),
	END(kill, need_nothing), END(term, need_nothing), END(segv, need_nothing), END(abort, need_nothing),
	END(exec, need_nothing), END(seccomp_kill, need_nothing), END(file_unmapped, need_nothing),
	END(file_replaced, need_zero), END(big_unmap, need_nothing),
};

static int is_wanted(const char *name, int count, char **words)
{
	for (int i = 1; i < count; i++)
		if (!strcmp(words[i], name)) return 1;
	return count < 2;
}

int main(int count, char **words)
{
	struct rlimit no_core = {0, 0};
	if (count == 2 && !strcmp(words[1], "--nothing")) return 0;
	setrlimit(RLIMIT_CORE, &no_core);
	for (unsigned i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		int status;
		if (!is_wanted(ways[i].name, count, words)) continue;
		fflush(stdout);
		pid_t pid = fork();
		if (!pid) {
			page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			page[0] = 1;
			ways[i].need();
			prctl(PR_SET_NAME, ways[i].name);
			for (int j = 0; j < ways[i].times; j++) ways[i].go();
			_exit(0);
		}
		waitpid(pid, &status, 0);
		if (!WIFEXITED(status) || !WEXITSTATUS(status))
			printf("%s %d\n", ways[i].name, ways[i].times);
	}
	return 0;
}
