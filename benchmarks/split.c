/* Computes and reads /dev/zero in turn: split ROUNDS LOOPS KIB, so many loops and so many KiB of zeros in each round. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long rounds = argc > 3 ? atol(argv[1]) : 0;
	if (!rounds)
		return 2;
	long loops = atol(argv[2]);
	size_t size = (size_t)atol(argv[3]) << 10;
	char *zeros = malloc(size ? size : 1);
	int from = open("/dev/zero", O_RDONLY);
	if (!zeros || from < 0)
		return 1;
	for (long i = 0; i < rounds; i++) {
		for (volatile long n = 0; n < loops; n++)
			;
		if (size && read(from, zeros, size) != (ssize_t)size)
			return 1;
	}
	return 0;
}
