/* To be preloaded: one call of a kind, the n-th from exhaust_from_now() on, fails as if a resource had run out.
 *
 * EXHAUSTED=KIND:N:ERRNO:FD says which, and FD is a file that gets a byte when it has failed. All processes that are
 * forked count together. What is executed afterwards does not have the library.
 */
#define _GNU_SOURCE
#define syscall declared_syscall /* its declaration has no arguments by name */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#undef syscall

static struct shared {
	atomic_int armed;
	atomic_long left;
} *shared;
static char kind[32];
static int seen, number;

static void *next(const char *name) {
	return dlsym(RTLD_NEXT, name);
}

#define NEXT(name) static __typeof__(&name) real; if (!real) *(void **)&real = next(#name)

static long (*real_syscall)(long, long, long, long, long, long, long);

__attribute__((constructor)) static void prepare(void) {
	*(void **)&real_syscall = next("syscall");
	const char *said = getenv("EXHAUSTED");
	long n = 0;
	if (!said || sscanf(said, "%31[^:]:%ld:%d:%d", kind, &n, &number, &seen) != 4) return;
	shared = (void *)real_syscall(SYS_mmap, 0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	atomic_store(&shared->left, n);
	unsetenv("LD_PRELOAD");
}

void exhaust_from_now(void) {
	if (shared) atomic_store(&shared->armed, 1);
}

static int fails(const char *of) {
	if (!shared || strcmp(of, kind) || !atomic_load(&shared->armed) || atomic_fetch_sub(&shared->left, 1) != 1) return 0;
	real_syscall(SYS_write, seen, (long)"!", 1, 0, 0, 0);
	errno = number;
	return 1;
}

long syscall(long call, long a, long b, long c, long d, long e, long f) {
	const char *of = call == SYS_bpf               ? "bpf"
	                 : call == SYS_perf_event_open ? "perf_event_open"
	                 : call == SYS_pidfd_open      ? "pidfd_open"
	                                               : "";
	return fails(of) ? -1 : real_syscall(call, a, b, c, d, e, f);
}

pid_t fork(void) {
	NEXT(fork);
	return fails("fork") ? -1 : real();
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
	NEXT(pthread_create);
	return fails("pthread_create") ? number : real(thread, attributes, run, argument);
}

#define MODE(flags, last) \
	va_list rest; \
	va_start(rest, last); \
	mode_t mode = (flags) & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
	va_end(rest)

int open64(const char *path, int flags, ...) {
	NEXT(open64);
	MODE(flags, flags);
	return fails("open") ? -1 : real(path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
	NEXT(openat64);
	MODE(flags, flags);
	return fails("open") ? -1 : real(folder, path, flags, mode);
}

FILE *fopen64(const char *path, const char *mode) {
	NEXT(fopen64);
	return fails("open") ? NULL : real(path, mode);
}

DIR *opendir(const char *path) {
	NEXT(opendir);
	return fails("open") ? NULL : real(path);
}

void *mmap64(void *where, size_t size, int protection, int flags, int fd, off64_t offset) {
	NEXT(mmap64);
	/* Python waits for ever for a thread that has no memory to begin with. */
	return gettid() == getpid() && fails("mmap") ? MAP_FAILED : real(where, size, protection, flags, fd, offset);
}

/* A pipe has room by itself: only a file's can run out. */
static int is_file(int fd) {
	struct stat status;
	return !fstat(fd, &status) && S_ISREG(status.st_mode);
}

ssize_t write(int fd, const void *data, size_t size) {
	NEXT(write);
	return is_file(fd) && fails("write") ? -1 : real(fd, data, size);
}

int fsync(int fd) {
	NEXT(fsync);
	return fails("fsync") ? -1 : real(fd);
}

int ftruncate64(int fd, off64_t size) {
	NEXT(ftruncate64);
	return fails("ftruncate") ? -1 : real(fd, size);
}

int memfd_create(const char *name, unsigned flags) {
	NEXT(memfd_create);
	return fails("memfd_create") ? -1 : real(name, flags);
}

int pipe2(int fds[2], int flags) {
	NEXT(pipe2);
	return fails("pipe") ? -1 : real(fds, flags);
}

int eventfd(unsigned value, int flags) {
	NEXT(eventfd);
	return fails("eventfd") ? -1 : real(value, flags);
}

int epoll_create1(int flags) {
	NEXT(epoll_create1);
	return fails("epoll_create") ? -1 : real(flags);
}

int socket(int family, int type, int protocol) {
	NEXT(socket);
	return fails("socket") ? -1 : real(family, type, protocol);
}

int socketpair(int family, int type, int protocol, int fds[2]) {
	NEXT(socketpair);
	return fails("socket") ? -1 : real(family, type, protocol, fds);
}

int mkdir(const char *path, mode_t mode) {
	NEXT(mkdir);
	return fails("mkdir") ? -1 : real(path, mode);
}
