/*
 * Reads its own progress: own_progress FILE SECONDS [noneffective|poll|state|bursts].
 *
 * It waits until somebody measures it, says "measured", and then logs its figures in FILE, which a test maps: how many, and
 * the last of them. Now and then it sleeps, makes calls and touches pages. With a third word all of that is in a marked
 * region, or a region begins and ends again and again. When nobody measures any more it says "nobody" and ends.
 */
#include <fcntl.h>
#include <headway.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 1 << 16, SPIN = 10000, REST = 1500, PAGES = 4 };

struct log {
	uint64_t n, missed;
	headway_progress_t entries[ROOM];
};

static uint64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void rest(void)
{
	struct timespec nap = {0, 1000000};
	char *pages = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < PAGES; i++)
		pages[i * 4096] = 1;
	munmap(pages, PAGES * 4096);
	for (int i = 0; i < 20; i++)
		getppid();
	nanosleep(&nap, NULL);
}

static int write_log(struct log *log, double seconds, int bursts)
{
	uint64_t end = now() + (uint64_t)(seconds * 1e9);
	headway_tag_t burst = headway_tag("burst");
	while (now() < end) {
		if (!headway_progress(&log->entries[log->n % ROOM])) {
			log->missed++;
			return 0;
		}
		__atomic_store_n(&log->n, log->n + 1, __ATOMIC_RELEASE);
		if (bursts)
			headway_set_noneffective(burst);
		for (uint64_t until = now() + SPIN; now() < until;) {}
		if (bursts)
			headway_clear_noneffective();
		if (log->n % REST == 0)
			rest();
	}
	return 1;
}

int main(int n, char **words)
{
	struct timespec nap = {0, 10000000};
	const char *how = n > 3 ? words[3] : "";
	headway_progress_t mine;
	int fd = open(words[1], O_RDWR), goes_on = 1;
	struct log *log = mmap(NULL, sizeof *log, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || log == MAP_FAILED)
		return 1;
	memset(log, 0, sizeof *log); /* no faults when it is written */
	while (!headway_progress(&mine)) {
		if (mine.rpi || mine.since || mine.at)
			return 2;
		nanosleep(&nap, NULL);
	}
	puts("measured");
	fflush(stdout);
	if (!strcmp(how, "noneffective"))
		HEADWAY_NONEFFECTIVE("log") { goes_on = write_log(log, atof(words[2]), 0); }
	else if (!strcmp(how, "poll"))
		HEADWAY_POLL("log") { goes_on = write_log(log, atof(words[2]), 0); }
	else if (!strcmp(how, "state"))
		HEADWAY_STATE("log") { goes_on = write_log(log, atof(words[2]), 0); }
	else
		goes_on = write_log(log, atof(words[2]), !strcmp(how, "bursts"));
	puts(goes_on ? "over" : "nobody");
	return 0;
}
