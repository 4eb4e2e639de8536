/* For each name in argv a child of that name, which asks argv[1] times for what never comes; says how they ended. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#define SPIN(check) do { for (long i = 0; i < n; i++) if (!(check)) return 1; return 0; } while (0)
static char much[65536];
static int spin(const char *how, long n, const char *self) {
    char byte, word[8];
    int pair[2], ends[2];
    struct timespec none = {0, 0};
    struct timeval no_time = {0, 0};
    struct epoll_event event = {.events = EPOLLIN};
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    if (pipe2(ends, O_NONBLOCK)) return 1;
    int set = epoll_create1(0);
    epoll_ctl(set, EPOLL_CTL_ADD, pair[0], &event);
    struct pollfd one = {.fd = pair[0], .events = POLLIN};
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (!strcmp(how, "epoll_wait")) SPIN(syscall(SYS_epoll_wait, set, &event, 1, 0) == 0);
    if (!strcmp(how, "epoll_pwait")) SPIN(syscall(SYS_epoll_pwait, set, &event, 1, 0, 0, 8) == 0);
    if (!strcmp(how, "epoll_pwait2")) SPIN(syscall(SYS_epoll_pwait2, set, &event, 1, &none, 0, 8) == 0);
    if (!strcmp(how, "poll")) SPIN(syscall(SYS_poll, &one, 1, 0) == 0);
    if (!strcmp(how, "ppoll")) SPIN(syscall(SYS_ppoll, &one, 1, &none, 0, 8) == 0);
    if (!strcmp(how, "select")) {
        for (long i = 0; i < n; i++) {
            fd_set some;
            FD_ZERO(&some);
            FD_SET(pair[0], &some);
            if (syscall(SYS_select, pair[0] + 1, &some, 0, 0, &no_time)) return 1;
        }
        return 0;
    }
    if (!strcmp(how, "recvfrom")) SPIN(recv(pair[0], &byte, 1, MSG_DONTWAIT) < 0);
    if (!strcmp(how, "recvmsg")) SPIN(recvmsg(pair[0], &message, MSG_DONTWAIT) < 0);
    if (!strcmp(how, "read_pipe")) SPIN(read(ends[0], &byte, 1) < 0);
    if (!strcmp(how, "readv")) SPIN(readv(ends[0], &part, 1) < 0);
    if (!strcmp(how, "write")) {
        while (write(ends[1], much, sizeof much) > 0) ;
        SPIN(write(ends[1], &byte, 1) < 0);
    }
    if (!strcmp(how, "read_event")) {
        int fd = eventfd(0, EFD_NONBLOCK);
        SPIN(read(fd, word, 8) < 0);
    }
    if (!strcmp(how, "read_timer")) {
        int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
        SPIN(read(fd, word, 8) < 0);
    }
    if (!strcmp(how, "read_file")) { /* the end of a growing file */
        int fd = open("/tmp", O_TMPFILE | O_RDWR | O_NONBLOCK, 0600);
        SPIN(read(fd, &byte, 1) == 0);
    }
    if (!strcmp(how, "sched_yield")) SPIN(sched_yield() == 0);
    if (!strcmp(how, "io_getevents")) {
        aio_context_t context = 0;
        struct io_event done;
        if (syscall(SYS_io_setup, 1, &context)) return 77;
        SPIN(syscall(SYS_io_getevents, context, 0L, 1L, &done, &none) == 0);
    }
    if (!strcmp(how, "accept4")) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
        struct sockaddr here = {AF_UNIX, ""};
        if (bind(fd, &here, 2) || listen(fd, 1)) return 1;
        SPIN(accept4(fd, 0, 0, 0) < 0);
    }
    if (!strcmp(how, "wait4")) {
        pid_t child = fork();
        if (!child) { pause(); _exit(0); }
        for (long i = 0; i < n; i++) if (waitpid(child, 0, WNOHANG)) return 1;
        kill(child, 9);
        return waitpid(child, 0, 0) != child;
    }
    if (!strcmp(how, "flock")) {
        int mine = open(self, O_RDONLY), other = open(self, O_RDONLY);
        if (flock(other, LOCK_EX)) return 1;
        SPIN(flock(mine, LOCK_EX | LOCK_NB) < 0);
    }
    if (!strcmp(how, "lock_file")) { /* somebody else has made the file */
        char path[64];
        snprintf(path, sizeof path, "/tmp/in_vain.%d", getpid());
        int fd = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (fd < 0) return 1;
        for (long i = 0; i < n; i++) if (open(path, O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0) return 1;
        return unlink(path);
    }
    if (!strcmp(how, "record_lock")) { /* a lock of its parent's would be inherited by nobody, so a child has it */
        int ready[2], fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
        struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        if (fd < 0 || pipe(ready)) return 77;
        pid_t child = fork();
        if (!child) {
            if (fcntl(fd, F_SETLK, &whole) || write(ready[1], "r", 1) != 1) _exit(1);
            pause();
        }
        if (read(ready[0], &byte, 1) != 1) return 1;
        for (long i = 0; i < n; i++) if (!fcntl(fd, F_SETLK, &whole)) return 1;
        kill(child, 9);
        return waitpid(child, 0, 0) != child;
    }
    if (!strcmp(how, "semaphore")) {
        int set = semget(IPC_PRIVATE, 1, 0600);
        struct sembuf take = {0, -1, IPC_NOWAIT};
        if (set < 0) return 77;
        long i = 0;
        while (i < n && syscall(SYS_semtimedop, set, &take, 1L, NULL) < 0) i++;
        return semctl(set, 0, IPC_RMID) || i < n;
    }
    if (!strcmp(how, "kill_0")) {
        pid_t parent = getppid();
        SPIN(kill(parent, 0) == 0);
    }
    if (!strcmp(how, "end_of_file")) {
        int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600);
        SPIN(pread(fd, &byte, 1, 0) == 0);
    }
    if (!strcmp(how, "bytes")) {
        int bytes;
        SPIN(ioctl(pair[0], FIONREAD, &bytes) == 0 && !bytes);
    }
    if (!strcmp(how, "futex_0")) {
        int unchanged = 0;
        SPIN(syscall(SYS_futex, &unchanged, FUTEX_WAIT_PRIVATE, 0, &none, NULL, 0) < 0);
    }
    const char *missing = "/tmp/in_vain, and not there";
    if (!strcmp(how, "access")) {
#ifdef SYS_access
        SPIN(syscall(SYS_access, missing, F_OK) < 0);
#endif
    }
    if (!strcmp(how, "stat")) {
        struct stat found;
        SPIN(syscall(SYS_newfstatat, AT_FDCWD, missing, &found, 0) < 0);
    }
    if (!strcmp(how, "statx")) {
        struct statx found;
        SPIN(syscall(SYS_statx, AT_FDCWD, missing, 0, STATX_SIZE, &found) < 0);
    }
    if (!strcmp(how, "sigtimedwait")) {
        unsigned long signals = 1 << 9;
        SPIN(syscall(SYS_rt_sigtimedwait, &signals, 0, &none, 8) < 0);
    }
    return 77;
}
int main(int argc, char **argv) {
    for (int i = 2; i < argc; i++) {
        int status;
        pid_t child = fork();
        if (!child) {
            prctl(PR_SET_NAME, argv[i]);
            _exit(spin(argv[i], atol(argv[1]), argv[0]));
        }
        waitpid(child, &status, 0);
        printf("%d ", status >> 8);
    }
    return 0;
}
