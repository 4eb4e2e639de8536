#include "causes.h"
int main(void) {
    cpu_set_t one; CPU_ZERO(&one); CPU_SET(sched_getcpu(), &one); sched_setaffinity(0, sizeof one, &one);
    for (int i = 0; i < 300; i++) nap(1);
}
