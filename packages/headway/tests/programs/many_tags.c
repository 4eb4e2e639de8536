#include "marking.h"
int main(void) { /* 8 processes with 30 tags each, all different */
    for (int i = 0; i < 8; i++) {
        if (fork()) continue;
        for (int j = 0; j < 30; j++) {
            char name[32];
            snprintf(name, sizeof name, "tag%d", 30 * i + j);
            headway_set_noneffective(headway_tag(name));
            work(100000);
            headway_clear_noneffective();
            syscall(SYS_getppid);
        }
        _exit(0);
    }
    while (wait(0) > 0) ;
    return 0;
}
