#include <unistd.h>
__attribute__((noinline)) void step(void) { __asm__ volatile("" ::: "memory"); }
int main(void) { char c; write(1, "ready\n", 6); read(0, &c, 1); for (int i = 0; i < 8; i++) step(); }
