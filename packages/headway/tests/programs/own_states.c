/*
 * Says what its threads read of themselves by state, and of each other: own_states SECONDS [NAME] [SECONDS].
 *
 * It waits until somebody measures it. The main thread works in regions and makes calls for SECONDS, and looks at each reading
 * whether its processor time went back, or its states do not add up. Another thread sleeps and spins meanwhile. Then it
 * writes lines: "back N", "wrong N", "state NAME TIME COUNT" of the main thread, "thread TID NAME RUNNING RPI WAIT" of
 * each thread that it can read, where the first word is whether it is one of this process. NAME: what the main thread is
 * called. The last word: it lives so much longer.
 */
#include <headway.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static volatile int over;

static void *sleeper(void *unused)
{
	struct timespec nap = {0, 3000000};
	(void)unused;
	headway_syscall_(SYS_prctl, 15L /* PR_SET_NAME */, "sleeper", 0L, 0L, 0L);
	while (!over) {
		nanosleep(&nap, NULL);
		for (volatile int i = 0; i < 100000; i++) {
		}
	}
	return NULL;
}

static void work(void)
{
	struct timespec nap = {0, 100000};
	HEADWAY_STATE("render")
	{
		for (volatile int i = 0; i < 20000; i++) {
		}
	}
	HEADWAY_NONEFFECTIVE("gc")
	{
		for (volatile int i = 0; i < 10000; i++) {
		}
	}
	HEADWAY_POLL("ring")
	{
		for (volatile int i = 0; i < 5000; i++) {
		}
	}
	for (int i = 0; i < 20; i++)
		getppid();
	nanosleep(&nap, NULL);
}

int main(int n, char **words)
{
	static headway_states_t first, last, now, grown;
	static headway_thread_t threads[64];
	struct timespec nap = {0, 5000000};
	uint64_t back = 0, wrong = 0, end;
	pthread_t other;
	char name[32];
	if (n > 2)
		headway_syscall_(SYS_prctl, 15L, words[2], 0L, 0L, 0L);
	pthread_create(&other, NULL, sleeper, NULL);
	while (!headway_states(&first))
		nanosleep(&nap, NULL);
	last = first;
	for (end = headway_now_() + (uint64_t)(atof(words[1]) * 1e9); headway_now_() < end;) {
		work();
		for (int i = 0; i < 300; i++) {
			int64_t sum = 0, between = 0;
			if (!headway_states(&now))
				return 2;
			for (uint32_t j = 0; j < now.n; j++)
				sum += now.states[j].time;
			if (!headway_states_between(&last, &now, &grown))
				return 3;
			for (uint32_t j = 0; j < grown.n; j++)
				between += grown.states[j].time;
			back += now.progress.rpi < last.progress.rpi || now.progress.other < last.progress.other;
			wrong += (uint64_t)sum != now.progress.at - now.progress.since ||
				(uint64_t)between != now.progress.at - last.progress.at;
			last = now;
		}
	}
	printf("back %llu\nwrong %llu\n", (unsigned long long)back, (unsigned long long)wrong);
	for (uint32_t i = 0; i < last.n; i++)
		if (headway_state_name(last.states[i].state, name))
			printf("state %s %lld %lld\n", name, (long long)last.states[i].time, (long long)last.states[i].count);
	uint32_t found = headway_threads(0, threads, 64);
	for (uint32_t i = 0; i < found && i < 64; i++)
		printf("thread %u %u %s %u %llu %llu\n", threads[i].pid == (uint32_t)getpid(), threads[i].tid, threads[i].name,
			threads[i].running, (unsigned long long)threads[i].progress.rpi,
			(unsigned long long)threads[i].progress.wait);
	fflush(stdout);
	if (n > 3)
		usleep((useconds_t)(atof(words[3]) * 1e6));
	over = 1;
	pthread_join(other, NULL);
	return 0;
}
