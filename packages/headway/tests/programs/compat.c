/* A 32-bit program: it sleeps, and writes. */
#include <time.h>
#include <unistd.h>
int main(void) {
    struct timespec t = {0, 200000000};
    nanosleep(&t, 0);
    return write(1, "1\n", 2) != 2;
}
