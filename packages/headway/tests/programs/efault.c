#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    int fd = open("/dev/zero", O_RDONLY);
    char *p = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(p, 4096);
    for (int i = 0; i < 1000; i++) if (pread(fd, p, 100, 0) >= 0) return 1;
    return 0;
}
