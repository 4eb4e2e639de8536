#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) { /* looks for a file that never comes; then at one that is there */
    for (int i = 0; i < 50000; i++) if (!syscall(SYS_access, "/no/such/file", F_OK)) return 1;
    for (int i = 0; i < 1000; i++) if (syscall(SYS_access, "/", F_OK)) return 1;
    return 0;
}
