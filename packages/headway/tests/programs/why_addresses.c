#include "causes.h"
int words[3000];
int main(int argc, char **argv) {
    struct timespec t = {0, 1000};
    for (int i = 0; i < atoi(argv[1]); i++) syscall(SYS_futex, &words[i], FUTEX_WAIT_PRIVATE, 0, &t, 0, 0);
}
