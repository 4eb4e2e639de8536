#include <sys/mman.h>
int main(void) {
    long n = 20000;
    char *p = mmap(0, n * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(p, n * 4096, MADV_NOHUGEPAGE);
    for (long i = 0; i < n; i++) p[i * 4096] = 1;
    return 0;
}
