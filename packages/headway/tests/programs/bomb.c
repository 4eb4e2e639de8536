#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void burst(int depth) {
    for (int i = 0; i < 4; i++) if (!fork()) { if (depth) burst(depth - 1); _exit(0); }
    while (wait(0) > 0) ;
}
int main(int argc, char **argv) { burst(argc > 1 ? atoi(argv[1]) : 4); return 0; }
