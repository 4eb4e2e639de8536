// A child makes calls (20, or as many as the argument says), and its parent stops it before and after each of them.
// The child computes between its calls, so it is always on its own when the next one begins.
#include <signal.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int n, char **arguments)
{
	long calls = n > 1 ? atol(arguments[1]) : 20;
	pid_t child = fork();
	if (!child) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		for (long i = 0; i < calls; i++) {
			syscall(SYS_getppid);
			for (volatile int j = 0; j < 20000; j++)
				;
		}
		_exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	while (!ptrace(PTRACE_SYSCALL, child, 0, 0) && waitpid(child, &status, 0) == child && !WIFEXITED(status))
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 3;
}
