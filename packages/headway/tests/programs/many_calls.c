#include <sys/syscall.h>
#include <unistd.h>
int main(void) { /* numbers that no kernel gives away, and so that fail; then the same ones again */
    for (int round = 0; round < 3; round++) for (int n = 340; n < 420; n++) syscall(n, -1, -1, -1, -1, -1, -1);
    for (int round = 0; round < 3; round++) for (int n = 470; n < 511; n++) syscall(n, -1, -1, -1, -1, -1, -1);
    for (int i = 0; i < 1000; i++) syscall(SYS_getppid);
    return 0;
}
