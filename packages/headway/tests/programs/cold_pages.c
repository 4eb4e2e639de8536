/* Reads pages of a file that are not in memory: first its own code does, then a system call. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 64, PAGE = 4096, APART = 64 * PAGE };

int main(int argc, char **argv)
{
	int file = open(argc > 1 ? argv[1] : "", O_RDONLY), ends[2];
	static char page[PAGE];
	char *pages;
	if (file < 0 || pipe(ends) || posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED))
		return 1;
	pages = mmap(NULL, (size_t)PAGES * APART, PROT_READ, MAP_SHARED, file, 0);
	if (pages == MAP_FAILED || madvise(pages, (size_t)PAGES * APART, MADV_RANDOM))
		return 1;
	for (int i = 0; i < PAGES; i++) {
		if (i % 2) {
			if (write(ends[1], pages + (size_t)i * APART, PAGE) != PAGE || read(ends[0], page, PAGE) != PAGE)
				return 1;
		} else {
			page[0] = *(volatile char *)(pages + (size_t)i * APART);
		}
	}
	return 0;
}
