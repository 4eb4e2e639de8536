#include "report.h"
int main(void) {
    char line[512]; int inside = 0; long resident = -1;
    HEADWAY_NONEFFECTIVE("a") {}
    FILE *maps = fopen("/proc/self/smaps", "r");
    while (fgets(line, sizeof line, maps)) {
        if (strstr(line, "/memfd:headway")) inside = 1;
        if (inside && resident < 0 && sscanf(line, "Rss: %ld", &resident) == 1) break;
    }
    printf("kilobytes=%ld\n", resident);
    return 0;
}
