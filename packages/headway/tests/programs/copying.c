/* In a region of progress the kernel works most of the time; it is interrupted by short waits. */
#include "marking.h"
#include <fcntl.h>
int main(int argc, char **argv) {
    static char buffer[1 << 22];
    int zero = open("/dev/zero", O_RDONLY);
    HEADWAY_STATE("copy") work(1000);
    if (argc > 1) {
        puts(argv[1]);
        fflush(stdout);
        if (read(0, buffer, 1) < 0) return 2;
    }
    for (int i = 0; i < 150; i++) {
        HEADWAY_STATE("copy") {
            for (int j = 0; j < 6; j++)
                if (read(zero, buffer, sizeof buffer) < 0) return 1;
            work(500000);
        }
        work(200000);
        usleep(1000);
    }
    return 0;
}
