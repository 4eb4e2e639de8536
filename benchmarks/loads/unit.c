/* A small unit with the headers that many units include: what most of a build of C is made of. */
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct word {
	char *text;
	size_t number;
};

static int by_number(const void *a, const void *b)
{
	size_t x = ((const struct word *)a)->number, y = ((const struct word *)b)->number;
	return x < y ? 1 : x > y ? -1 : 0;
}

int main(void)
{
	struct word *words = NULL;
	size_t n = 0, room = 0;
	char line[4096];
	while (fgets(line, sizeof line, stdin)) {
		for (char *save, *part = strtok_r(line, " \t\n", &save); part; part = strtok_r(NULL, " \t\n", &save)) {
			size_t i;
			for (char *c = part; *c; c++)
				*c = (char)tolower((unsigned char)*c);
			for (i = 0; i < n && strcmp(words[i].text, part); i++)
				;
			if (i == n) {
				if (n == room) {
					room = room ? 2 * room : 16;
					struct word *more = realloc(words, room * sizeof *more);
					if (!more)
						return 1;
					words = more;
				}
				words[n++] = (struct word){strdup(part), 0};
			}
			words[i].number++;
		}
	}
	qsort(words, n, sizeof *words, by_number);
	for (size_t i = 0; i < n && i < 10; i++)
		printf("%zu %s\n", words[i].number, words[i].text);
	return 0;
}
