/* Touches pages of its own and pages of a file that are not in memory; says how many faults of each sort it had. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { OWN = 3000, PAGES = 64, PAGE = 4096, APART = 64 * PAGE };

int main(int argc, char **argv)
{
	int file = open(argc > 1 ? argv[1] : "", O_RDONLY);
	struct rusage before, after;
	char *own, *pages;
	volatile char sink;
	if (file < 0 || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED))
		return 1;
	own = mmap(NULL, (size_t)OWN * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pages = mmap(NULL, (size_t)PAGES * APART, PROT_READ, MAP_SHARED, file, 0);
	if (own == MAP_FAILED || pages == MAP_FAILED || madvise(own, (size_t)OWN * PAGE, MADV_NOHUGEPAGE) ||
		madvise(pages, (size_t)PAGES * APART, MADV_RANDOM) || getrusage(RUSAGE_SELF, &before))
		return 1;
	for (long i = 0; i < OWN; i++)
		own[i * PAGE] = 1;
	for (long i = 0; i < PAGES; i++)
		sink = pages[i * APART];
	(void)sink;
	if (getrusage(RUSAGE_SELF, &after))
		return 1;
	printf("%ld %ld\n", after.ru_minflt - before.ru_minflt, after.ru_majflt - before.ru_majflt);
	return 0;
}
