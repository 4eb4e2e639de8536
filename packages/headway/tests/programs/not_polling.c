#include "polling.h"
#include <sys/ioctl.h>
#include <sys/stat.h>
int main(int argc, char **argv) {
    const char *how = argv[1];
    int pair[2];
    char byte;
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    if (!strcmp(how, "other calls")) /* something is done after each check */
        for (int i = 0; i < 100000; i++) { recv(pair[0], &byte, 1, MSG_DONTWAIT); syscall(SYS_getppid); }
    if (!strcmp(how, "long gaps")) /* what comes next has nothing to do with the last check */
        for (int i = 0; i < 5000; i++) { recv(pair[0], &byte, 1, MSG_DONTWAIT); work_undisturbed(60000); }
    if (!strcmp(how, "unlike gaps")) /* each is twice or half as long as the one before */
        for (int i = 0; i < 4000; i++) { recv(pair[0], &byte, 1, MSG_DONTWAIT); work_undisturbed(i % 2 ? 80000 : 40000); }
    if (!strcmp(how, "one of two")) /* of two things, the second is always there */
        for (int i = 0; i < 50000; i++) {
            if (send(pair[1], &byte, 1, 0) != 1) return 1;
            recv(pair[1], &byte, 1, MSG_DONTWAIT);
            if (recv(pair[0], &byte, 1, MSG_DONTWAIT) != 1) return 1;
        }
    if (!strcmp(how, "other names")) /* as a shell looks for a command, and always into the same memory */
        for (int i = 0; i < 20000; i++) {
            char path[64];
            struct stat found;
            snprintf(path, sizeof path, "/proc/self/no such folder %d/cc", i % 7);
            if (!syscall(SYS_newfstatat, AT_FDCWD, path, &found, 0)) return 1;
        }
    if (!strcmp(how, "files that are there"))
        for (int i = 0; i < 20000; i++) {
            struct stat found;
            int bytes;
            if (send(pair[1], &byte, 1, 0) != 1 || ioctl(pair[0], FIONREAD, &bytes) || bytes != 1) return 1;
            if (syscall(SYS_newfstatat, AT_FDCWD, "/", &found, 0) || recv(pair[0], &byte, 1, MSG_DONTWAIT) != 1) return 1;
        }
    return 0;
}
