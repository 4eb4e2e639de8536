#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void)
{
    /* push rbp; mov rbp, rsp; mov ecx, n; loop: dec ecx; jnz loop; pop rbp; ret */
    unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0xb9, 0, 0, 0, 0x10, 0xff, 0xc9, 0x75, 0xfc, 0x5d, 0xc3};
    char path[64];
    void *made = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(made, code, sizeof(code));
    snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
    FILE *map = fopen(path, "w");
    fprintf(map, "%lx %lx py::hot_loop:/src/app.py\n", (unsigned long)made, (unsigned long)sizeof(code));
    fclose(map);
    puts(path);
    fflush(stdout);
    ((void (*)(void))made)();
    ((void (*)(void))made)();
    return 0;
}
