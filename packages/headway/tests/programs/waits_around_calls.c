// Waits that begin before a call, or after it has been interrupted. `waits_around_calls notified`: another process decides
// on each mkdir of this one. `waits_around_calls sleep|poll|futex`: the wait is stopped, and goes on.
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CALLS = 5, PAUSE_US = 20000, WAIT_MS = 300 };

static union {
	struct cmsghdr head;
	char room[CMSG_SPACE(sizeof(int))];
} control;
static char byte;
static struct iovec one_byte = {&byte, 1};
static struct msghdr message = {.msg_iov = &one_byte, .msg_iovlen = 1, .msg_control = &control};

static void send_file(int to, int fd)
{
	message.msg_controllen = sizeof(control);
	control.head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	sendmsg(to, &message, 0);
}

static int receive_file(int from)
{
	int fd = -1;
	message.msg_controllen = sizeof(control);
	if (recvmsg(from, &message, 0) == 1) memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	return fd;
}

static void ask(int to)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD + BPF_W + BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP + BPF_JEQ + BPF_K, SYS_mkdirat, 0, 1),
		BPF_STMT(BPF_RET + BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET + BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {4, code};
	prctl(PR_SET_NAME, "asking");
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	int fd = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter);
	send_file(to, fd);
	for (int i = 0; i < CALLS; i++) mkdirat(-1, "/", 0);
	_exit(0);
}

static int notified(void)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
	pid_t pid = fork();
	if (!pid) ask(pair[1]);
	int fd = receive_file(pair[0]);
	for (int i = 0; fd >= 0 && i < CALLS; i++) {
		struct seccomp_notif asked;
		memset(&asked, 0, sizeof(asked));
		if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &asked)) break;
		usleep(PAUSE_US);
		struct seccomp_notif_resp answer = {.id = asked.id, .error = -1};
		ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &answer);
	}
	waitpid(pid, NULL, 0);
	printf("%d %d\n", CALLS, PAUSE_US);
	return 0;
}

static void wait_in(const char *call)
{
	struct timespec time = {0, WAIT_MS * 1000000L};
	int word = 0;
	prctl(PR_SET_NAME, "stopped");
	if (!strcmp(call, "sleep")) nanosleep(&time, NULL);
	else if (!strcmp(call, "poll")) poll(NULL, 0, WAIT_MS);
	else syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0);
	_exit(0);
}

// Until it waits: after its name, /proc/PID/stat has the state of the process.
static void until_asleep(pid_t pid)
{
	char path[32], text[256] = "";
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	for (;; usleep(1000)) {
		FILE *file = fopen(path, "r");
		if (!file) return;
		char *end = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
		fclose(file);
		if (end && end[2] == 'S') return;
	}
}

int main(int count, char **words)
{
	if (count < 2) return 2;
	if (!strcmp(words[1], "notified")) return notified();
	pid_t pid = fork();
	if (!pid) wait_in(words[1]);
	until_asleep(pid);
	kill(pid, SIGSTOP);
	waitpid(pid, NULL, WUNTRACED);
	kill(pid, SIGCONT);
	waitpid(pid, NULL, 0);
	return 0;
}
