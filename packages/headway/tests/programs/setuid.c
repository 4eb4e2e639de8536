#include <fcntl.h>
#include <unistd.h>
int main(int argc, char **argv) {
    if (setuid(0)) return 1;
    close(open(argv[1], O_CREAT | O_WRONLY, 0644));
    usleep(3000000);
    return getuid() == 0 && geteuid() == 0 ? 5 : 2;
}
