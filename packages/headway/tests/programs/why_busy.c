#include "causes.h"
static void *busy(void *text) { name(text); for (double end = now() + 0.6; now() < end;); return 0; }
int main(void) {
    cpu_set_t one; CPU_ZERO(&one); CPU_SET(sched_getcpu(), &one); sched_setaffinity(0, sizeof one, &one);
    pthread_t a, b;
    pthread_create(&a, 0, busy, "first"); pthread_create(&b, 0, busy, "second");
    pthread_join(a, 0); pthread_join(b, 0);
}
