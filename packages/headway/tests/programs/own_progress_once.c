/* Says what its threads read of themselves, each by name, after more work than waiting takes: own_progress_once
   [fork|-] [WHO]. It waits until an observer tells them. WHO does not wait for long: others (than the first), or all. */
#include <headway.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int tries = 20000;

static int ask(headway_progress_t *p)
{
	struct timespec nap = {0, 5000000};
	int known = headway_progress(p);
	for (int i = 0; i < tries && !known; i++) {
		nanosleep(&nap, NULL);
		known = headway_progress(p);
	}
	return known;
}

static void tell(const char *name)
{
	headway_progress_t p;
	ask(&p);
	for (volatile int i = 0; i < 30000000; i++) {}
	int known = ask(&p);
	printf("%s %d %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %d\n",
		name, known, (int64_t)p.rpi, (int64_t)p.epi, (int64_t)p.kpi, (int64_t)p.iopi, p.ready, p.wait, p.other,
		p.at - p.since, (int)headway_syscall_(SYS_gettid));
	fflush(stdout);
}

static void *thread(void *name)
{
	struct timespec nap = {0, 20000000};
	nanosleep(&nap, NULL);
	tell(name);
	return NULL;
}

int main(int n, char **words)
{
	pthread_t other;
	if (n > 2 && !strcmp(words[2], "all")) tries = 10;
	tell("main");
	if (n > 2) tries = 10;
	pthread_create(&other, NULL, thread, "other");
	pthread_join(other, NULL);
	if (n > 1 && !strcmp(words[1], "fork")) {
		int pid = fork();
		if (!pid) {
			tell("child");
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	return 0;
}
